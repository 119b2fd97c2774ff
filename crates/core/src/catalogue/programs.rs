// SPDX-License-Identifier: GPL-2.0-only
//! The programs of `bench sequential`, `multithreaded`, `network` and `io`, from `programs.toml`.

use crate::{
    disk_device::DiskDevice,
    network,
    results::{PlannedWorkload, Program},
    size::Size,
    workload,
};
use serde::Deserialize;
use std::{net::Ipv4Addr, sync::OnceLock};

const LIST: &str = include_str!("programs.toml");
/// What fio works on: the disk must be as large.
pub const IO_DISK: Size = Size::mib(64);

/// The root file system in the guest's memory that programs run in: the agent's
/// `workload program --root`.
pub const ROOT: &str = "/tmp/paratick/root";

/// A program of Debian's, in the place of a workload of PARSEC's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    pub name: String,
    /// Which workload of PARSEC's.
    pub stands_for: String,
    /// In which it is alike: one sentence.
    pub why: String,
    /// Of Debian 12.
    pub packages: Vec<String>,
    /// Makes its input; for `sh -c` in the folder where the commands run too.
    pub prepare: Option<String>,
    /// On one thread.
    pub sequential: String,
    /// With `{threads}` for their number.
    pub parallel: String,
}

/// A kernel of the agent's own: what no package offers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// The agent's workload.
    pub name: String,
    pub stands_for: String,
    pub why: String,
    /// The agent's `--work`, which all threads share.
    pub work: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoSpec {
    /// Such as `seqr-4k`.
    pub name: String,
    /// The paper's: seqr, seqwr, rndr, rndwr.
    pub category: String,
    pub command: String,
    pub block_bytes: u64,
    /// How many blocks one run reads or writes.
    pub ios: u64,
}

/// A program in one guest that talks to a server in another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    pub name: String,
    /// What it shows: one sentence.
    pub why: String,
    pub packages: Vec<String>,
    /// One simple command, with `{server}` for the server's address.
    pub server: String,
    pub command: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<ProgramSpec>,
    kernel: Vec<KernelSpec>,
    network: Vec<NetworkSpec>,
    io: Io,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Io {
    package: String,
    command: String,
    category: Vec<Category>,
    block: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Category {
    name: String,
    rw: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    kib: u64,
    ios: u64,
}

fn list() -> &'static List {
    static READ: OnceLock<List> = OnceLock::new();
    READ.get_or_init(|| toml::from_str(LIST).expect("a test reads what is built in"))
}

/// The package that [`preparation`] needs.
pub const TRACER: &str = "strace";

/// For `sh -c` in the folder of a program, with the agent's path: makes the program's input, and
/// runs it once, so that all its files come to be in memory, in [`ROOT`].
pub fn preparation(program: &Program, agent: &str) -> String {
    let input = program.prepare.as_deref().unwrap_or("true").trim();
    let traced = traced(&program.command, ".trace");
    format!(
        "set -e\n{input}\n\
         {traced} >.output 2>&1 || {{ code=$?; tail -c 2000 .output >&2; exit $code; }}\n\
         {agent} make-root {ROOT} .trace"
    )
}

/// The command, for `sh -c`, in a way that the files it reads are listed in the file `to`.
pub fn traced(command: &str, to: &str) -> String {
    let quoted = command.replace('\'', r"'\''");
    format!("{TRACER} -f --seccomp-bpf -e trace=%file -s 4096 -o {to} sh -c '{quoted}'")
}

/// Thirteen, one for each workload of PARSEC's.
pub fn programs() -> &'static [ProgramSpec] {
    &list().program
}

/// What `bench multithreaded` runs besides.
pub fn kernels() -> &'static [KernelSpec] {
    &list().kernel
}

/// What `bench network` runs.
pub fn network() -> &'static [NetworkSpec] {
    &list().network
}

pub fn io_package() -> &'static str {
    &list().io.package
}

/// Those that a workload's program comes from; of the user's own that is not known.
pub fn packages(planned: &PlannedWorkload) -> Vec<&'static str> {
    let listed = programs().iter().find(|one| one.name == planned.workload);
    match (&planned.program, listed) {
        (Some(run), Some(one)) if run.stands_for.is_some() => {
            one.packages.iter().map(String::as_str).collect()
        }
        (Some(_), None) if is_io(planned) => vec![io_package()],
        (Some(run), None) if run.server.is_some() => {
            let listed = network().iter().find(|one| one.name == planned.workload);
            listed.map_or(Vec::new(), |one| one.packages.iter().map(String::as_str).collect())
        }
        _ => Vec::new(),
    }
}

