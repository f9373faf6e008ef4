//! The two CPUs of a run: two cores, or two threads of one core.
//!
//! A hypervisor places virtual CPUs as it likes and may tell a guest anything. A cache line that
//! two threads of one core pass to each other stays in their first-level cache; between two cores
//! it moves. So on a virtual machine the floor `bounce` tells the kind, round by round. A machine
//! without a hypervisor is believed.
//!
//! Limits: the bound between the kinds is that of the x86 hosts seen so far (threads 45 to 110 ns,
//! cores 250 to 650 ns a round trip). A round in between, or a host with another gap, is misjudged.

use std::fmt;

use crate::names::BOUNCE;
use crate::results::Results;
use crate::schema::{Claim, Placement, Round};
use crate::stats::{median, quantile};
use crate::text::{or_dash, time};

/// Round trips of `bounce` below this are of two threads of one core, in nanoseconds.
const THREADS_BELOW_NS: f64 = 160.0;
/// The share of the rounds that must agree: one of seven may be disturbed.
const AGREEING: f64 = 0.85;

/// The two CPUs of a run, or of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Two cores.
    TwoCores,
    /// Two threads of one core.
    OneCore,
    /// Now one, now the other.
    Changing,
    /// Nothing tells.
    Unknown,
}

impl HostKind {
    /// The kind during these tests; all tests without a name.
    #[must_use]
    pub fn of(results: &Results, test: Option<&str>) -> Self {
        match results.claim {
            Some(Claim::TwoCores) if !results.is_virtual => return Self::TwoCores,
            Some(Claim::OneCore) if !results.is_virtual => return Self::OneCore,
            _ => {}
        }
        let times = bounces(results, test);
        let threads = times.iter().filter(|&&ns| ns < THREADS_BELOW_NS).count() as f64;
        let all = times.len() as f64;
        match threads / all {
            share if share.is_nan() => Self::Unknown,
            share if share >= AGREEING => Self::OneCore,
            share if share <= 1.0 - AGREEING => Self::TwoCores,
            _ => Self::Changing,
        }
    }
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TwoCores => "two cores",
            Self::OneCore => "two threads of one core",
            Self::Changing => "now two cores, now two threads of one core",
            Self::Unknown => "unknown: no round of bounce in this run",
        })
    }
}

/// The time of a trip in each round of `bounce` on two CPUs.
fn bounces(results: &Results, test: Option<&str>) -> Vec<f64> {
    let is_of = |name: &str| test.is_none_or(|test| name == test);
    let rows = results.rows.iter().filter(|row| {
        let it = &row.record;
        it.mechanism == BOUNCE && it.placement == Placement::TwoCpus && is_of(&it.test)
    });
    let time = |round: &Round| round.block_ns.unwrap_or(quantile(&round.samples, 0.5) as f64);
    rows.flat_map(|row| row.rounds.iter().map(time)).collect()
}

/// The kind of the host, its reason, and the machine's claim; nothing without a bounce.
#[must_use]
pub fn text(results: &Results) -> Option<String> {
    let times = bounces(results, None);
    let middle = median(times.iter().copied())?;
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let who = if results.is_virtual { "the virtual machine claims" } else { "the machine has" };
    Some(format!(
        "{}; bounce {}, {} to {} in {} rounds; {who} {}",
        HostKind::of(results, None),
        time(middle),
        time(least),
        time(most),
        times.len(),
        or_dash(results.claim, |claim| claim.to_string()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::schema::Family;

    fn bounced(times: &[u64]) -> Results {
        let rounds: Vec<&[u64]> = times.chunks(1).collect();
        let rows = vec![fixture::rounds(BOUNCE, Family::Floor, &rounds)];
        Results { rows, claim: Some(Claim::TwoCores), is_virtual: true, ..Results::default() }
    }

    #[test]
    fn the_bounce_tells_the_kind_of_a_virtual_host() {
        let kind = |times: &[u64]| HostKind::of(&bounced(times), Some("ipc2"));
        assert_eq!(kind(&[60, 70, 65, 80, 66, 71, 68]), HostKind::OneCore);
        assert_eq!(kind(&[310, 330, 420, 300, 350, 360, 340]), HostKind::TwoCores);
        assert_eq!(kind(&[310, 330, 60, 300, 70, 360, 340]), HostKind::Changing);
        assert_eq!(kind(&[60, 70, 65, 400, 66, 71, 68]), HostKind::OneCore);
        assert_eq!(kind(&[]), HostKind::Unknown);
        assert_eq!(HostKind::of(&bounced(&[60]), Some("ipc1")), HostKind::Unknown);
    }

    #[test]
    fn a_machine_without_a_hypervisor_is_believed() {
        let real = Results { is_virtual: false, ..bounced(&[60, 61, 62]) };
        assert_eq!(HostKind::of(&real, None), HostKind::TwoCores);
    }

    #[test]
    fn the_text_has_the_bounce_and_the_claim() {
        let text = text(&bounced(&[60, 70, 65])).expect("there are bounces");
        assert!(text.contains("two threads of one core; bounce 65.0 ns, 60.0 ns to 70.0 ns"));
        assert!(text.contains("in 3 rounds; the virtual machine claims two cores"), "{text}");
        assert_eq!(super::text(&Results::default()), None);
    }
}
