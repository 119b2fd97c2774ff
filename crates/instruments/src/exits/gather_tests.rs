// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use paratick_core::cause::Cause;
use proptest::prelude::*;

const SVM: u32 = 2;

fn window(sequence: u32, tgid: u32, closed_ns: u64) -> Window {
    Window { sequence, tgid, id: sequence + 100, pad: 0, opened_ns: 10, closed_ns }
}

fn thread(tgid: u32, vcpu: u32, window: u32) -> Thread {
    Thread { tgid, vcpu, isa: SVM, vm: 0, window, reason: 0x78, ..Thread::default() }
}

fn key(window: u32, vcpu: u32, reason: u32, detail: u64, facts: u32) -> Key {
    Key { window, vcpu, reason, facts, detail }
}

fn gather(
    windows: &[Window],
    threads: &BTreeMap<u32, Thread>,
    counts: &BTreeMap<Key, u64>,
    ticks: bool,
) -> Vec<WindowCounts> {
    Snapshot { windows, threads, counts, ticks }.gather()
}

#[test]
fn an_exit_pending_at_the_close_is_counted_once() {
    let windows = [window(1, 7, 20)];
    let threads = BTreeMap::from([(70, thread(7, 0, 1)), (71, thread(7, 1, 0))]);
    let counts = BTreeMap::from([(key(1, 0, 0x78, 0, 0), 4)]);
    let result = gather(&windows, &threads, &counts, false);
    assert_eq!(result[0].total(), 5);
    assert_eq!(result[0].cause(Cause::Halt), 5);
    assert_eq!(result[0].window, 101);
    assert_eq!(result[0].vcpus.len(), 2);
    assert_eq!(result[0].ticks_delivered(), None);
}

#[test]
fn guests_and_windows_do_not_mix() {
    let windows = [window(1, 7, 20), window(2, 8, 30), window(3, 7, 0)];
    let threads = BTreeMap::from([(70, thread(7, 0, 3)), (80, thread(8, 0, 2))]);
    let counts = BTreeMap::from([
        (key(1, 0, 0x78, 0, 0), 4),
        (key(2, 0, 0x78, 0, 0), 6),
        (key(3, 0, 0x78, 0, 0), 9),
    ]);
    let result = gather(&windows, &threads, &counts, false);
    let totals: Vec<_> = result.iter().map(|window| (window.vm(), window.total())).collect();
    assert_eq!(totals, [(Some(7), 4), (Some(8), 7)]);
}

#[test]
fn a_vcpu_that_is_gone_keeps_its_counts() {
    let windows = [window(1, 7, 20)];
    let threads = BTreeMap::from([(70, thread(9, 0, 0))]);
    let counts = BTreeMap::from([(key(1, 3, 0x78, 0, 0), 4)]);
    let result = gather(&windows, &threads, &counts, false);
    assert_eq!((result[0].total(), result[0].vcpus[0].vcpu), (4, 3));
}

#[test]
fn only_the_latest_window_of_a_running_guest_can_still_be_closed() {
    let windows = [window(1, 7, 0), window(2, 7, 0), window(3, 8, 0), window(4, 9, 50)];
    assert_eq!(first_open(&windows, |_| true), Some(2));
    assert_eq!(first_open(&windows, |tgid| tgid != 7), Some(3));
    assert_eq!(first_open(&windows, |_| false), None);
}

#[test]
fn ticks_are_those_the_guest_got_and_no_exits() {
    let tick = Facts::TICK.0;
    let windows = [window(1, 7, 20)];
    let threads = BTreeMap::from([(70, thread(7, 0, 0))]);
    let counts = BTreeMap::from([
        (key(1, 0, 0, 0, tick), 10),
        (key(1, 0, 1, 0, tick), 100),
        (key(1, 0, 2, 0, tick), 1),
        (key(1, 0, 3, 0, tick), 2),
        (key(1, 0, 4, 0, tick), 1000),
    ]);
    let result = gather(&windows, &threads, &counts, true);
    assert_eq!(result[0].ticks_delivered(), Some(110));
    assert_eq!(result[0].total(), 0);
}

#[test]
fn facts_that_do_not_change_the_cause_are_added_up() {
    let windows = [window(1, 7, 20)];
    let threads = BTreeMap::from([(70, thread(7, 0, 0))]);
    let arm = Facts::MSR.0 | Facts::WRITE.0 | Facts::NONZERO.0;
    let (call, tick) = (Facts::HYPERCALL.0, Facts::TIMER.0 | Facts::HOST_TICK.0);
    let counts = BTreeMap::from([
        (key(1, 0, 0x60, 0, tick), 5),
        (key(1, 0, 0x60, 0, tick | Facts::DEVICE.0), 6),
        (key(1, 0, 0x7c, 0x6e0, arm), 2),
        (key(1, 0, 0x81, 20, call), 3),
        (key(1, 0, 0x81, 20, call | Facts::IPI.0), 4),
        (key(1, 0, 0x81, 0, 0), 1),
    ]);
    let result = gather(&windows, &threads, &counts, false);
    assert_eq!(result[0].vcpus[0].exits.len(), 4);
    assert_eq!((result[0].cause(Cause::Halt), result[0].cause(Cause::Other)), (7, 1));
    assert_eq!(result[0].cause(Cause::HostTick), 11);
    let writes = BTreeMap::from([("TSC_DEADLINE".to_string(), 2)]);
    assert_eq!(result[0].counts().msr_writes, Some(writes));
}

proptest! {
    /// Nothing that was counted is lost or counted twice on the way to the result.
    #[test]
    fn the_totals_are_what_was_counted(
        entries in prop::collection::btree_map(
            (1u32..4, 0u32..3,
             prop::sample::select(vec![0x60, 0x72, 0x78, 0x7b, 0x7c, 0x81, 0x400]),
             0u32..3, 0u32..1024),
            1u64..1000, 0..60),
        pending in prop::collection::vec(0u32..4, 3),
    ) {
        let windows = [window(1, 7, 20), window(2, 7, 30), window(3, 7, 40)];
        let threads: BTreeMap<_, _> = (0..3)
            .map(|vcpu| (vcpu, thread(7, vcpu, pending[vcpu as usize])))
            .collect();
        let counts: BTreeMap<_, _> = entries
            .iter()
            .map(|((w, v, r, m, f), count)| (key(*w, *v, *r, u64::from(*m), *f), *count))
            .collect();
        let result = gather(&windows, &threads, &counts, false);
        let pending = pending.iter().filter(|window| **window != 0).count();
        let expected = counts.values().sum::<u64>() + pending as u64;
        prop_assert_eq!(result.iter().map(WindowCounts::total).sum::<u64>(), expected);
    }
}