/// What shows on the machine which files a workload's program reads: itself, with its server beside
/// it, and for fio's jobs, which all read the same, one that writes to a file instead of the
/// guest's disk.  None: there is nothing to show.
pub fn on_the_machine(planned: &PlannedWorkload) -> Option<Program> {
    let program = planned.program.as_ref().filter(|one| !one.in_place)?;
    if is_io(planned) {
        let device = DiskDevice::default();
        let command = io(device).into_iter().find(|job| job.category == "seqwr")?.command;
        return Some(Program {
            // A file system in memory may not know O_DIRECT.
            command: command.replace(device.path(), "disk").replace(" --buffered=0", ""),
            ..program.clone()
        });
    }
    let Some(server) = &program.server else { return Some(program.clone()) };
    let script = format!(
        "{server} >server.log 2>&1 & server=$!; sleep 1; {}; code=$?; kill $server; wait; \
         exit $code",
        program.command
    );
    let (there, here) = (network::SERVER.to_string(), Ipv4Addr::LOCALHOST.to_string());
    Some(Program { command: script.replace(&there, &here), server: None, ..program.clone() })
}

/// Not the user's own.
pub fn is_listed(planned: &PlannedWorkload) -> bool {
    let listed = |program: &Program| program.stands_for.is_some() || program.server.is_some();
    let own = |program: &Program| !listed(program) && !is_io(planned);
    !planned.program.as_ref().is_some_and(own)
}

/// One of the list's jobs; a user's may read other files.
pub fn is_io(planned: &PlannedWorkload) -> bool {
    DiskDevice::ALL.into_iter().flat_map(io).any(|job| job.planned() == *planned)
}

/// Every category with every block size, in the paper's order, on this device of a guest's.
pub fn io(device: DiskDevice) -> Vec<IoSpec> {
    let io = &list().io;
    let of = |category: &Category| {
        let category = (category.name.clone(), category.rw.clone());
        io.block.iter().map(move |block| io.job(&category, block, device))
    };
    io.category.iter().flat_map(of).collect()
}

impl Io {
    fn job(&self, (category, rw): &(String, String), block: &Block, device: DiskDevice) -> IoSpec {
        let size = format!("{}k", block.kib);
        let name = format!("{category}-{size}");
        let command = self
            .command
            .replace("{name}", &name)
            .replace("{device}", device.path())
            .replace("{rw}", rw)
            .replace("{bs}", &size)
            .replace("{ios}", &block.ios.to_string());
        IoSpec {
            name,
            category: category.clone(),
            command,
            block_bytes: block.kib << 10,
            ios: block.ios,
        }
    }
}

impl ProgramSpec {
    /// One run of it; `None`: the sequential command.
    pub fn planned(&self, threads: Option<u32>) -> PlannedWorkload {
        let command = match threads {
            None => self.sequential.clone(),
            Some(threads) => self.parallel.replace("{threads}", &threads.to_string()),
        };
        let stands_for = Some(self.stands_for.clone());
        let prepare = self.prepare.clone();
        let program = Program { command, prepare, stands_for, ..Program::default() };
        PlannedWorkload::run_of(&self.name, program)
    }
}

impl KernelSpec {
    pub fn planned(&self) -> PlannedWorkload {
        let known = workload::find(&self.name).expect("a test holds both tables together");
        PlannedWorkload::of(known, self.work)
    }
}

impl NetworkSpec {
    pub fn planned(&self) -> PlannedWorkload {
        let of = |text: &str| text.replace("{server}", &network::SERVER.to_string());
        let server = Some(of(&self.server));
        let program = Program { command: of(&self.command), server, ..Program::default() };
        PlannedWorkload::run_of(&self.name, program)
    }
}

impl IoSpec {
    pub fn planned(&self) -> PlannedWorkload {
        let program = Program { command: self.command.clone(), ..Program::default() };
        PlannedWorkload::run_of(&self.name, program)
    }

