//! Whether a program holds against the kernel's sockets, and why not.

use super::Row;
use crate::sock::known;

/// The least part of the native throughput that holds.
const HOLDS: f64 = 0.95;
/// Of messages with a token, from which on tokens are the reason.
const MANY: f64 = 0.5;
/// The share of the rings below which the kernel is the reason.
const FEW: f64 = 0.2;

/// What is to be said of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is not slower by more than 5 %.
    Holds,
    /// Its median is slower; its best round is not.
    Unclear,
    /// It is slower.
    Slower,
    /// It stays in the kernel by default.
    Pinned,
    /// It does not work, or tells no figure.
    None,
}

/// A word and its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub word: Word,
    pub why: Option<String>,
    /// Least, median and greatest ratio of a round under `m3 sock run` to the native one beside it.
    pub ratios: Option<[f64; 3]>,
}

impl Word {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Unclear => "unclear",
            Self::Slower => "slower",
            Self::Pinned => "pinned",
            Self::None => "-",
        }
    }
}

impl Verdict {
    /// As it stands in the table.
    pub fn text(&self) -> String {
        let word = self.word.name();
        self.why.as_ref().map_or_else(|| word.to_owned(), |why| format!("{word}: {why}"))
    }
}

/// Ratios of rounds that belong together, in order; none where there are none.
pub fn ratios(ours: &[Option<f64>], native: &[Option<f64>]) -> Option<[f64; 3]> {
    let both = ours.iter().zip(native).filter_map(|(ours, native)| Some(((*ours)?, (*native)?)));
    let mut all: Vec<f64> =
        both.filter(|(_, native)| *native > 0.0).map(|(ours, native)| ours / native).collect();
    all.sort_by(f64::total_cmp);
    Some([*all.first()?, *all.get(all.len() / 2)?, *all.last()?])
}

/// Judges a program; `defaults`: whether known programs stayed in the kernel.
pub fn of(row: &Row, defaults: bool) -> Verdict {
    let rates =
        |side: &super::Side| side.figures.iter().map(|figure| figure.rate).collect::<Vec<_>>();
    let failed = row.native.failure.is_some() || row.ours.failure.is_some();
    let ratios = if failed { None } else { ratios(&rates(&row.ours), &rates(&row.native)) };
    let pinned = row.case.programs().find_map(known::of).filter(|_| defaults && !failed);
    if let Some(known) = pinned {
        return Verdict { word: Word::Pinned, why: Some(known.why.to_owned()), ratios };
    }
    let Some([_, median, most]) = ratios else {
        return Verdict { word: Word::None, why: None, ratios };
    };
    let word = match (median >= HOLDS, most >= HOLDS) {
        (true, _) => Word::Holds,
        (false, true) => Word::Unclear,
        (false, false) => Word::Slower,
    };
    let why = match word {
        Word::Unclear => Some("more rounds tell".to_owned()),
        Word::Slower => Some(reason(row)),
        _ => None,
    };
    Verdict { word, why, ratios }
}

/// What the counters say of a slow one.
fn reason(row: &Row) -> String {
    let share = row.share().unwrap_or(0.0);
    let messages = row.counts.tokens + row.counts.spared;
    let tokens = row.counts.tokens as f64 / messages.max(1) as f64;
    if row.counts.ring == 0 {
        "no byte went through a ring".to_owned()
    } else if share < FEW {
        format!("{} of its bytes in rings, {} overflows", percent(share), row.counts.overflows)
    } else if tokens > MANY {
        format!("a token for {} of its messages", percent(tokens))
    } else {
        "not known".to_owned()
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, Row, Side, figure::Figure, programs::CASES};
    use super::*;

    fn row(name: &str, ours: &[f64], native: &[f64]) -> Row {
        let side = |rates: &[f64]| Side {
            figures: rates
                .iter()
                .map(|rate| Figure { rate: Some(*rate), latency_us: None })
                .collect(),
            failure: None,
        };
        Row {
            case: CASES.iter().find(|case| case.name == name).unwrap(),
            native: side(native),
            ours: side(ours),
            mixed: Side::default(),
            counts: Counts { ring: 50, kernel: 50, tokens: 9, spared: 1, overflows: 3 },
        }
    }

    #[test]
    fn rounds_beside_each_other_are_compared() {
        let row = row("redis -c 1", &[2.0, 0.9, 1.0], &[1.0, 1.0, 1.0]);
        let verdict = of(&row, true);
        assert_eq!((verdict.word, verdict.ratios), (Word::Holds, Some([0.9, 1.0, 2.0])));
        assert_eq!(ratios(&[Some(1.0), None], &[Some(0.0), Some(1.0)]), None);
    }

    #[test]
    fn who_is_slower_is_told_why() {
        let slow = row("redis -c 50", &[0.9, 0.8], &[1.0, 1.0]);
        let verdict = of(&slow, true);
        assert_eq!(verdict.text(), "slower: a token for 90 % of its messages");
        assert_eq!(of(&row("redis -c 50", &[0.9, 0.8, 1.2], &[1.0; 3]), true).word, Word::Unclear);
        let kernel = Row { counts: Counts { ring: 1, ..slow.counts }, ..slow };
        assert_eq!(of(&kernel, true).text(), "slower: 2 % of its bytes in rings, 3 overflows");
        let broken =
            Row { ours: Side { figures: Vec::new(), failure: Some("no".into()) }, ..kernel };
        assert_eq!(of(&broken, true).word, Word::None);
    }

    #[test]
    fn who_is_known_is_pinned_unless_defaults_are_off() {
        let known = row("iperf3", &[0.5], &[1.0]);
        assert_eq!(of(&known, true).word, Word::Pinned);
        assert!(of(&known, true).why.is_some());
        assert_eq!(of(&known, false).word, Word::Slower);
    }
}
