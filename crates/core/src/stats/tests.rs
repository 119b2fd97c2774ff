// SPDX-License-Identifier: GPL-2.0-only
use super::{random::Random, *};
use proptest::prelude::*;

fn rounds(values: &[&[f64]]) -> Vec<Observation> {
    let numbered = (1..).zip(values);
    numbered
        .flat_map(|(round, values)| values.iter().map(move |&value| Observation { round, value }))
        .collect()
}

fn any_observations(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Observation>> {
    let one = (1u32..7, 1u32..1_000_000)
        .prop_map(|(round, value)| Observation { round, value: value.into() });
    prop::collection::vec(one, count)
}

fn scaled(observations: &[Observation], by: f64) -> Vec<Observation> {
    observations.iter().map(|seen| Observation { value: seen.value * by, ..*seen }).collect()
}

#[test]
fn so_many_per_cent_are_not_above_it_and_of_few_that_is_the_longest() {
    let of = |n: u64, percent| at_most(&(1..=n).collect::<Vec<_>>(), percent);
    assert_eq!([of(2, 90), of(8, 90), of(10, 90), of(11, 90)], [2, 8, 9, 10].map(Some));
    assert_eq!([of(1, 50), of(2, 50), of(3, 50), of(100, 99)], [1, 1, 2, 99].map(Some));
    assert_eq!([of(5, 0), of(5, 100)], [Some(1), Some(5)]);
    assert_eq!(of(0, 50), None);
}

#[test]
fn the_median_is_the_middle_or_the_mean_of_the_middle_two() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
}

#[test]
fn few_samples_get_their_range() {
    let five = summarize(&rounds(&[&[5.0, 1.0, 3.0], &[2.0, 4.0]])).unwrap();
    assert_eq!((five.median, five.low, five.high), (3.0, 1.0, 5.0));
    assert_eq!((five.method, five.samples), (Method::Range, 5));
    let six = summarize(&rounds(&[&[5.0, 1.0, 3.0], &[2.0, 4.0, 6.0]])).unwrap();
    assert_eq!(six.method, Method::Bootstrap);
}

#[test]
fn a_difference_between_boots_widens_the_interval() {
    // The same twelve values: spread within each boot, or from boot to boot.
    let within: &[f64] = &[10.0, 11.0, 12.0, 20.0, 21.0, 22.0];
    let low: &[f64] = &[10.0, 10.0, 11.0, 11.0, 12.0, 12.0];
    let high: &[f64] = &[20.0, 20.0, 21.0, 21.0, 22.0, 22.0];
    let within = summarize(&rounds(&[within, within])).unwrap();
    let between = summarize(&rounds(&[low, high])).unwrap();
    assert_eq!(within.median, between.median);
    assert!(between.low <= 11.0 && between.high >= 21.0);
}

#[test]
fn a_clear_difference_is_shown_and_a_small_one_in_noise_is_not() {
    let base = rounds(&[&[100.0, 102.0], &[98.0, 101.0], &[99.0, 103.0], &[100.0, 99.0]]);
    let less = compare(&scaled(&base, 0.4), &base).unwrap();
    assert_eq!(less.verdict, Verdict::Less);
    assert!((less.ratio - 0.4).abs() < 1e-9);
    assert_eq!(compare(&scaled(&base, 2.0), &base).unwrap().verdict, Verdict::More);
    let same = compare(&scaled(&base, 1.005), &base).unwrap();
    assert_eq!(same.verdict, Verdict::NoDifferenceShown);
}

#[test]
fn three_boots_show_nothing_however_far_apart_and_however_many_samples() {
    let few = rounds(&[&[1.0; 6], &[2.0; 6], &[3.0; 6]]);
    let many = rounds(&[&[100.0], &[101.0], &[102.0], &[103.0]]);
    assert_eq!(compare(&few, &many).unwrap().verdict, Verdict::TooFewSamples);
    let back = compare_unpaired(&many, &few).unwrap();
    assert_eq!(back.verdict, Verdict::TooFewSamples);
    let four = compare(&rounds(&[&[1.0], &[2.0], &[3.0], &[4.0]]), &many).unwrap();
    assert_eq!((four.verdict, four.method), (Verdict::Less, Method::Range));
}

