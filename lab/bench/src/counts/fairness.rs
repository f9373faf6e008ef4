//! Fairness: the waits of a thousand clients that call one server without a pause.

use crate::error::Error;
use crate::job::Test;
use crate::measure::Bench;

use super::memory::{Found, cell, start_two};

/// Clients that call at the same time.
const CLIENTS: u32 = 1_000;

/// Measures how long each client waits for its answers.
pub fn find(bench: &Bench) -> Result<Found, Error> {
    let (_keep, mut processes) = start_two(bench, &cell(Test::Fairness, CLIENTS), true)?;
    processes.let_end(1);
    processes.finish(0, &[1])?;
    let waits = &processes.report(1).ok_or(Error::PeerGone)?.waits_ns;
    let (median, slowest) = median_and_most(waits.iter().map(|it| it.mean))?;
    let (_, longest) = median_and_most(waits.iter().map(|it| it.longest))?;
    Ok(vec![
        ("clients", waits.len() as f64, "clients"),
        ("wait of the median client", median, "ns"),
        ("wait of the slowest client", slowest, "ns"),
        ("longest single wait", longest, "ns"),
    ])
}

fn median_and_most(values: impl Iterator<Item = f64>) -> Result<(f64, f64), Error> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (median, most) = (values.get(values.len() / 2), values.last());
    Ok((*median.ok_or(Error::PeerGone)?, *most.ok_or(Error::PeerGone)?))
}

#[cfg(test)]
mod tests {
    use super::median_and_most;

    #[test]
    fn the_slowest_client_counts_alone() {
        assert_eq!(median_and_most([3.0, 1.0, 50.0, 2.0, 2.5].into_iter()).unwrap(), (2.5, 50.0));
        assert!(median_and_most(std::iter::empty()).is_err());
    }
}
