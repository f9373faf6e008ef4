//! The comparison for a person.

use super::{CompareArgs, Compared, Verdict};
use crate::machine::Machine;
use crate::report::{Table, size, time};

/// A table with a row for each comparison, and what they come to.
#[must_use]
pub fn text(
    args: &CompareArgs,
    (before, after): (&Machine, &Machine),
    rows: &[Compared],
) -> String {
    let mut table = Table::new(&[
        "test",
        "mechanism",
        "bytes",
        "n",
        "before",
        "after",
        "change",
        "95 % interval",
        "p",
        "against",
        "",
    ]);
    for row in rows {
        let record = &row.row.record;
        let (middle, low, high) = row.ratio;
        let figure =
            |value| if row.reference.is_some() { format!("{value:.3} x") } else { time(value) };
        table.row(vec![
            format!("{} {}", record.test, record.placement),
            format!("{} ({})", record.mechanism, record.wait),
            size(record.bytes),
            record.pairs.to_string(),
            figure(row.middle.0),
            figure(row.middle.1),
            percent(middle),
            format!("{} to {}", percent(low), percent(high)),
            if row.p < 0.001 { format!("{:.0e}", row.p) } else { format!("{:.3}", row.p) },
            row.reference.clone().unwrap_or_else(|| "time itself".into()),
            match row.verdict {
                Verdict::Slower => "SLOWER",
                Verdict::Faster => "faster",
                Verdict::Same => "",
                Verdict::TooFew => "too few rounds",
            }
            .into(),
        ]);
    }
    let number = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let other = if before.cpu == after.cpu && before.kernel == after.kernel {
        String::new()
    } else {
        format!(
            "two machines: {}, {} and {}, {}; only what is taken against a floor can be compared\n",
            before.cpu, before.kernel, after.cpu, after.kernel
        )
    };
    format!(
        "{other}{}{} rows: {} slower by more than {} % (level {}, Holm), {} faster, {} undecided for too few rounds\n",
        table.text(),
        rows.len(),
        number(Verdict::Slower),
        args.part,
        args.level,
        number(Verdict::Faster),
        number(Verdict::TooFew),
    )
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}