    /// Read or written in one run.
    pub fn bytes(&self) -> u64 {
        self.block_bytes * self.ios
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PARSEC: [&str; 13] = [
        "blackscholes",
        "bodytrack",
        "canneal",
        "dedup",
        "facesim",
        "ferret",
        "fluidanimate",
        "freqmine",
        "raytrace",
        "streamcluster",
        "swaptions",
        "vips",
        "x264",
    ];

    #[test]
    fn every_workload_of_parsec_has_one_program() {
        let stood_for: Vec<_> = programs().iter().map(|one| one.stands_for.as_str()).collect();
        assert_eq!(stood_for, PARSEC);
        assert!(kernels().iter().all(|kernel| PARSEC.contains(&kernel.stands_for.as_str())));
        let names: BTreeSet<_> = programs().iter().map(|one| &one.name).collect();
        assert_eq!(names.len(), PARSEC.len());
    }

    #[test]
    fn the_agent_knows_the_kernels_and_the_workload_that_runs_programs() {
        for kernel in kernels() {
            assert_eq!(kernel.planned().workload, kernel.name);
        }
        let runs = programs()[0].planned(None);
        assert_eq!(workload::find("program").unwrap().unit, runs.unit);
    }

    #[test]
    fn commands_get_the_number_of_threads_and_nothing_is_left_to_fill_in() {
        for program in programs() {
            assert!(!program.sequential.contains("{threads}"), "{}", program.name);
            assert!(program.parallel.contains("{threads}"), "{}", program.name);
            let command = program.planned(Some(16)).program.unwrap().command;
            assert!(command.contains("16") && !command.contains("{threads}"), "{command}");
        }
        for job in DiskDevice::ALL.into_iter().flat_map(io) {
            let whole = format!("--size={} ", IO_DISK);
            assert!(job.command.contains(&whole), "{} in {}", whole, job.command);
            assert!(!job.command.contains(['{', '}']), "{}", job.command);
            let here = on_the_machine(&job.planned()).unwrap().command;
            assert!(here.contains("--filename=disk ") && !here.contains("=/dev/vda"));
            assert!(is_io(&job.planned()));
            assert!(job.command.contains(" --buffered=0") && !here.contains("buffered"));
        }
    }

    #[test]
    fn a_test_of_the_network_has_its_server_in_another_guest_and_on_the_machine_beside_it() {
        for test in network() {
            let planned = test.planned();
            let program = planned.program.as_ref().unwrap();
            let server = program.server.as_ref().unwrap();
            assert!(program.command.contains("10.75.0.2"), "{}", program.command);
            assert!(![server, &program.command].iter().any(|text| text.contains(['{', '}'])));
            // One simple command, which the guest's shell becomes.
            assert!(!server.contains([';', '&', '|']), "{server}");
            let here = on_the_machine(&planned).unwrap();
            assert!(here.command.starts_with(server.split(' ').next().unwrap()));
            assert!(here.command.contains("127.0.0.1") && !here.command.contains("10.75."));
            assert_eq!(here.server, None);
            assert_eq!(packages(&planned), test.packages);
            assert!(is_listed(&planned) && !is_io(&planned));
        }
    }

    #[test]
    fn a_program_is_prepared_by_its_input_and_then_by_a_run_that_is_traced() {
        let program = Program { command: "echo 'a b'".into(), ..Program::default() };
        let script = preparation(&program, "agent");
        let begin = "set -e\ntrue\nstrace";
        assert!(script.starts_with(begin), "{script}");
        let quoted = r#"sh -c 'echo '\''a b'\'''"#;
        assert!(script.contains(quoted), "{script}");
        assert!(script.ends_with("agent make-root /tmp/paratick/root .trace"));
    }

    #[test]
    fn no_program_stops_by_the_clock_or_needs_what_a_guest_has_not() {
        let commands = programs()
            .iter()
            .flat_map(|one| [&one.sequential, &one.parallel])
            .cloned()
            .chain(io(DiskDevice::default()).into_iter().map(|job| job.command));
        for command in commands {
            for word in ["runtime", "time_based", "timeout", "/usr/share"] {
                assert!(!command.contains(word), "{command}");
            }
        }
    }

    #[test]
    fn a_workload_s_packages_are_known_if_it_is_listed() {
        let listed = &programs()[0];
        assert_eq!(packages(&listed.planned(None)), listed.packages);
        for device in DiskDevice::ALL {
            assert_eq!(packages(&io(device)[0].planned()), [io_package()]);
        }
        assert!(packages(&kernels()[0].planned()).is_empty());
        let mut own = listed.planned(None);
        own.program.as_mut().unwrap().stands_for = None;
        assert!(packages(&own).is_empty());
    }

    #[test]
    fn fio_s_jobs_fit_on_the_disk_and_are_named_by_category_and_block_size() {
        let jobs = io(DiskDevice::default());
        assert_eq!(jobs.len(), 16);
        assert_eq!(jobs[0].name, "seqr-4k");
        assert_eq!(jobs[15].name, "rndwr-256k");
        assert!(jobs[15].command.contains("--rw=randwrite --bs=256k"));
        assert!(jobs.iter().all(|job| job.bytes() <= 64 << 20));
    }
}
