// SPDX-License-Identifier: GPL-2.0-only
use super::{
    kernel::{hit_by_tick, host_tick_carries},
    *,
};
use crate::{cause::Cause, units::Hz};
use proptest::prelude::*;

const EVERY: [TickModel; 8] = [
    TickModel::FormulaPeriodic,
    TickModel::FormulaTickless,
    TickModel::FormulaParatick,
    TickModel::Periodic,
    TickModel::TicklessStop,
    TickModel::Tickless,
    TickModel::ParatickTicks,
    TickModel::Paratick,
];

fn vm(load: Load) -> Vm {
    Vm { count: 1, vcpus: 16, hz: Hz(250), host_hz: Hz(250), in_turns: 1, load }
}

fn ten_seconds(model: TickModel, load: Load) -> Exits {
    let time = Nanos(10 * Nanos::SECOND.0);
    predict(model, &[vm(load)], time, Estimate::Likely)
}

fn load(busy: f64, period: u64, woken_by: WokenBy) -> Load {
    Load::new(busy, Some(Nanos(period)), woken_by).unwrap()
}

fn any_load() -> impl Strategy<Value = Load> {
    let rate = || prop_oneof![Just(0.0), 0.0..20_000.0];
    let wakes = (rate(), rate(), rate(), rate());
    let shares = (0.0..=1.0, 0.0..=1.0, 0.0..=1.0);
    (shares, wakes).prop_map(|((busy, in_guest, ticked), (ipi, device, sleep, kernel))| Load {
        ticked,
        busy,
        in_guest: busy * in_guest,
        wakes: Wakes { ipi, device, sleep, kernel },
    })
}

fn any_vm() -> impl Strategy<Value = Vm> {
    (1u32..9, 1u32..65, 1u32..1001, 1u32..1001, any_load()).prop_map(
        |(count, vcpus, hz, host_hz, load)| Vm {
            count,
            vcpus,
            hz: Hz(hz),
            host_hz: Hz(host_hz),
            in_turns: 1,
            load,
        },
    )
}

fn any_estimate() -> impl Strategy<Value = Estimate> {
    prop::sample::select(Estimate::ALL.to_vec())
}

fn any_model() -> impl Strategy<Value = TickModel> {
    prop::sample::select(EVERY.to_vec())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 + 1e-9 * a.abs().max(b.abs())
}

