//! Cells in turn, round by round, so that a slow minute of the machine hits all of them alike.

use m3ipc_report::notes;
use m3ipc_report::results::Results;

use crate::error::Error;
use crate::job::Test;
use crate::measure::{Bench, Cell};
use crate::measured::Measured;
use crate::plan::Step;
use crate::progress::Progress;

/// The rounds of each cell of a group.
///
/// A cell that fails, or that this machine cannot measure, has none and is noted.
pub fn measure(
    bench: &Bench,
    step: &Step,
    cells: &[Cell],
    rounds: u32,
    progress: &mut Progress,
    results: &mut Results,
) -> Vec<Vec<Measured>> {
    let mut found: Vec<Vec<Measured>> = cells.iter().map(|_| vec![]).collect();
    let mut given_up = vec![false; cells.len()];
    for round in 0..rounds {
        for number in order(cells.len(), round) {
            if given_up[number] {
                continue;
            }
            let name = name(&cells[number]);
            progress.next(&step.title, &name, round, rounds);
            match bench.measure(&cells[number]) {
                Ok(measured) => found[number].push(measured),
                Err(error) => {
                    given_up[number] = true;
                    found[number].clear();
                    progress.skip(usize::try_from(rounds - round - 1).unwrap_or(0));
                    let text = format!("{} {name}: {error}", step.test);
                    let head = note(&error, text.clone(), results);
                    progress.note(&format!("{head}: {text}"));
                }
            }
        }
    }
    found
}

/// Notes a measurement that cannot be made here or that failed; returns these words.
pub fn note(error: &Error, text: String, results: &mut Results) -> &'static str {
    if matches!(error, Error::Unavailable { .. }) {
        results.skipped.push(text);
        notes::NOT_MEASURED
    } else {
        results.failed.push(text);
        "failed"
    }
}

fn name(cell: &Cell) -> String {
    let (name, wait, load) = (cell.subject.name(), cell.wait, cell.load);
    if let Test::Phases { carries, .. } = load.test {
        let (carries, placement) = (carries.name(), cell.placement);
        let variant = cell.experiment.map(|(experiment, it)| format!(", {experiment} by {it}"));
        let variant = variant.unwrap_or_default();
        return format!("{name} {carries} ({placement}, {wait}{variant})");
    }
    let size = m3ipc_report::text::size(load.bytes);
    let number = if load.count > 1 { format!(" n {}", load.count) } else { String::new() };
    format!("{name} ({wait}) {size}{number}")
}

/// Each round begins with another cell, and every second round goes backwards.
fn order(cells: usize, round: u32) -> Vec<usize> {
    let shift = usize::try_from(round).unwrap_or(0);
    let mut order: Vec<usize> = (0..cells).map(|number| (number + shift) % cells).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn every_round_has_every_cell_in_another_order() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [0, 2, 1]);
        assert_eq!(order(3, 2), [2, 0, 1]);
        assert_eq!(order(0, 1), [0_usize; 0]);
    }
}
