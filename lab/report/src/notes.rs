//! What stands around the tables of a run: versions, counts, and what was left out.

use crate::names::COUNTED;
use crate::results::Results;
use crate::text::Table;

/// The word for a measurement that this machine cannot make, before its reason.
pub const NOT_MEASURED: &str = "not measured here";

/// The other libraries of a run with their versions; nothing without any.
#[must_use]
pub fn libraries(results: &Results) -> String {
    if results.libraries.is_empty() {
        return String::new();
    }
    let one = |(name, version): &(String, String)| format!("{name} {version}");
    format!("libraries {}\n", results.libraries.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Instructions, memory and fairness.
#[must_use]
pub fn counts(results: &Results) -> String {
    let mut table = Table::new(&["test", "what", "figure", ""]);
    for count in results.counts.iter().filter(|count| COUNTED.contains(&count.test.as_str())) {
        let value = format!("{:.0}", count.value);
        table.row(vec![count.test.clone(), count.what.clone(), value, count.unit.clone()]);
    }
    format!("\ncounted\n{}", table.text())
}

/// Measurements that could not be made here or that failed, with their reasons.
#[must_use]
pub fn left_out(results: &Results) -> String {
    let lines = |head: &str, list: &[String]| {
        list.iter().map(|text| format!("{head}: {text}\n")).collect::<String>()
    };
    let text = lines(NOT_MEASURED, &results.skipped) + &lines("failed", &results.failed);
    if text.is_empty() { text } else { format!("\n{text}") }
}
