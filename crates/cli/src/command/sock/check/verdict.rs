//! The verdict on a program: its throughput under `m3 sock run` beside the native one.

use super::result::{CaseResult, ModeResults, RingCounts};

/// The least share of the native throughput that counts as equal.
const HOLDS_RATIO: f64 = 0.95;
/// The share of messages with a wakeup byte above which wakeups are the reason.
const MANY_WAKEUPS: f64 = 0.5;
/// The share of bytes in rings below which the kernel is the reason.
const FEW_RING_BYTES: f64 = 0.2;

/// The kind of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// The program is not slower by more than 5 %.
    Holds,
    /// The median is slower, the best round is not.
    Unclear,
    /// The program is slower.
    Slower,
    /// The program failed or reported no throughput.
    None,
}

/// A verdict with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub kind: VerdictKind,
    pub why: Option<String>,
    /// The least, the median and the greatest ratio of the rounds, to the native throughput.
    pub ratios: Option<[f64; 3]>,
}

impl VerdictKind {
    /// The word of the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Unclear => "unclear",
            Self::Slower => "slower",
            Self::None => "-",
        }
    }
}

impl Verdict {
    /// The text of the table.
    pub fn text(&self) -> String {
        let name = self.kind.name();
        self.why.as_ref().map_or_else(|| name.to_owned(), |why| format!("{name}: {why}"))
    }
}

/// The least, the median and the greatest ratio of rates of the same round.
pub fn ratios(rates: &[Option<f64>], native: &[Option<f64>]) -> Option<[f64; 3]> {
    let rounds = rates.iter().zip(native).filter_map(|(rate, native)| Some(((*rate)?, (*native)?)));
    let mut all: Vec<f64> =
        rounds.filter(|(_, native)| *native > 0.0).map(|(rate, native)| rate / native).collect();
    all.sort_by(f64::total_cmp);
    Some([*all.first()?, *all.get(all.len() / 2)?, *all.last()?])
}

/// Judges a program.
pub fn of(result: &CaseResult) -> Verdict {
    let rates = |mode: &ModeResults| -> Vec<Option<f64>> {
        mode.measurements.iter().map(|measurement| measurement.rate).collect()
    };
    let has_failed = result.native.failure.is_some() || result.preloaded.failure.is_some();
    let ratios = match has_failed {
        true => None,
        false => ratios(&rates(&result.preloaded), &rates(&result.native)),
    };
    let Some([_, median, most]) = ratios else {
        return Verdict { kind: VerdictKind::None, why: None, ratios };
    };
    let kind = match (median >= HOLDS_RATIO, most >= HOLDS_RATIO) {
        (true, _) => VerdictKind::Holds,
        (false, true) => VerdictKind::Unclear,
        (false, false) => VerdictKind::Slower,
    };
    let why = match kind {
        VerdictKind::Unclear => Some("run more rounds".to_owned()),
        VerdictKind::Slower => Some(reason(&result.counts)),
        _ => None,
    };
    Verdict { kind, why, ratios }
}

/// The reason of a low throughput, from the counters.
fn reason(counts: &RingCounts) -> String {
    let share = counts.ring_share().unwrap_or(0.0);
    let messages = counts.wakeups + counts.wakeups_spared;
    let wakeups = counts.wakeups as f64 / messages.max(1) as f64;
    if counts.ring_bytes == 0 {
        "no byte went through a ring".to_owned()
    } else if share < FEW_RING_BYTES {
        format!("{} of the bytes in rings, {} overflows", percent(share), counts.overflows)
    } else if wakeups > MANY_WAKEUPS {
        format!("a wakeup for {} of the messages", percent(wakeups))
    } else {
        "unknown reason".to_owned()
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::{cases::CASES, measurement::Measurement};
    use super::*;

    fn result(name: &str, preloaded: &[f64], native: &[f64]) -> CaseResult {
        let measurement = |rate: &f64| Measurement { rate: Some(*rate), latency_us: None };
        let mode = |rates: &[f64]| ModeResults {
            measurements: rates.iter().map(measurement).collect(),
            failure: None,
        };
        CaseResult {
            native: mode(native),
            preloaded: mode(preloaded),
            counts: RingCounts {
                ring_bytes: 50,
                kernel_bytes: 50,
                wakeups: 9,
                wakeups_spared: 1,
                overflows: 3,
            },
            ..CaseResult::new(CASES.iter().find(|case| case.name == name).unwrap())
        }
    }

    #[test]
    fn rates_of_the_same_round_are_compared() {
        let result = result("redis -c 1", &[2.0, 0.9, 1.0], &[1.0, 1.0, 1.0]);
        let verdict = of(&result);
        assert_eq!((verdict.kind, verdict.ratios), (VerdictKind::Holds, Some([0.9, 1.0, 2.0])));
        assert_eq!(ratios(&[Some(1.0), None], &[Some(0.0), Some(1.0)]), None);
    }

    #[test]
    fn a_slow_program_gets_a_reason() {
        let slow = result("redis -c 50", &[0.9, 0.8], &[1.0, 1.0]);
        assert_eq!(of(&slow).text(), "slower: a wakeup for 90 % of the messages");
        let unclear = result("redis -c 50", &[0.9, 0.8, 1.2], &[1.0; 3]);
        assert_eq!(of(&unclear).kind, VerdictKind::Unclear);
        let kernel = CaseResult { counts: RingCounts { ring_bytes: 1, ..slow.counts }, ..slow };
        assert_eq!(of(&kernel).text(), "slower: 2 % of the bytes in rings, 3 overflows");
        let failed = ModeResults { measurements: Vec::new(), failure: Some("no".into()) };
        let broken = CaseResult { preloaded: failed, ..kernel };
        assert_eq!(of(&broken).kind, VerdictKind::None);
    }
}
