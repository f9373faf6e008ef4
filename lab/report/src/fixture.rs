//! Rows for unit tests.

use crate::results::Row;
use crate::schema::{Family, Placement, Round, Series, Wait};

/// A row of two CPUs that blocks, one round for each list of times.
pub fn rounds(mechanism: &str, family: Family, times: &[&[u64]]) -> Row {
    let round = |times: &&[u64]| {
        let mut samples: Vec<(u64, u64)> = times.iter().map(|&ns| (ns, 1)).collect();
        samples.sort_unstable();
        Round { samples, per_s: 1e9 / times[0].max(1) as f64, ..Round::default() }
    };
    Row::of(Series {
        test: "ipc2".into(),
        mechanism: mechanism.into(),
        family,
        placement: Placement::TwoCpus,
        wait: Wait::Block,
        bytes: 48,
        pairs: 1,
        rounds: times.iter().map(round).collect(),
    })
}

/// A row of one time; its 99th percentile is twice that.
pub fn row(
    test: &str,
    mechanism: &str,
    family: Family,
    placement: Placement,
    wait: Wait,
    p50_ns: u64,
) -> Row {
    let mut row = rounds(mechanism, family, &[&[p50_ns]]);
    row.record.test = test.into();
    (row.record.placement, row.record.wait) = (placement, wait);
    (row.record.p99_ns, row.record.p999_ns) = (2 * p50_ns, 3 * p50_ns);
    row
}