#[test]
fn only_rounds_that_both_have_are_compared() {
    let mode = rounds(&[&[10.0; 4], &[10.0; 4]]);
    let base = rounds(&[&[20.0; 4], &[20.0; 4], &[1000.0; 4]]);
    let compared = compare(&mode, &base).unwrap();
    assert_eq!((compared.ratio, compared.baseline_samples), (0.5, 8));
}

#[test]
fn a_ratio_to_nothing_is_not_given() {
    let some = rounds(&[&[1.0; 6]]);
    assert_eq!(compare(&some, &rounds(&[&[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]])), None);
    assert_eq!(compare(&some, &[]), None);
    let elsewhere = Observation { round: 9, value: 1.0 };
    assert_eq!(compare(&some, &[elsewhere]), None);
    assert_eq!(summarize(&[]), None);
}

/// The claim of 95 % is checked against samples whose true median is known.
#[test]
fn an_interval_holds_the_true_median_about_as_often_as_it_says() {
    let mut random = Random::new(42);
    let held = (0..400)
        .filter(|_| {
            let seen: Vec<_> = (0..20)
                .map(|i| Observation {
                    round: i / 4,
                    value: (0..12).map(|_| random.below(1001) as f64).sum::<f64>(),
                })
                .collect();
            let summary = summarize(&seen).unwrap();
            summary.low <= 6000.0 && 6000.0 <= summary.high
        })
        .count();
    assert!((364..=400).contains(&held), "{held} of 400");
}

#[test]
fn two_measurements_that_share_no_boot_are_compared_over_all_their_rounds() {
    let before = rounds(&[&[20.0, 20.0] as &[f64]; 4]);
    let after: Vec<_> = rounds(&[&[10.0, 10.0] as &[f64]; 6])
        .into_iter()
        .map(|seen| Observation { round: seen.round + 10, ..seen })
        .collect();
    assert_eq!(compare(&after, &before), None);
    let compared = compare_unpaired(&after, &before).unwrap();
    assert_eq!((compared.ratio, compared.verdict), (0.5, Verdict::Less));
    assert_eq!((compared.samples, compared.baseline_samples), (12, 8));
    assert_eq!(compare_unpaired(&after, &[]), None);
    assert_eq!(compare_unpaired(&after, &rounds(&[&[0.0; 6]])), None);
}

/// How often of 400 times equal things are found to differ, with so many boots of each, two samples
/// of each boot, and so much that differs from boot to boot, where samples of one differ by 3.
fn false_alarms(boots: u32, between: usize) -> usize {
    let mut random = Random::new(11);
    let mut draw = || -> Vec<_> {
        (0..boots)
            .flat_map(|round| {
                let boot = 1000.0 + (0..12).map(|_| random.below(between) as f64).sum::<f64>();
                [0, 1].map(|_| Observation { round, value: boot + random.below(3) as f64 })
            })
            .collect()
    };
    (0..400)
        .filter(|_| {
            let verdict = compare(&draw(), &draw()).unwrap().verdict;
            matches!(verdict, Verdict::Less | Verdict::More)
        })
        .count()
}

