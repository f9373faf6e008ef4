//! kill -9 of the server, once per mechanism: does the client get an error, and what stays?

use m3ipc_report::columns::{TRIPS, table};
use m3ipc_report::names::{LEFT, UNTOLD};
use m3ipc_report::results::{Results, Row};
use m3ipc_report::schema::Count;

use crate::error::Error;
use crate::measure::{Bench, Cell};
use crate::plan::Step;
use crate::progress::Progress;
use crate::remains;
use crate::rounds::note;

/// Time to wait for an error that may never come.
const LIMIT_NS: u64 = 3_000_000_000;

/// Kills the server of each cell and counts the named objects that stay.
///
/// A client without a known error has a row if an error comes, and a count if none comes.
pub fn run(bench: &Bench, step: &Step, progress: &mut Progress, results: &mut Results) -> String {
    let cells = step.groups.iter().flatten();
    let limited = Bench { grace_ns: LIMIT_NS, site: bench.site.clone(), ..*bench };
    let (mut rows, mut text) = (vec![], String::new());
    for cell in cells {
        progress.next(&step.title, cell.subject.name(), 0, 1);
        text += &one(bench, &limited, cell, &mut rows, results);
        cell.subject.tidy();
    }
    let head = if text.is_empty() { text } else { format!("\n{}\n{text}", step.title) };
    let rows_text =
        if rows.is_empty() { String::new() } else { table(&step.title, TRIPS, 1, &[rows.clone()]) };
    results.rows.append(&mut rows);
    head + &rows_text
}

fn one(
    bench: &Bench,
    limited: &Bench,
    cell: &Cell,
    rows: &mut Vec<Row>,
    results: &mut Results,
) -> String {
    let name = cell.subject.name();
    let is_known = cell.subject.tells_death();
    let before = remains::list();
    let mut text = String::new();
    let count = |test: &str, what: String, value: f64, unit: &str| {
        let (test, mechanism, unit) = (test.into(), name.into(), unit.into());
        Count { test, mechanism, what, value, unit }
    };
    match (if is_known { bench } else { limited }).measure(cell) {
        Ok(found) if !is_known => rows.push(Row::of(cell.series("death", vec![found.round]))),
        Ok(_) => {}
        Err(Error::Stuck { .. }) if !is_known => {
            let seconds = LIMIT_NS as f64 / 1e9;
            results.counts.push(count(UNTOLD, "waited".into(), seconds, "s"));
            text += &format!("  {name}: no error within {seconds:.0} s\n");
        }
        Err(error) => {
            note(&error, format!("{UNTOLD}: {name}: {error}"), results);
            return text;
        }
    }
    let left = remains::since(&before);
    let what = in_short(&left);
    text += &format!("  {name}: left behind: {what}\n");
    results.counts.push(count(LEFT, what, left.len() as f64, "with a name"));
    text
}

/// The first names, and the number of further ones.
fn in_short(left: &[String]) -> String {
    const SHOWN: usize = 2;
    match left.len() {
        0 => "nothing".into(),
        1..=SHOWN => left.join(", "),
        all => format!("{} and {} more", left[..SHOWN].join(", "), all - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::in_short;

    #[test]
    fn a_long_list_is_shown_in_short() {
        let names = ["a", "b", "c", "d"].map(String::from);
        assert_eq!(in_short(&[]), "nothing");
        assert_eq!(in_short(&names[..2]), "a, b");
        assert_eq!(in_short(&names), "a, b and 2 more");
    }
}