proptest! {
    /// Whatever ends its idle periods: it arms nothing, and each of them is one exit.
    #[test]
    fn a_deadline_that_goes_with_the_halt_costs_nothing(
        vm in any_vm(), estimate in any_estimate(),
    ) {
        let vm = Vm { host_hz: vm.hz, ..vm };
        let exits = per_vcpu_second(TickModel::Paratick, &vm, estimate);
        prop_assert_eq!(exits.managing(), 0.0);
        let idle_periods = vm.load.wakes.all();
        prop_assert!(near(exits.get(Cause::Halt).unwrap(), idle_periods));
    }

    #[test]
    fn exits_are_linear_in_time_and_guests(
        model in any_model(), vm in any_vm(), estimate in any_estimate(),
        time in 1u64..1_000_000_000_000, factor in 2u32..9,
    ) {
        let exits = |vms: &[Vm], time| predict(model, vms, Nanos(time), estimate);
        let once = exits(&[vm], time);
        let longer = exits(&[vm], time * u64::from(factor));
        let more = Vm { count: vm.count * factor, ..vm };
        for cause in Cause::ALL {
            let expected = once.get(cause).map(|count| count * f64::from(factor));
            for other in [&longer, &exits(&[more], time)] {
                match (expected, other.get(cause)) {
                    (Some(a), Some(b)) => prop_assert!(near(a, b), "{cause}: {a} {b}"),
                    (a, b) => prop_assert_eq!(a, b),
                }
            }
        }
        let both = exits(&[vm, more], time);
        prop_assert!(near(both.total(), once.total() + exits(&[more], time).total()));
    }

    #[test]
    fn a_faster_tick_never_costs_less(
        model in any_model(), vm in any_vm(), estimate in any_estimate(), more in 1u32..1000,
    ) {
        let faster = Vm { hz: Hz(vm.hz.0 + more), ..vm };
        let host = Vm { host_hz: Hz(vm.host_hz.0 + more), ..vm };
        let timer = |vm| per_vcpu_second(model, &vm, estimate).timer();
        for other in [faster, host] {
            // It does where KVM then needs no timer of its own any more.
            let alike = host_tick_carries(&other) == host_tick_carries(&vm);
            let virtual_ticks = [TickModel::ParatickTicks, TickModel::Paratick];
            if alike || !virtual_ticks.contains(&model) {
                prop_assert!(timer(other) >= timer(vm) - 1e-6);
            }
        }
    }

    #[test]
    fn more_idle_periods_at_the_same_load_never_cost_less(
        vm in any_vm(), estimate in any_estimate(), factor in 1.0f64..10.0,
    ) {
        let wakes = vm.load.wakes.scaled(factor);
        let often = Vm { load: Load { wakes, ..vm.load }, ..vm };
        for model in [TickModel::FormulaTickless, TickModel::TicklessStop] {
            let timer = |vm| per_vcpu_second(model, &vm, estimate).timer();
            prop_assert!(timer(often) >= timer(vm) - 1e-6);
        }
    }

    /// Section 4.2: virtual ticks are "guaranteed to never induce more".
    #[test]
    fn virtual_ticks_never_cost_more_than_stopping_the_tick(
        vm in any_vm(), estimate in any_estimate(),
    ) {
        let timer = |model| per_vcpu_second(model, &vm, estimate).timer();
        prop_assert!(timer(TickModel::ParatickTicks) <= timer(TickModel::TicklessStop) + 1e-6);
        prop_assert!(timer(TickModel::Paratick) <= timer(TickModel::ParatickTicks) + 1e-6);
        prop_assert!(timer(TickModel::FormulaParatick) <= timer(TickModel::FormulaTickless) + 1e-6);
    }

    #[test]
    fn estimates_are_in_order(model in any_model(), vm in any_vm()) {
        let [least, likely, most] =
            Estimate::ALL.map(|estimate| per_vcpu_second(model, &vm, estimate).timer());
        prop_assert!(least <= likely + 1e-6 && likely <= most + 1e-6, "{least} {likely} {most}");
    }

    #[test]
    fn the_crossover_is_where_both_formulas_are_equal(
        hz in 1u32..1001, busy in 0.0..0.99, sharing in 1u32..9,
    ) {
        let tick = Hz(hz).period().unwrap().seconds();
        let mut vm = vm(load(busy, 1_000_000, WokenBy::Ipi));
        vm.hz = Hz(hz);
        let found = crossover(&vm, sharing);
        let at = found.formulas.unwrap().0;
        // By algebra: L f + (1 - L) / T = f where T = 1 / f.
        prop_assert!((at / (1.0 / f64::from(hz)) - 1.0).abs() < 1e-6, "{at} at {hz} Hz");
        let stated = found.statement.unwrap().0;
        prop_assert!((stated * f64::from(sharing) / tick - 1.0).abs() < 1e-6);
        let cost = |model, seconds: f64| {
            let wakes = Wakes { ipi: (1.0 - busy) / seconds, ..Wakes::default() };
            let vm = Vm { load: Load { wakes, ..vm.load }, ..vm };
            per_vcpu_second(model, &vm, Estimate::Likely).managing()
        };
        let [keeps, stops] = [TickModel::FormulaPeriodic, TickModel::FormulaTickless];
        prop_assert!((cost(keeps, at) / cost(stops, at) - 1.0).abs() < 1e-6);
        prop_assert!(cost(keeps, at / 2.0) < cost(stops, at / 2.0));
        prop_assert!(cost(keeps, at * 2.0) > cost(stops, at * 2.0));
    }

    #[test]
    fn a_load_is_what_it_was_made_of(busy in 0.0..0.999, nanos in 1u64..1_000_000_000) {
        let load = load(busy, nanos, WokenBy::Device);
        let period = load.idle_period().unwrap();
        prop_assert!((period / Nanos(nanos).seconds() - 1.0).abs() < 1e-9);
        prop_assert_eq!(load.wakes.all(), load.wakes.device);
    }

    #[test]
    fn what_is_no_share_is_no_load(busy in prop_oneof![-1e9..-1e-9, 1.0000001..1e9]) {
        prop_assert_eq!(
            Load::new(busy, Some(Nanos(1)), WokenBy::Ipi),
            Err(BadLoad::NotAShare(busy))
        );
    }
}

