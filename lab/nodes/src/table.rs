//! The tables of a run.

use m3ipc_report::text::{Table, or_dash, rate, time};

use crate::supervisor::{Row, RowName};

/// The name of the floor.
const FLOOR: &str = "tcp";

/// All tables.
pub fn text(engines: &[String], rows: &[Row]) -> String {
    let found = |engine: &str, row| rows.iter().find(|it| it.engine == engine && it.row == row);
    let p50 = |row: &Row| row.median(|it| it.p50_ns as f64);
    let p99 = |row: &Row| row.median(|it| it.p99_ns as f64);
    let per_s = |row: &Row| row.median(|it| it.per_s);
    let ratio = |engine: &str, row, of: &dyn Fn(&Row) -> Option<f64>| {
        Some(of(found(engine, row)?)? / of(found(FLOOR, row)?)?)
    };
    let times = |value: Option<f64>| or_dash(value, |it| format!("{it:.2} x"));
    let shown = |value: Option<f64>| or_dash(value, time);
    let mega = |value: Option<f64>| or_dash(value, |it| format!("{:.0} MB/s", it / 1e6));

    let mut calls = Table::new(&[
        "engine",
        "",
        "hot p50",
        "p99",
        "of tcp",
        "1 a ms p50",
        "p99",
        "64 at once/s",
    ]);
    let mut copies = Table::new(&[
        "engine",
        "",
        "4 MB copies",
        "of tcp",
        "hot p99 beside",
        "grows",
        "1 a ms p99 beside",
        "grows",
        "copies meanwhile",
    ]);
    let mut deaths = Table::new(&[
        "engine",
        "event",
        "healthy max before",
        "p99 after",
        "max after",
        "sent",
        "unanswered",
        "line failed after",
    ]);
    for engine in engines {
        let row = |name| found(engine, name);
        let of = |name, figure: &dyn Fn(&Row) -> Option<f64>| row(name).and_then(figure);
        calls.row(vec![
            engine.clone(),
            String::new(),
            shown(of(RowName::Hot, &p50)),
            shown(of(RowName::Hot, &p99)),
            times(ratio(engine, RowName::Hot, &p50)),
            shown(of(RowName::Paced, &p50)),
            shown(of(RowName::Paced, &p99)),
            or_dash(of(RowName::Many, &per_s), rate),
        ]);
        let growth = |with, without| Some(of(with, &p99)? / of(without, &p99)?);
        copies.row(vec![
            engine.clone(),
            String::new(),
            mega(of(RowName::Copy, &per_s)),
            times(ratio(engine, RowName::Copy, &per_s)),
            shown(of(RowName::HotCopy, &p99)),
            times(growth(RowName::HotCopy, RowName::Hot)),
            shown(of(RowName::PacedCopy, &p99)),
            times(growth(RowName::PacedCopy, RowName::Paced)),
            mega(of(RowName::PacedCopy, &per_s)),
        ]);
        for (event, name) in [("kill -9", RowName::Kill), ("stop", RowName::Stop)] {
            let Some(row) = row(name) else { continue };
            let failed = row.rounds.iter().filter_map(|it| it.failed_ns).max();
            deaths.row(vec![
                engine.clone(),
                event.into(),
                time(row.most(|it| it.calm_max_ns) as f64),
                shown(p99(row)),
                time(row.most(|it| it.max_ns) as f64),
                row.most(|it| it.sent).to_string(),
                row.most(|it| it.unanswered).to_string(),
                failed.map_or_else(|| "never".into(), |ns| time(ns as f64)),
            ]);
        }
    }
    let mut text = format!("\n{}\n{}\n{}", calls.text(), copies.text(), deaths.text());
    for engine in engines {
        if let Some(row) = found(engine, RowName::Death) {
            let (p50, worst) = (shown(p50(row)), time(row.most(|it| it.max_ns) as f64));
            text.push_str(&format!(
                "{engine}: kill -9 of the server to the error of its remote caller: {p50}, at \
                 most {worst}\n"
            ));
        }
        for (name, event) in [(RowName::Closed, "killed"), (RowName::Silence, "stopped")] {
            let Some(row) = found(engine, name) else { continue };
            let (p50, worst) = (shown(p50(row)), time(row.most(|it| it.max_ns) as f64));
            text.push_str(&format!(
                "{engine}: proxy {event} to the error of a caller whose request was taken: {p50}, \
                 at most {worst}\n"
            ));
        }
        if let Some(row) = found(engine, RowName::Local) {
            let without = row.median(|it| it.calm_max_ns as f64);
            let ratio = p50(row).zip(without).map(|(with, without)| with / without);
            text.push_str(&format!(
                "{engine}: local round trip {} without a proxy, {} with it ({})\n",
                shown(without),
                shown(p50(row)),
                times(ratio)
            ));
        }
    }
    for row in rows.iter().filter(|row| !row.failures.is_empty()) {
        let failures = row.failures.join("; ");
        text.push_str(&format!("{} {:?}: no figure: {failures}\n", row.engine, row.row));
    }
    text
}
