// SPDX-License-Identifier: GPL-2.0-only
//! `paratick serve`.

mod http;

use crate::{errors::usage, print::errln, signals};
use anyhow::{bail, Context, Result};
use clap::Args as Arguments;
use http::{Asked, Told};
use paratick_observe::{
    check, keep_to_reading, running, Format, Metrics, Sums, Wanted, Watch, STEP,
};
use sd_notify::NotifyState;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::{FromRawFd, OwnedFd, RawFd},
    process::ExitCode,
    sync::{atomic::Ordering, mpsc::sync_channel, Arc},
    thread::sleep,
    time::{Duration, Instant},
};

/// Tell Prometheus the exits of the VMs that run on this machine
///
/// Counts as `paratick exits` does, from the start on, and answers at http://ADDR:PORT/metrics with
/// OpenMetrics, or with Prometheus' older format: per VM and cause, exits, and where their time
/// goes.  A VM's series end when the VM does; the sums of the whole host go on.  Needs what
/// `paratick exits` needs; docs/serve.md has the metrics.
/// Exit codes: 0 ended by a signal, 2 wrong usage, 69 could not listen or look.
#[derive(Arguments)]
pub struct Args {
    /// Where to listen [default: the socket that systemd passes, or else 127.0.0.1:10186]
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Keep the vCPUs of a VM apart by a label `vcpu`: so many times the series
    #[arg(long)]
    by_vcpu: bool,
}

/// Above 9100 to 9999, which other exporters have.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10186);

/// A VM that runs exits sooner.
const PATIENCE: Duration = Duration::from_secs(10);

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "it is no IP address with a port\n\
             hint: write {ADDRESS}, [::1]:{0}, or 0.0.0.0:{0} for all who reach this machine",
            ADDRESS.port()
        )
    })
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let leaving = signals::watch_for_end()?;
    let listener = listener(args.listen)?;
    check()?;
    let mut watch = Watch::start(Wanted::default(), Vec::new(), &[])?;
    if watch.read()?.vmm_end_unknown {
        errln!("this kernel does not tell when a VMM is left: its time lasts to the entry");
    }
    // It takes a right that reading does not; under the unit of systemd, no other's are seen.
    let mut silent = running().first().map(|vm| vm.process);
    // Before anybody is listened to.
    keep_to_reading()?;
    errln!("listening on http://{}/metrics", listener.local_addr()?);
    let (asked, requests) = sync_channel(http::MOST);
    http::serve(listener, asked, http::TIME);
    sd_notify::notify(&[NotifyState::Ready]).context("cannot tell systemd that this runs")?;
    let mut past = Sums::default();
    let begun = Instant::now();
    while leaving.load(Ordering::SeqCst) == 0 {
        sleep(STEP);
        watch.look()?;
        past.add(&watch.take_ended());
        let over = silent.take_if(|_| watch.was_told() || begun.elapsed() > PATIENCE);
        if let Some(first) = over.filter(|_| !watch.was_told()) {
            errln!(
                "KVM told of no exit in {} s, though VMs run here, such as process {first}: they \
                 are paused, or this KVM does not tell (see paratick doctor)",
                PATIENCE.as_secs()
            );
        }
        // However many ask, and however often: one reading a step.
        let waiting: Vec<Asked> = requests.try_iter().collect();
        if !waiting.is_empty() {
            answer(&mut watch, &past, args.by_vcpu, waiting)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(watch: &mut Watch, past: &Sums, by_vcpu: bool, waiting: Vec<Asked>) -> Result<()> {
    let seen = watch.read_often()?;
    let metrics = match watch.check_told(&seen) {
        Ok(()) => Ok(Metrics::of(seen, past, by_vcpu)),
        Err(error) => Err(Arc::<str>::from(format!("{error:#}"))),
    };
    let mut told: BTreeMap<Format, Told> = BTreeMap::new();
    for Asked { format, answer } in waiting {
        let text = told.entry(format).or_insert_with(|| match &metrics {
            Ok(metrics) => Ok(metrics.text(format).into()),
            Err(why) => Err(why.clone()),
        });
        // Whoever asked may be gone.
        let _ = answer.send(text.clone());
    }
    Ok(())
}

fn listener(listen: Option<SocketAddr>) -> Result<TcpListener> {
    let passed = sd_notify::listen_fds().context("systemd passes no socket")?;
    match (&passed.collect::<Vec<RawFd>>()[..], listen) {
        ([], listen) => bind(listen.unwrap_or(ADDRESS)),
        (_, Some(_)) => Err(usage(
            "--listen has no effect where systemd passes a socket\n\
             hint: omit --listen, and set ListenStream= in paratick.socket",
        )),
        (&[socket], None) => {
            // SAFETY: systemd passes it to this process, and nothing else here takes it.
            let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(socket) });
            let is_tcp = listener.local_addr().and_then(|_| listener.set_nonblocking(false));
            is_tcp.context(
                "what systemd passes is no TCP socket\nhint: set ListenStream= to ADDR:PORT",
            )?;
            Ok(listener)
        }
        (_, None) => bail!(
            "systemd passes more than one socket\n\
             hint: have one ListenStream= in paratick.socket"
        ),
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "name another port with --listen, or end who listens: ss -ltnp sport = :{}",
                address.port()
            ),
            std::io::ErrorKind::PermissionDenied => "name a port above 1023 with --listen".into(),
            _ => "name an address of this machine with --listen".into(),
        };
        anyhow::anyhow!("cannot listen on {address}: {error}\nhint: {hint}")
    })
}
