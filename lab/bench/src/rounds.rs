//! Runs a test: its cells in turn, round by round, so that a slow minute of the
//! machine hits all of them alike.

use crate::error::Error;
use crate::job::{Placement, Wait};
use crate::measure::{Bench, Cell, Round};
use crate::plan::{Shape, Test};
use crate::progress::Progress;
use crate::record::{Count, Results, Row};
use crate::remains;

/// How long one waits for news that may never come.
const UNTOLD_NS: u64 = 3_000_000_000;

/// Measures all cells of a test and adds their rows, counts, skips and failures; gives the rows.
pub fn run(
    bench: &Bench,
    test: &Test,
    rounds: u32,
    progress: &mut Progress,
    results: &mut Results,
) -> Vec<Row> {
    if test.shape == Shape::Untold {
        return untold(bench, test, progress, results);
    }
    let turns = Turns {
        title: &test.title,
        name: &|cell: &Cell| format!("{} ({})", cell.mechanism.name(), cell.wait),
        measure: &|cell: &Cell| measure(bench, test, cell),
    };
    let found = turns.take(test.name, &test.cells, rounds, progress, results);
    if matches!(test.shape, Shape::Death(_)) {
        test.cells.iter().for_each(|cell| cell.mechanism.tidy());
    }
    let measured = || test.cells.iter().zip(&found).filter(|(_, rounds)| !rounds.is_empty());
    let mut rows: Vec<Row> =
        measured().map(|(cell, rounds)| Row::new(test.name, cell, rounds)).collect();
    if matches!(test.shape, Shape::Contact(_)) {
        rows.extend(measured().map(|(cell, rounds)| Row::new("bind", cell, &binds(rounds))));
    }
    results.counts.extend(rows.iter().filter_map(block_count));
    results.rows.extend_from_slice(&rows);
    rows
}

/// Kills the server of each cell once, and looks what is left of the pair: a count for each. Waits for news of the
/// death where none is known to come; who was told all the same has a row, who was not a count.
fn untold(bench: &Bench, test: &Test, progress: &mut Progress, results: &mut Results) -> Vec<Row> {
    let patient = Bench { grace_ns: UNTOLD_NS, site: bench.site.clone(), ..*bench };
    let mut rows = vec![];
    for cell in &test.cells {
        let name = cell.mechanism.name();
        progress.next(&test.title, name, 0, 1);
        let knows = cell.mechanism.tells_death();
        let before = remains::look();
        let count = |test: &str, what: String, value: f64, unit: &str| Count {
            test: test.into(),
            mechanism: name.into(),
            what,
            value,
            unit: unit.into(),
        };
        match (if knows { bench } else { &patient }).deaths(cell, test.task, 1) {
            Ok(round) if !knows => rows.push(Row::new("death", cell, &[round])),
            Ok(_) => {}
            Err(Error::Stuck { .. }) if !knows => {
                results.counts.push(count(UNTOLD, "waited".into(), UNTOLD_NS as f64 / 1e9, "s"));
            }
            Err(error) => {
                let text = format!("{}: {name}: {error}", test.name);
                let skipped = matches!(error, Error::Unavailable { .. });
                if skipped { &mut results.skipped } else { &mut results.failed }.push(text);
                cell.mechanism.tidy();
                continue;
            }
        }
        let left = remains::since(&before);
        cell.mechanism.tidy();
        results.counts.push(count(LEFT, in_short(&left), left.len() as f64, "with a name"));
    }
    results.rows.extend_from_slice(&rows);
    rows
}

/// The first of these, and how many more there are.
fn in_short(left: &[String]) -> String {
    const SHOWN: usize = 2;
    match left.len() {
        0 => "nothing".into(),
        1..=SHOWN => left.join(", "),
        all => format!("{} and {} more", left[..SHOWN].join(", "), all - SHOWN),
    }
}