/// From four boots on a side, their differences are taken for one between the sides in about one
/// case of twenty; from fewer nobody concludes anything.
#[test]
fn a_difference_is_rarely_shown_where_there_is_none() {
    for between in [2, 30] {
        for boots in 1..MIN_VERDICT as u32 {
            assert_eq!(false_alarms(boots, between), 0);
        }
        for boots in [4, 5, 8] {
            let alarms = false_alarms(boots, between);
            assert!(alarms <= 36, "{alarms} of 400 with {boots} boots");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn unpaired_comparisons_turn_around_with_their_sides(
        one in any_observations(1..24), other in any_observations(1..24),
    ) {
        let (there, back) = (compare_unpaired(&one, &other), compare_unpaired(&other, &one));
        let (there, back) = (there.unwrap(), back.unwrap());
        prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
        prop_assert!(there.low <= there.ratio && there.ratio <= there.high);
        prop_assert_eq!(there.samples, back.baseline_samples);
            prop_assert_eq!(there.baseline_samples, back.samples);
    }

    #[test]
    fn the_number_of_a_round_does_not_matter_to_an_unpaired_comparison(
        one in any_observations(1..24), other in any_observations(1..24),
    ) {
        let later = |seen: &Observation| Observation { round: seen.round + 7, ..*seen };
        let moved: Vec<_> = one.iter().map(later).collect();
        prop_assert_eq!(compare_unpaired(&moved, &other), compare_unpaired(&one, &other));
    }

    #[test]
    fn the_interval_holds_the_median_and_stays_within_the_samples(seen in any_observations(1..24)) {
        let summary = summarize(&seen).unwrap();
        let values: Vec<f64> = seen.iter().map(|seen| seen.value).collect();
        let (least, most) = range(&values);
        prop_assert!(summary.low <= summary.median && summary.median <= summary.high);
        prop_assert!(least <= summary.low && summary.high <= most);
        prop_assert_eq!(summary.samples as usize, seen.len());
    }

    #[test]
    fn the_same_samples_give_the_same_interval(seen in any_observations(1..24)) {
        prop_assert_eq!(summarize(&seen), summarize(&seen));
    }

    #[test]
    fn half_the_samples_lie_on_either_side_of_the_median(seen in any_observations(1..24)) {
        let values: Vec<f64> = seen.iter().map(|seen| seen.value).collect();
        let median = median(&values).unwrap();
        let below = values.iter().filter(|value| **value < median).count();
        let above = values.iter().filter(|value| **value > median).count();
        prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
    }

    #[test]
    fn scaling_the_samples_scales_the_summary(seen in any_observations(1..24)) {
        // By a power of two, so that the arithmetic is exact.
        let (one, four) = (summarize(&seen).unwrap(), summarize(&scaled(&seen, 4.0)).unwrap());
        prop_assert_eq!(four.median, one.median * 4.0);
        prop_assert_eq!((four.low, four.high), (one.low * 4.0, one.high * 4.0));
    }

    #[test]
    fn a_mode_against_itself_shows_no_difference(seen in any_observations(1..24)) {
        let compared = compare(&seen, &seen).unwrap();
        prop_assert_eq!(compared.ratio, 1.0);
        prop_assert!(compared.low <= 1.0 && 1.0 <= compared.high);
        prop_assert_ne!(compared.verdict, Verdict::Less);
        prop_assert_ne!(compared.verdict, Verdict::More);
    }

    #[test]
    fn a_comparison_holds_its_ratio_and_agrees_with_its_verdict(
        mode in any_observations(1..24), base in any_observations(1..24),
    ) {
        let Some(compared) = compare(&mode, &base) else { return Ok(()) };
        prop_assert!(compared.low <= compared.ratio && compared.ratio <= compared.high);
        let shared = |seen: &[Observation], other: &[Observation]| {
            let mut seen = seen.to_vec();
            seen.retain(|one| other.iter().any(|other| other.round == one.round));
            super::rounds(&seen)
        };
        let fewest = shared(&mode, &base).min(shared(&base, &mode));
        match compared.verdict {
            Verdict::Less => prop_assert!(compared.high < 1.0),
            Verdict::More => prop_assert!(compared.low > 1.0),
            Verdict::NoDifferenceShown => prop_assert!(compared.low <= 1.0 && compared.high >= 1.0),
            Verdict::TooFewSamples => prop_assert!(fewest < MIN_VERDICT),
        }
    }

    #[test]
    fn the_order_of_samples_within_a_round_does_not_matter_to_medians(
        mut seen in any_observations(1..24),
    ) {
        let before = summarize(&seen).unwrap();
        seen.reverse();
        prop_assert_eq!(summarize(&seen).unwrap().median, before.median);
    }
}
