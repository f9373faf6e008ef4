//! Bounds of the lines that others cause at will, so that none of them fills a log or keeps its
//! writer busy with it.

use std::collections::HashMap;
use std::hash::Hash;

/// The lines that one source may cause at once.
const BURST: u32 = 16;
/// The time after which a source may cause one more line.
const LINE_NS: u64 = 5_000_000_000;
/// The number of sources with a count. A flood of more sources counts anew.
const SOURCES_MAX: usize = 4_096;

/// The lines of one source.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    lines: u32,
    at_ns: u64,
    is_told: bool,
}

/// The lines of all sources: users, nodes, or what else causes lines.
#[derive(Debug)]
pub struct LineLimits<K>(HashMap<K, Allowance>);

/// Whether a line may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineVerdict {
    /// It may.
    Write,
    /// This is the first line that is left out: say so.
    Last,
    /// It may not.
    LeaveOut,
}

impl<K> Default for LineLimits<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> LineLimits<K> {
    /// Whether a line of this source may be written at this time of CLOCK_MONOTONIC.
    pub fn verdict(&mut self, source: K, now_ns: u64) -> LineVerdict {
        if self.0.len() >= SOURCES_MAX && !self.0.contains_key(&source) {
            self.0.clear();
        }
        let full = Allowance { lines: BURST, at_ns: now_ns, is_told: false };
        let source = self.0.entry(source).or_insert(full);
        let grown = now_ns.saturating_sub(source.at_ns) / LINE_NS;
        if grown > 0 {
            let grown = u32::try_from(grown).unwrap_or(BURST);
            source.lines = source.lines.saturating_add(grown).min(BURST);
            source.at_ns = now_ns;
        }
        if source.lines > 0 {
            source.lines -= 1;
            source.is_told = false;
            return LineVerdict::Write;
        }
        match std::mem::replace(&mut source.is_told, true) {
            true => LineVerdict::LeaveOut,
            false => LineVerdict::Last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_causes_a_few_lines_and_one_more_after_a_while() {
        let mut limits = LineLimits::default();
        let written = |limits: &mut LineLimits<u32>, uid, now_ns| {
            (0..1_000).filter(|_| limits.verdict(uid, now_ns) == LineVerdict::Write).count()
        };
        assert_eq!(written(&mut limits, 7, 0), BURST as usize);
        assert_eq!(limits.verdict(7, 0), LineVerdict::LeaveOut, "announced before");
        assert_eq!(written(&mut limits, 8, 0), BURST as usize, "another user");
        assert_eq!(written(&mut limits, 7, LINE_NS), 1);
        assert_eq!(written(&mut limits, 7, 1_000 * LINE_NS), BURST as usize);
    }
}
