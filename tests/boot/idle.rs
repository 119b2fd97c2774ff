// SPDX-License-Identifier: GPL-2.0-only
//! Is each exit of an idle guest charged to what caused it?

use crate::support::{
    base_kernel, compile, endless, host_spec, kernel, pair, row_of, stock, PATIENCE,
};
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Load},
};
use paratick_core::{
    cause::Cause,
    wakeups::{
        advice, offenders, rounds, summary, with_slack, Class, GuestWakeups, Knob, Offender, Round,
        Saving, Source, Summary, Trial,
    },
};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::json;
use std::time::Duration;

pub const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/idle/ticker.c");
pub const TICKER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/ticker");
const TIME: Duration = Duration::from_secs(5);
/// So much that a hundred exits more or less, which single boots have, do not decide.
pub const LONG: Duration = Duration::from_secs(20);

pub struct Found {
    pub sums: Summary,
    pub offenders: Vec<Offender>,
    /// With three times the ticker's period of slack.
    pub saving: Saving,
    rounds: Vec<Round>,
    woken: GuestWakeups,
}

pub const SLACK: u64 = 150_000_000;

fn recorded(host: &Host, guest: &Guest, command: &[&str], slack: Option<u64>) -> Found {
    let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
    let names = ["ticker".to_string()].into();
    let slack = slack.map(|slack| (&names, slack));
    recorded_with(host, guest, Load { command: &command, slack, knobs: &[] }, TIME)
}

pub fn recorded_with(host: &Host, guest: &Guest, load: Load, time: Duration) -> Found {
    let both = Sides::BOTH;
    let recorded = record(host, guest, both, time, load, PATIENCE).unwrap();
    let (Some(seen), Some(woken)) = (&recorded.host, &recorded.guest) else {
        panic!("both sides were asked");
    };
    let rounds = rounds(woken, Some((seen, guest.pid())));
    let (sums, offenders) = (summary(woken, &rounds), offenders(&rounds));
    println!("{sums:?}");
    for one in &offenders {
        println!("{} {:?}", one.source, one);
    }
    // Nothing is lost, nothing counts twice, and each exit has a reason.
    assert_eq!(sums.unexplained, 0);
    assert_eq!(offenders.iter().map(Offender::all_exits).sum::<u64>(), sums.all_exits());
    assert!(sums.all_exits() > 0);
    let halts = sums.exits.get(&Cause::Halt).copied().unwrap_or(0);
    assert_eq!(sums.idle_entries, halts, "each idle period is one halt");
    let saving = with_slack(woken, &rounds, SLACK);
    let woken = woken.clone();
    Found { sums, offenders, saving, rounds, woken }
}

pub fn of_program<'a>(offenders: &'a [Offender], name: &str) -> &'a Offender {
    let its = |one: &&Offender| one.source.process().is_some_and(|process| process.name == name);
    offenders.iter().find(its).expect("it wakes the guest")
}

