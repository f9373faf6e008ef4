//! The report of `m3 sock check`: a table or JSON.

use super::measurement::short;
use super::result::{CaseResult, ModeResults};
use super::verdict::Verdict;
use crate::error::Result;
use crate::output::{Output, table};

const HEAD: [&str; 10] = [
    "PROGRAM",
    "WORKS",
    "THROUGHPUT",
    "RATIO",
    "SPREAD",
    "LATENCY",
    "RATIO",
    "RING",
    "WITH A PLAIN CLIENT",
    "VERDICT",
];

/// Prints the results with their verdicts, and the cases that were skipped.
pub fn print(
    results: &[CaseResult],
    verdicts: &[Verdict],
    skipped: &[String],
    out: Output,
) -> Result<()> {
    let judged = results.iter().zip(verdicts);
    if out.is_json() {
        let programs: Vec<_> = judged.map(|(result, verdict)| json(result, verdict)).collect();
        return out.json(&serde_json::json!({ "programs": programs, "skipped": skipped }));
    }
    if !results.is_empty() {
        let rows: Vec<_> = judged.map(|(result, verdict)| row(result, verdict)).collect();
        out.line(table(&HEAD, &rows))?;
    }
    skipped.iter().try_for_each(|line| out.line(format!("skipped  {line}")))
}

fn row(result: &CaseResult, verdict: &Verdict) -> Vec<String> {
    let CaseResult { case, native, preloaded, mixed, counts } = result;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let works = match &native.failure {
        Some(why) => format!("not natively either: {why}"),
        None => preloaded.works(),
    };
    let latency_ratio = match (preloaded.latency_us(), native.latency_us()) {
        (Some(own_us), Some(native_us)) if native_us > 0.0 => Some(own_us / native_us),
        _ => None,
    };
    let share = counts.ring_share().unwrap_or(0.0) * 100.0;
    vec![
        case.name.to_owned(),
        works,
        or_dash(preloaded.rate().map(|rate| short(rate, case.unit))),
        or_dash(verdict.ratios.map(|[_, median, _]| format!("{median:.2}x"))),
        or_dash(verdict.ratios.map(|[least, _, most]| format!("{least:.2}..{most:.2}"))),
        or_dash(preloaded.latency_us().map(|us| short(us / 1e6, "s"))),
        or_dash(latency_ratio.map(|ratio| format!("{ratio:.2}x"))),
        format!("{share:.0} %"),
        mixed.works(),
        verdict.text(),
    ]
}

fn json(result: &CaseResult, verdict: &Verdict) -> serde_json::Value {
    let CaseResult { case, native, preloaded, mixed, counts } = result;
    let mode = |mode: &ModeResults| {
        serde_json::json!({
            "works": mode.failure.is_none(), "failure": mode.failure, "throughput": mode.rate(),
            "latency_us": mode.latency_us(), "runs": mode.measurements.len(),
        })
    };
    serde_json::json!({
        "program": case.name, "unit": case.unit, "native": mode(native),
        "preloaded": mode(preloaded), "plain_client": mode(mixed),
        "ring_bytes": counts.ring_bytes, "kernel_bytes": counts.kernel_bytes,
        "wakeup_bytes": counts.wakeups, "wakeup_bytes_spared": counts.wakeups_spared,
        "overflows": counts.overflows, "verdict": verdict.kind.name(), "why": verdict.why,
        "ratio": verdict.ratios.map(|[_, median, _]| median),
        "ratio_spread": verdict.ratios.map(|[least, _, most]| [least, most]),
    })
}
