// SPDX-License-Identifier: GPL-2.0-only
//! A VM of one or two vCPUs that run the micro guest's code, and nothing else.

use super::{
    code::{
        code, offset, Command, Entry, COMMANDS, DONE, EOIS, FIRST_VECTOR, HANDLERS, SERIES, SHARED,
    },
    statistics::Statistics,
};
use anyhow::{bail, ensure, Context, Result};
use kvm_bindings::{
    kvm_enable_cap, kvm_mp_state, kvm_regs, kvm_segment, kvm_userspace_memory_region, CpuId,
    KVM_CAP_HALT_POLL, KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE,
};
use kvm_ioctls::{Cap, Kvm, VcpuExit, VcpuFd, VmFd};
use rustix::{
    mm::{mmap_anonymous, munmap, MapFlags, ProtFlags},
    process::getpid,
    thread::{gettid, sched_getaffinity, sched_setaffinity, CpuSet},
};
use std::{
    sync::{
        atomic::{AtomicBool, AtomicI32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

// Physical addresses; all of the memory is mapped where it is.
const MEMORY: usize = 4 << 20;
const TABLES: u64 = 0x1000;
const GDT: u64 = 0x4000;
const IDT: u64 = 0x5000;
const CODE: u64 = 0x8000;
const STACKS: u64 = 0x1_0000;
const STACK: u64 = 0x4000;
const SAMPLES: u64 = 1 << 20;
/// The first series ends where the second begins.
pub const MOST_SAMPLES: u32 = (SERIES / 8) as u32;

const CODE_SEGMENT: u16 = 8;
const DATA_SEGMENT: u16 = 16;

struct Memory(*mut u8);

impl Memory {
    fn new() -> Result<Memory> {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping is nobody else's.
        let place = unsafe { mmap_anonymous(std::ptr::null_mut(), MEMORY, rights, flags) };
        Ok(Memory(place.context("no memory for a guest")?.cast()))
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        assert!(address as usize + bytes.len() <= MEMORY);
        // SAFETY: it is in the mapping.  No vCPU runs meanwhile.
        unsafe { self.0.add(address as usize).copy_from(bytes.as_ptr(), bytes.len()) }
    }

    fn write_words(&self, address: u64, words: &[u64]) {
        words
            .iter()
            .zip((address..).step_by(8))
            .for_each(|(w, at)| self.write(at, &w.to_le_bytes()));
    }

    fn words(&self, address: u64, count: usize) -> Vec<u64> {
        assert!(address as usize + count * 8 <= MEMORY);
        // SAFETY: it is in the mapping, and aligned.  No vCPU runs meanwhile.
        unsafe { std::slice::from_raw_parts(self.0.add(address as usize).cast(), count).to_vec() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is ours, and the VM that used it is gone.
        let _ = unsafe { munmap(self.0.cast(), MEMORY) };
    }
}

/// What one session gave.
pub struct Session {
    /// In cycles; of some entries there is a second series.
    pub series: [Vec<u64>; 2],
    /// Exits of the first vCPU, as KVM counts them, without those for the host's interrupts.
    pub exits: Option<u64>,
    /// EOIs that a guest with PV EOI wrote all the same.
    pub eois: u64,
}

pub struct MicroVm {
    // In this order: the memory goes last.
    vcpus: Vec<VcpuFd>,
    statistics: Option<Statistics>,
    _vm: VmFd,
    memory: Memory,
    /// Where the vCPUs run.
    cpus: Vec<usize>,
}

/// How the VM is.
pub struct Shape {
    pub vcpus: usize,
    /// Whether KVM may poll before a vCPU sleeps, as the machine is set.
    pub halt_polling: bool,
}

impl MicroVm {
    /// Errors: what KVM of this machine cannot do.
    pub fn new(kvm: &Kvm, shape: &Shape) -> Result<MicroVm> {
        let cpus = cpus();
        ensure!(cpus.len() >= shape.vcpus, "it takes {} CPUs", shape.vcpus);
        let vm = kvm.create_vm().context("KVM makes no VM")?;
        let memory = Memory::new()?;
        let region = kvm_userspace_memory_region {
            memory_size: MEMORY as u64,
            userspace_addr: memory.0 as u64,
            ..Default::default()
        };
        // SAFETY: the memory is there for longer than the VM.
        unsafe { vm.set_user_memory_region(region) }.context("KVM takes no memory")?;
        vm.create_irq_chip().context("KVM has no interrupt controller")?;
        if !shape.halt_polling {
            let never = kvm_enable_cap { cap: KVM_CAP_HALT_POLL, ..Default::default() };
            vm.enable_cap(&never).context("KVM cannot switch halt polling off for a VM")?;
        }
        fill(&memory);
        let cpuid = cpuid(kvm)?;
        let vcpus = (0..shape.vcpus).map(|id| vcpu(&vm, id as u64, &cpuid));
        let vcpus = vcpus.collect::<Result<Vec<_>>>()?;
        let statistics = Statistics::of(&vcpus[0]).ok();
        Ok(MicroVm { vcpus, statistics, _vm: vm, memory, cpus })
    }

    /// Of the guest's TSC.
    pub fn tsc_khz(&self) -> Option<u32> {
        self.vcpus[0].get_tsc_khz().ok().filter(|khz| *khz > 0)
    }

    /// Runs one entry on each vCPU until it has so many samples.
    pub fn run(&mut self, entries: &[Entry], samples: u32, delay: u64) -> Result<Session> {
        self.memory.write(SHARED, &[0; 0x200]);
        for (entry, id) in entries.iter().zip(0..) {
            let command = Command { entry: CODE + offset(*entry), samples: samples.into(), delay };
            let words = [command.entry, command.samples, command.delay];
            self.memory.write_words(COMMANDS + id * 0x40, &words);
        }
        let exits = |statistics: &Option<Statistics>| statistics.as_ref()?.exits().ok();
        let before = exits(&self.statistics);
        // A sample takes milliseconds where CPUs wait for each other's turns.
        let patience = Duration::from_secs(20) + Duration::from_millis(20) * samples;
        together(&mut self.vcpus[..entries.len()], &self.cpus, patience)?;
        let after = exits(&self.statistics);
        let series = |nth: u64| self.memory.words(SAMPLES + nth * SERIES as u64, samples as usize);
        Ok(Session {
            series: [series(0), series(1)],
            exits: after.zip(before).map(|(after, before)| after - before),
            eois: self.memory.words(SHARED + EOIS, 1)[0],
        })
    }
}

/// Those that this process may use, the last first: interrupts are the first's, mostly.
fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).rev().filter(|cpu| allowed.is_set(*cpu)).collect()
}

fn fill(memory: &Memory) {
    const TABLE: u64 = 3;
    const LARGE_PAGE: u64 = 0x83;
    memory.write_words(TABLES, &[(TABLES + 0x1000) | TABLE]);
    memory.write_words(TABLES + 0x1000, &[(TABLES + 0x2000) | TABLE]);
    memory.write_words(TABLES + 0x2000, &[LARGE_PAGE, (2 << 20) | LARGE_PAGE]);
    memory.write_words(GDT, &[0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff]);
    for (handler, vector) in HANDLERS.iter().zip(FIRST_VECTOR as u64..) {
        // All of the code is below 64 KiB.
        let gate = (CODE + offset(*handler)) | u64::from(CODE_SEGMENT) << 16 | 0x8e00 << 32;
        memory.write_words(IDT + vector * 16, &[gate, 0]);
    }
    memory.write(CODE, code());
}

/// What KVM supports, and what its interrupt controller has in any case.
fn cpuid(kvm: &Kvm) -> Result<CpuId> {
    let mut cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).context("KVM has no CPUID")?;
    for leaf in cpuid.as_mut_slice().iter_mut().filter(|leaf| leaf.function == 1) {
        leaf.ecx |= 1 << 21;
        leaf.ecx |= u32::from(kvm.check_extension(Cap::TscDeadlineTimer)) << 24;
    }
    Ok(cpuid)
}

fn vcpu(vm: &VmFd, id: u64, cpuid: &CpuId) -> Result<VcpuFd> {
    let vcpu = vm.create_vcpu(id).context("KVM makes no vCPU")?;
    let mut cpuid = cpuid.clone();
    for leaf in cpuid.as_mut_slice() {
        match leaf.function {
            1 => leaf.ebx = leaf.ebx & 0x00ff_ffff | (id as u32) << 24,
            0xb | 0x1f => leaf.edx = id as u32,
            _ => {}
        }
    }
    vcpu.set_cpuid2(&cpuid).context("KVM takes no CPUID")?;
    let mut special = vcpu.get_sregs().context("KVM has no registers")?;
    let segment = |selector, type_, l| kvm_segment {
        limit: u32::MAX,
        selector,
        type_,
        present: 1,
        db: 1 - l,
        s: 1,
        l,
        g: 1,
        ..Default::default()
    };
    special.cs = segment(CODE_SEGMENT, 0xb, 1);
    let data = segment(DATA_SEGMENT, 3, 0);
    (special.ds, special.es, special.fs, special.gs, special.ss) = (data, data, data, data, data);
    (special.gdt.base, special.gdt.limit) = (GDT, 23);
    (special.idt.base, special.idt.limit) = (IDT, 0xfff);
    // PG, NE, ET, PE; PAE; LMA, LME; x2APIC.
    (special.cr0, special.cr3, special.cr4, special.efer) = (0x8000_0031, TABLES, 0x20, 0x500);
    special.apic_base |= 0xc00;
    vcpu.set_sregs(&special).context("KVM takes no 64-bit mode")?;
    let regs = kvm_regs {
        rip: CODE + offset(Entry::Main),
        rsp: STACKS + (id + 1) * STACK,
        rflags: 2,
        r14: SAMPLES,
        r15: COMMANDS + id * 0x40,
        ..Default::default()
    };
    vcpu.set_regs(&regs).context("KVM takes no registers")?;
    let runs = kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE };
    vcpu.set_mp_state(runs).context("KVM starts no vCPU")?;
    Ok(vcpu)
}