#[test]
fn the_formulas_give_what_the_paper_says_of_them() {
    let idle = Load::new(0.0, None, WokenBy::Ipi).unwrap();
    assert_eq!(ten_seconds(TickModel::FormulaPeriodic, idle).managing(), 80_000.0);
    assert_eq!(ten_seconds(TickModel::FormulaTickless, idle).managing(), 0.0);
    let busy = Load::new(1.0, None, WokenBy::Ipi).unwrap();
    assert_eq!(ten_seconds(TickModel::FormulaTickless, busy).managing(), 80_000.0);
    // 2 × 10 × 16 × (0.5 × 250 + 0.5 / 8 ms).
    let half = load(0.5, 8_000_000, WokenBy::Ipi);
    assert!(near(ten_seconds(TickModel::FormulaTickless, half).managing(), 60_000.0));
}

#[test]
fn an_idle_vcpu_costs_nothing_where_its_tick_can_stop() {
    let idle = Load::new(0.0, None, WokenBy::Ipi).unwrap();
    for model in EVERY {
        let exits = ten_seconds(model, idle).total();
        let goes_on = matches!(model, TickModel::Periodic | TickModel::FormulaPeriodic);
        assert_eq!(exits > 0.0, goes_on, "{model}");
    }
    // One exit to arm the tick and one to halt: its expiry ends the halt.
    let periodic = ten_seconds(TickModel::Periodic, idle);
    assert_eq!(periodic.managing(), 40_000.0);
    assert_eq!(periodic.get(Cause::Halt), Some(40_000.0));
}

#[test]
fn a_busy_vcpu_pays_two_exits_a_tick_unless_the_host_brings_it() {
    let busy = Load::new(1.0, None, WokenBy::Ipi).unwrap();
    for model in [TickModel::Periodic, TickModel::Tickless, TickModel::TicklessStop] {
        assert_eq!(ten_seconds(model, busy).managing(), 80_000.0, "{model}");
        assert_eq!(ten_seconds(model, busy).timer(), 120_000.0, "{model}");
    }
    assert!(ten_seconds(TickModel::ParatickTicks, busy).managing() < 100.0);
    assert_eq!(ten_seconds(TickModel::Paratick, busy).timer(), 40_000.0);
}

#[test]
fn kvm_needs_a_timer_where_the_hosts_tick_cannot_carry_the_guests() {
    for (hz, host_hz, own_timer) in [
        (250, 250, false),
        (250, 1000, false),
        (100, 250, true),
        (300, 1000, true),
        (1000, 250, true),
    ] {
        let busy = Vm {
            hz: Hz(hz),
            host_hz: Hz(host_hz),
            ..vm(Load::new(1.0, None, WokenBy::Ipi).unwrap())
        };
        let ticks = if own_timer { f64::from(hz) } else { 0.0 };
        let expiries =
            |model| per_vcpu_second(model, &busy, Estimate::Likely).get(Cause::Expiry).unwrap();
        let checks = expiries(TickModel::ParatickTicks) - ticks;
        assert!((0.0..1.0).contains(&checks), "{hz} on {host_hz}: {checks}");
        assert_eq!(expiries(TickModel::Paratick), ticks);
    }
}

#[test]
fn a_vcpu_without_idle_time_needs_no_idle_period_and_others_do() {
    let zero = Some(Nanos(0));
    assert_eq!(Load::new(0.5, zero, WokenBy::Ipi), Err(BadLoad::NoTime(0.5)));
    assert_eq!(Load::new(0.5, None, WokenBy::Ipi), Err(BadLoad::NoIdlePeriod(0.5)));
    assert!(Load::new(f64::NAN, None, WokenBy::Ipi).is_err());
    assert_eq!(Load::new(1.0, zero, WokenBy::Ipi).unwrap().idle_periods(), 0.0);
}

/// The arms of a vCPU in a second for each of its idle periods, those of its running ticks aside.
fn arms_of_an_idle_period(model: TickModel, vm: &Vm) -> f64 {
    let arm = per_vcpu_second(model, vm, Estimate::Likely).get(Cause::Arm);
    (arm.unwrap() - f64::from(vm.hz.0) * vm.load.busy) / vm.load.idle_periods()
}

#[test]
fn a_restart_takes_one_write_while_another_vcpu_runs() {
    // One in 16 runs at any time, or none in three quarters of it.
    let one_runs = vm(load(1.0 / 16.0, 1_000_000, WokenBy::Ipi));
    let none_runs = vm(load(1.0 / 64.0, 1_000_000, WokenBy::Ipi));
    let arms = |vm| arms_of_an_idle_period(TickModel::TicklessStop, vm);
    assert!(near(arms(&one_runs), 2.0), "{}", arms(&one_runs));
    assert!(near(arms(&none_runs), 2.5), "{}", arms(&none_runs));
}