/// Name of the test of those who are not told, and of the counts of them.
pub const UNTOLD: &str = "untold";
/// Name of the counts of what is left behind.
pub const LEFT: &str = "left";

/// Cells of any kind that are measured in turn.
pub struct Turns<'a, C> {
    /// What a person reads while they are.
    pub title: &'a str,
    /// What a cell is called.
    pub name: &'a dyn Fn(&C) -> String,
    /// Measures one cell in one round.
    pub measure: &'a dyn Fn(&C) -> Result<Round, Error>,
}

impl<C> Turns<'_, C> {
    /// The rounds of each cell; none of one that failed or cannot be measured here, which is then noted
    /// under the name of the test.
    pub fn take(
        &self,
        test: &str,
        cells: &[C],
        rounds: u32,
        progress: &mut Progress,
        results: &mut Results,
    ) -> Vec<Vec<Round>> {
        let mut found: Vec<Vec<Round>> = cells.iter().map(|_| vec![]).collect();
        let mut given_up = vec![false; cells.len()];
        for round in 0..rounds {
            for number in order(cells.len(), round) {
                let cell = &cells[number];
                if given_up[number] {
                    continue;
                }
                progress.next(self.title, &(self.name)(cell), round, rounds);
                match (self.measure)(cell) {
                    Ok(round) => found[number].push(round),
                    Err(error) => {
                        given_up[number] = true;
                        found[number].clear();
                        progress.skip(usize::try_from(rounds - round - 1).unwrap_or(0));
                        let text = format!("{test} {}: {error}", (self.name)(cell));
                        let skipped = matches!(error, Error::Unavailable { .. });
                        progress.note(&format!(
                            "{} {text}",
                            if skipped { "skipped:" } else { "failed:" }
                        ));
                        if skipped { &mut results.skipped } else { &mut results.failed }.push(text);
                    }
                }
            }
        }
        found
    }
}

/// Each round begins with another cell, and every second one goes backwards.
fn order(cells: usize, round: u32) -> Vec<usize> {
    let shift = usize::try_from(round).unwrap_or(0);
    let mut order: Vec<usize> = (0..cells).map(|number| (number + shift) % cells).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn measure(bench: &Bench, test: &Test, cell: &Cell) -> Result<Round, Error> {
    match test.shape {
        Shape::Trips => bench.trips(cell, test.task, test.warm_ns),
        Shape::OneOfMany => bench.one_of_many(cell, test.task, test.warm_ns),
        Shape::Death(times) => bench.deaths(cell, test.task, times),
        Shape::Untold => bench.deaths(cell, test.task, 1),
        Shape::Restart(times) => bench.restarts(cell, times),
        Shape::Contact(times) => bench.contacts(cell, times),
    }
}

/// The binds of a test of contacts, as rounds of their own.
fn binds(rounds: &[Round]) -> Vec<Round> {
    rounds.iter().map(|round| Round { samples: round.binds.clone(), ..Round::default() }).collect()
}

/// The blocks' median, which the fixed fields of a record have no place for.
fn block_count(row: &Row) -> Option<Count> {
    let record = &row.record;
    let named =
        |placement: Placement, wait: Wait| format!("block {placement} {wait} {}", record.pairs);
    Some(Count {
        test: record.test.clone(),
        mechanism: record.mechanism.clone(),
        what: named(record.placement, record.wait),
        value: (row.block_ns? * 10.0).round() / 10.0,
        unit: "ns".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{in_short, order};

    #[test]
    fn a_long_list_is_shown_in_short() {
        let names = ["a", "b", "c", "d"].map(String::from);
        assert_eq!(in_short(&[]), "nothing");
        assert_eq!(in_short(&names[..2]), "a, b");
        assert_eq!(in_short(&names), "a, b and 2 more");
    }

    #[test]
    fn every_round_has_every_cell_in_another_order() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [0, 2, 1]);
        assert_eq!(order(3, 2), [2, 0, 1]);
        assert_eq!(order(0, 1), [0_usize; 0]);
    }
}