/// Runs each vCPU in a thread until it has done what it was told.  If one of them fails, or if they
/// take longer than this, all of them are stopped.
fn together(vcpus: &mut [VcpuFd], cpus: &[usize], patience: Duration) -> Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing: the signal only ends KVM_RUN.
    unsafe { libc::signal(libc::SIGUSR2, nothing as *const () as libc::sighandler_t) };
    let stop = AtomicBool::new(false);
    let ids: Vec<_> = vcpus.iter().map(|_| AtomicI32::new(0)).collect();
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        let mut threads = vec![];
        for ((vcpu, cpu), id) in vcpus.iter_mut().zip(cpus).zip(&ids) {
            let (sender, stop) = (sender.clone(), &stop);
            threads.push(scope.spawn(move || {
                id.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                let _ = sender.send(run(vcpu, *cpu, stop));
            }));
        }
        let mut result = Ok(());
        for _ in &threads {
            let late = || Err(anyhow::anyhow!("the guest did not answer for {patience:?}"));
            result = result.and(ended.recv_timeout(patience).unwrap_or_else(|_| late()));
            if result.is_err() {
                break;
            }
        }
        // A signal may come just before KVM_RUN.
        stop.store(result.is_err(), Ordering::Relaxed);
        while result.is_err() && threads.iter().any(|one| !one.is_finished()) {
            for id in &ids {
                let (process, id) = (getpid().as_raw_nonzero().get(), id.load(Ordering::Relaxed));
                // SAFETY: it goes to a thread of this process, or to none.
                unsafe { libc::syscall(libc::SYS_tgkill, process, id, libc::SIGUSR2) };
            }
            thread::sleep(Duration::from_millis(1));
        }
        result
    })
}

fn run(vcpu: &mut VcpuFd, cpu: usize, stop: &AtomicBool) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).with_context(|| format!("cannot run on CPU {cpu}"))?;
    while !stop.load(Ordering::Relaxed) {
        match vcpu.run() {
            Ok(VcpuExit::IoOut(DONE, _)) => return Ok(()),
            Ok(VcpuExit::IoOut(..) | VcpuExit::Intr) => {}
            Ok(VcpuExit::Shutdown) => bail!("the guest crashed: a fault that it cannot handle"),
            Ok(other) => bail!("KVM could not go on with the guest: {other:?}"),
            Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {}
            Err(error) => bail!("KVM_RUN failed: {error}"),
        }
    }
    bail!("the guest was stopped")
}