#[test]
fn a_tick_is_stopped_only_in_an_idle_period_that_outlasts_it() {
    let arms = |nanos, in_turns| {
        let vm = vm(load(1.0 / 16.0, nanos, WokenBy::Ipi));
        arms_of_an_idle_period(TickModel::Tickless, &Vm { in_turns, ..vm }) / hit_by_tick(&vm)
    };
    // Armed again, moved away and moved back; or only armed again.
    assert!(near(arms(4_000_000, 1), 3.0 - 2.0 / 320.0));
    assert!(near(arms(12_000, 1), 1.0));
    assert!(near(arms(100_000, 16), 1.0));
    assert!(near(arms(400_000, 16), 2.0));
}

#[test]
fn the_deadline_server_is_put_off_twenty_times_a_second_at_most() {
    let arms = |nanos, estimate| {
        let vm = vm(load(0.0, nanos, WokenBy::Ipi));
        let exits = per_vcpu_second(TickModel::ParatickTicks, &vm, estimate);
        exits.get(Cause::Arm).unwrap()
    };
    // Two writes each time, if both of the timers that are due within 4 s are later.
    let is_next = (3.05f64 / 4.0).powi(2);
    for period in [10_000, 1_000_000] {
        assert!(near(arms(period, Estimate::Likely), 40.0 * is_next));
    }
    assert_eq!(arms(1_000_000, Estimate::Least), 0.0);
    // A vCPU that is woken twice a second cannot put it off more often.
    assert!(near(arms(500_000_000, Estimate::Most), 4.0));
}

#[test]
fn the_crossover_is_nowhere_for_a_vcpu_that_is_never_idle() {
    let busy = vm(Load::new(1.0, None, WokenBy::Ipi).unwrap());
    let found = crossover(&busy, 1);
    assert_eq!((found.formulas, found.statement, found.kernels), (None, None, None));
}

mod of_table_1 {
    use super::super::table1::*;

    #[test]
    fn the_printed_periodic_row_is_half_of_the_formula() {
        for scenario in SCENARIOS {
            assert_eq!(scenario.formula_periodic() / 2.0, f64::from(scenario.periodic));
        }
    }

    #[test]
    fn one_reading_makes_all_eight_cells_agree() {
        let reading = agreeing();
        assert_eq!((reading.load, reading.tickless), (Some(1.0), Some(60_000.0)));
        for scenario in SCENARIOS {
            let vms = f64::from(scenario.vms);
            assert_eq!(vms * reading.counting.periodic(), f64::from(scenario.periodic));
            let tickless = match scenario.busy {
                true => reading.tickless.unwrap(),
                false => reading.counting.tickless(0.0, 0.0),
            };
            assert_eq!(vms * tickless, f64::from(scenario.tickless));
        }
    }

    #[test]
    fn every_reading_that_holds_gives_60_000_again() {
        let all = readings();
        let holds: Vec<_> = all.iter().filter(|reading| reading.load.is_some()).collect();
        assert!(!holds.is_empty() && holds.len() < all.len());
        for reading in holds {
            assert!((reading.tickless.unwrap() - 60_000.0).abs() < 1e-6, "{reading:?}");
            // And by the formula of 3.2 itself, where it is taken as written.
            let counting = reading.counting;
            if counting == COUNTINGS[0] {
                use super::super::*;
                let (busy, period) = (reading.load.unwrap(), reading.idle_period.unwrap());
                let period = Nanos((period * 1e9).round() as u64);
                let load = Load::new(busy, Some(period), WokenBy::Ipi).unwrap();
                let exits = super::ten_seconds(TickModel::FormulaTickless, load).managing();
                assert!((exits - 60_000.0).abs() < 1.0, "{exits}");
            }
        }
    }

    #[test]
    fn not_every_thread_can_block_a_thousand_times_a_second() {
        let each = |reading: &Reading| reading.syncs == Syncs::OfEachThread;
        assert!(readings().iter().filter(|r| each(r)).all(|r| r.load.is_none()));
    }

    #[test]
    fn as_written_it_is_between_20_000_and_100_000() {
        assert_eq!(SCENARIOS[2].formula_tickless(), (20_000.0, 100_000.0));
        assert_eq!(SCENARIOS[0].formula_tickless(), (0.0, 0.0));
    }
}
