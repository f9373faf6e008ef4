use super::*;
use crate::fixture;

fn args(all: bool, absolute: bool) -> CompareArgs {
    let (before, after, only) = (PathBuf::new(), PathBuf::new(), vec![]);
    CompareArgs { before, after, part: 5.0, level: 0.05, only, all, absolute }
}

/// A run of m3ipc and a floor whose rounds take these times.
fn run_of(ours: &[u64], floor: &[u64]) -> Results {
    let row = |mechanism, family, times: &[u64]| {
        let times: Vec<&[u64]> = times.chunks(1).collect();
        fixture::rounds(mechanism, family, &times)
    };
    let rows = vec![row("m3ipc", Family::Ours, ours), row("futex", Family::Floor, floor)];
    Results { rows, ..Results::default() }
}

const STEADY: [u64; 7] = [10_000, 10_010, 10_020, 10_030, 10_040, 10_050, 10_060];

fn times(factor: f64) -> Vec<u64> {
    STEADY.iter().map(|&ns| whole(ns as f64 * factor)).collect()
}

#[test]
fn a_slow_down_above_the_part_is_found_and_a_smaller_one_is_accepted() {
    let before = run_of(&STEADY, &STEADY);
    let verdict =
        |factor| compare(&args(false, false), &before, &run_of(&times(factor), &STEADY))[0].verdict;
    assert_eq!(verdict(1.2), Verdict::Slower);
    assert_eq!(verdict(1.03), Verdict::Same);
    assert_eq!(verdict(0.8), Verdict::Faster);
}

#[test]
fn a_slower_machine_is_no_slower_m3ipc() {
    let (before, after) = (run_of(&STEADY, &STEADY), run_of(&times(1.5), &times(1.5)));
    let relative = compare(&args(false, false), &before, &after);
    assert_eq!((relative.len(), relative[0].verdict), (1, Verdict::Same));
    assert_eq!(relative[0].reference.as_deref(), Some("futex"));
    let absolute = compare(&args(false, true), &before, &after);
    assert_eq!(absolute[0].verdict, Verdict::Slower);
    let (middle, low, high) = absolute[0].ratio;
    assert!(low <= middle && middle <= high, "{low} {middle} {high}");
    assert!((middle - 1.5).abs() < 0.02, "{middle}");
}

#[test]
fn three_rounds_decide_nothing() {
    let few = |factor| run_of(&times(factor)[..3], &STEADY[..3]);
    assert_eq!(compare(&args(false, false), &few(1.0), &few(3.0))[0].verdict, Verdict::Slower);
    // Among two rows the level is halved, which three rounds cannot reach.
    let rows = compare(&args(true, true), &few(1.0), &few(3.0));
    assert!(rows.iter().all(|row| row.verdict == Verdict::TooFew), "{rows:?}");
}

#[test]
fn a_row_of_one_run_only_is_not_compared() {
    let empty = Results::default();
    assert!(compare(&args(false, false), &run_of(&STEADY, &STEADY), &empty).is_empty());
}