/// On stock kernels and on ours: a program that wakes up 20 times a second is found, with its rate,
/// its class, where it sleeps, and what it costs: an arm, an expiry or the halt, each time.
#[test]
fn who_wakes_a_guest_is_named_with_its_exits() {
    compile(PROGRAM, TICKER);
    for (image, mode) in [(base_kernel(), "tickless"), (kernel(), "paratick+nopoll")] {
        let (host, guest) = pair(host_spec(image.clone(), 2, &[]), image, 2, mode, &[]);
        let Found { offenders, .. } = recorded(&host, &guest, &[TICKER, "50000000", "1"], None);
        let ticker = of_program(&offenders, "ticker");
        let Source::Timer { timer } = &ticker.source else { panic!("{ticker:?}") };
        assert_eq!((timer.function.as_str(), timer.class), ("hrtimer_wakeup", Class::Slack));
        // By which its C library sleeps.
        assert_eq!(timer.start.as_deref(), Some("__x64_sys_clock_nanosleep"));
        let compacts = of_program(&offenders, "kcompactd0");
        let Source::Timer { timer } = &compacts.source else { panic!("{compacts:?}") };
        let found = (timer.function.as_str(), timer.start.as_deref());
        assert_eq!(found, ("process_timeout", Some("kcompactd")), "{mode}");
        assert!((98..=101).contains(&ticker.expiries), "{mode}: {}", ticker.expiries);
        assert!(ticker.wakeups * 100 >= ticker.expiries * 95, "{mode}: {ticker:?}");
        let each = ticker.all_exits() as f64 / ticker.wakeups as f64;
        println!("{mode}: {each:.2} exits for each wake-up");
        match mode {
            "tickless" => assert!((2.5..5.0).contains(&each), "{each}"),
            _ => assert!((1.0..1.5).contains(&each), "{each}"),
        }
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// It wakes a program on the other CPU: that one's exits are for the same timer.
#[test]
fn a_wake_up_that_is_passed_on_is_charged_to_who_began_it() {
    compile(PROGRAM, TICKER);
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick+nopoll", &[]);
    let argv = [TICKER, "50000000", "1", "pass"];
    let Found { offenders, .. } = recorded(&host, &guest, &argv, None);
    let ticker = of_program(&offenders, "ticker");
    assert!((98..=101).contains(&ticker.expiries), "{}", ticker.expiries);
    let both = 2 * ticker.expiries;
    // A few more or fewer: in one boot there were 203.
    assert!((both * 95 / 100..=both * 105 / 100).contains(&ticker.wakeups), "{ticker:?}");
    assert!(ticker.exits[&Cause::Ipi] * 100 >= ticker.expiries * 95, "{ticker:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Three periods of slack: it sleeps for up to four, and then wakes up with another timer if there
/// is one.
#[test]
fn what_slack_saves_is_predicted() {
    compile(PROGRAM, TICKER);
    let spec = host_spec(kernel(), 2, &[]);
    for mode in ["tickless", "paratick+nopoll"] {
        let found = |slack| {
            let (host, guest) = pair(spec.clone(), kernel(), 2, mode, &[]);
            // The same slack that programs have: 50 us.
            let found = recorded(&host, &guest, &[TICKER, "50000000"], slack);
            guest.shutdown().unwrap();
            found
        };
        let Found { saving, .. } = found(None);
        let Found { sums, offenders, .. } = found(Some(SLACK));
        let counted = of_program(&offenders, "ticker").expiries;
        println!("{mode}: {saving:?}; counted {counted}, {} exits", sums.all_exits());
        assert!(saving.predicted_expiries * 2 < saving.expiries, "{saving:?}");
        assert_close(saving.predicted_expiries as f64, counted, 0.15);
        assert_close(saving.predicted_exits, sums.all_exits(), 0.15);
    }
}

/// What the rest of the guest does differs from boot to boot.
pub fn assert_close(predicted: f64, counted: u64, share: f64) {
    let off = (predicted - counted as f64).abs();
    assert!(off <= share * counted as f64 + 10.0, "{predicted} for {counted}");
}

/// Nothing runs in it but its kernel: what ends most of that is found, predicted, and counted.
#[test]
fn what_settings_end_and_a_mode_saves_is_predicted() {
    let spec = host_spec(kernel(), 2, &[]);
    let [watchdog, compaction] =
        ["boot:tsc=nowatchdog", "sysctl:vm.compaction_proactiveness=0"].map(|knob| knob.parse());
    let knobs: Vec<Knob> = vec![watchdog.unwrap(), compaction.unwrap()];
    let found = |mode: &str, append: &[&str], knobs: &[Knob]| {
        let (host, guest) = pair(spec.clone(), kernel(), 2, mode, append);
        let found = recorded_with(&host, &guest, Load { knobs, ..Load::default() }, LONG);
        guest.shutdown().unwrap();
        found
    };
    let now = found("tickless", &[], &[]);
    let told: Vec<Knob> = advice(&now.woken, &now.rounds).into_iter().map(|one| one.knob).collect();
    assert!(knobs.iter().all(|knob| told.contains(knob)), "{told:?}");
    let without = found("tickless", &["tsc=nowatchdog"], &knobs);
    let [before, after] = [&now, &without].map(of_both);
    println!("{before} and {after} exits");
    assert!(before * 2 > now.sums.all_exits(), "{before}");
    // kcompactd may have set its last timer before.
    assert!(after <= 20, "{after}");

    let with = found("paratick+nopoll", &[], &[]);
    let trial = Trial::predict(&now.woken, &now.rounds, &["mode:paratick+nopoll".parse().unwrap()]);
    let ticks = of_host_ticks(&with);
    let (predicted, counted) = (trial.predicted_exits.unwrap(), with.sums.all_exits() - ticks);
    println!("{trial:?}; counted {counted}, and {ticks} for the host's ticks");
    assert!(counted * 2 < trial.exits, "{trial:?}");
    assert_close((trial.exits - predicted) as f64, trial.exits - counted, 0.15);
}

/// Debian's 7.3 has DAMON_STAT on by default: much of what an idle guest has is its thread's, which
/// looks less and less often.
#[test]
fn damon_s_statistics_are_found_and_end_as_predicted() {
    const DAMON_STAT: &str = "damon_stat.enabled=N";
    let knob: Knob = format!("boot:{DAMON_STAT}").parse().unwrap();
    let stock = stock("7.3").bzimage;
    let found = |append: &[&str]| {
        let (host, guest) = pair(host_spec(kernel(), 1, &[]), stock.clone(), 1, "tickless", append);
        let found = recorded_with(&host, &guest, Load::default(), LONG);
        guest.shutdown().unwrap();
        found
    };
    let now = found(&[]);
    let told = advice(&now.woken, &now.rounds);
    assert_eq!(told.iter().find(|one| one.knob.mode().is_none()).unwrap().knob, knob, "{told:?}");
    let trial = Trial::predict(&now.woken, &now.rounds, std::slice::from_ref(&knob));
    let with = found(&[DAMON_STAT]);
    let (predicted, counted) = (trial.predicted_exits.unwrap(), with.sums.all_exits());
    println!("{trial:?}; counted {counted}");
    assert!(predicted * 4 < trial.exits * 3, "{trial:?}");
    assert_close(predicted as f64, counted, 0.2);
    assert!(advice(&with.woken, &with.rounds).iter().all(|one| one.knob != knob));
}

/// In 7.3 the scheduler arms a timer for the end of a slice, beside the tick's.
#[test]
fn what_ends_of_slices_cost_a_busy_guest_is_found_and_ends_as_predicted() {
    let knob: Knob = "sched:NO_HRTICK".parse().unwrap();
    let knobs = std::slice::from_ref(&knob);
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), stock("7.3").bzimage, 1, "tickless", &[]);
    let command = ["sh".into(), "-c".into(), endless("cpu --threads 2")];
    let load = Load { command: &command, ..Load::default() };
    let time = Duration::from_secs(2);
    let now = recorded_with(&host, &guest, load, time);
    let told = advice(&now.woken, &now.rounds);
    assert_eq!(told.iter().find(|one| one.knob.mode().is_none()).unwrap().knob, knob, "{told:?}");
    let trial = Trial::predict(&now.woken, &now.rounds, knobs);
    let with = recorded_with(&host, &guest, Load { knobs, ..load }, time);
    let (predicted, counted) = (trial.predicted_exits.unwrap(), with.sums.all_exits());
    println!("{trial:?}; counted {counted}");
    assert!(predicted * 4 < trial.exits * 3, "{trial:?}");
    assert_close(predicted as f64, counted, 0.1);
    assert!(advice(&with.woken, &with.rounds).iter().all(|one| one.knob != knob));
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// The lab's sampler, every 46 ms on each CPU, is made deferrable, and rounded to full seconds.
/// Who had been served with it then needs wake-ups and IPIs of its own.
#[test]
fn what_deferring_and_rounding_a_timer_save_is_predicted() {
    let spec = host_spec(kernel(), 2, &[]);
    let found = |knob: Option<&Knob>| {
        let mut append = vec!["lab_sampler.period_us=46083".to_string()];
        append.extend(knob.into_iter().flat_map(|knob| knob.parameters().unwrap()));
        let append: Vec<&str> = append.iter().map(String::as_str).collect();
        let (host, guest) = pair(spec.clone(), kernel(), 2, "tickless-stop", &append);
        let found = recorded_with(&host, &guest, Load::default(), LONG);
        guest.shutdown().unwrap();
        found
    };
    let now = found(None);
    for knob in ["defer:lab_sampler_fn", "round:lab_sampler_fn"] {
        let knob: Knob = knob.parse().unwrap();
        let trial = Trial::predict(&now.woken, &now.rounds, std::slice::from_ref(&knob));
        let counted = found(Some(&knob)).sums.all_exits();
        let saved = trial.exits - trial.predicted_exits.unwrap();
        println!("{knob}: {saved} saved of {}, counted {}", trial.exits, trial.exits - counted);
        row_of(
            "deferring",
            &[
                ("`--try`", json!(format!("`{knob}`"))),
                ("exits in 20 s", json!(trial.exits)),
                ("predicted to be saved", json!(saved)),
                ("saved", json!(trial.exits - counted)),
            ],
        );
        assert!(saved * 3 > trial.exits, "{trial:?}");
        assert_close(saved as f64, trial.exits - counted, 0.15);
    }
}

/// In one host of ten or so, its tick falls into each wake-up of the guest: an exit, a second when
/// the guest takes interrupts again, and a halt for the virtual tick.  No recording of another boot
/// can tell.
fn of_host_ticks(found: &Found) -> u64 {
    let [host, other, eoi] = [Cause::HostTick, Cause::Other, Cause::Eoi]
        .map(|cause| found.sums.exits.get(&cause).copied().unwrap_or(0));
    let virtual_ticks = found.offenders.iter().filter(|one| one.source == Source::Tick);
    match host {
        0 => 0,
        // Without ticks, an interrupt's window for each EOI is all of them.
        _ => host + other.abs_diff(eoi) + virtual_ticks.map(Offender::all_exits).sum::<u64>(),
    }
}

/// Exits for the watchdog of the TSC and for kcompactd.
fn of_both(found: &Found) -> u64 {
    let its = |one: &&Offender| {
        let of = one.source.process().is_some_and(|one| one.name.starts_with("kcompactd"));
        of || one.source.to_string() == "clocksource_watchdog"
    };
    found.offenders.iter().filter(its).map(Offender::all_exits).sum()
}
