//! Reads the figures of a page and computes each again from the JSON, with code of its own.

use serde_json::Value;

/// Checks all figures; returns their number.
pub fn check(page: &str, json: &Value) -> usize {
    let mut number = 0;
    for (from, shown) in figures(page) {
        let wanted = wanted(&from, json)
            .unwrap_or_else(|| panic!("the page shows {from}, which is not in the JSON"));
        let (is, step) = value(&shown);
        // The page rounds at the last digit. A sample has three digits.
        assert!(
            (is - wanted).abs() <= 0.003 * wanted.abs() + 0.51 * step,
            "{from}: shown {shown}, computed {wanted}"
        );
        number += 1;
    }
    number
}

/// Every figure with its origin: the text of a span, or the value of a point.
fn figures(page: &str) -> Vec<(String, String)> {
    const MARK: &str = "data-f=\"";
    page.match_indices(MARK)
        .map(|(at, _)| {
            let rest = &page[at + MARK.len()..];
            let (from, after) = rest.split_once('"').expect("an attribute ends");
            let tag = &page[page[..at].rfind('<').expect("an attribute is in a tag")..at];
            let shown = if tag.starts_with("<circle") {
                let (_, value) = tag.split_once("data-v=\"").expect("a point has a value");
                value.split_once('"').expect("an attribute ends").0
            } else {
                let (_, text) = after.split_once('>').expect("a tag ends");
                text.split_once('<').expect("a text ends").0
            };
            (from.to_owned(), shown.to_owned())
        })
        .collect()
}

fn wanted(from: &str, json: &Value) -> Option<f64> {
    if let Some((a, b)) = from.split_once(" / ") {
        return Some(ns(row(a, json)?) / ns(row(b, json)?));
    }
    if let Some((a, b)) = from.split_once(" per_s/ ") {
        return Some(middle(row(a, json)?, "per_s") / middle(row(b, json)?, "per_s"));
    }
    if let Some((a, b)) = from.split_once(" per-page ") {
        let (a, b) = (row(a, json)?, row(b, json)?);
        let pages = (b["bytes"].as_f64()? - a["bytes"].as_f64()?) / 4_096.0;
        return Some((ns(b) - ns(a)) / pages);
    }
    let (key, field) = from.split_once('#')?;
    let row = row(key, json)?;
    Some(match field {
        "ns" => ns(row),
        "p99_ns" => over_rounds(row, 0.99),
        "p999_ns" => over_rounds(row, 0.999),
        "max_ns" => rounds(row).iter().flat_map(pairs).map(|pair| pair.0).fold(0.0, f64::max),
        "per_s" => middle(row, "per_s"),
        "cpu_ns_per_op" => middle(row, "cpu_ns_per_op"),
        "cpu_per_byte" => middle(row, "cpu_ns_per_op") / row["bytes"].as_f64()?,
        "bells" => middle(row, "bells_per_op"),
        "switches" => middle(row, "switches_per_op"),
        "gb" => row["bytes"].as_f64()? / ns(row),
        _ => return None,
    })
}

fn row<'a>(key: &str, json: &'a Value) -> Option<&'a Value> {
    let [test, mechanism, placement, wait, bytes, pairs]: [&str; 6] =
        key.split('/').collect::<Vec<_>>().try_into().ok()?;
    let (bytes, pairs): (u64, u64) = (bytes.parse().ok()?, pairs.parse().ok()?);
    json["samples"].as_array()?.iter().find(|row| {
        row["test"] == test
            && row["mechanism"] == mechanism
            && row["placement"] == placement
            && row["wait"] == wait
            && row["bytes"] == bytes
            && row["pairs"] == pairs
    })
}

fn rounds(row: &Value) -> &[Value] {
    row["rounds"].as_array().expect("rounds are a list")
}

fn pairs(round: &Value) -> Vec<(f64, f64)> {
    let pair =
        |pair: &Value| (pair[0].as_f64().expect("a time"), pair[1].as_f64().expect("a number"));
    round["samples"].as_array().expect("samples are a list").iter().map(pair).collect()
}

/// The time of a row: between two messages of a stream, of blocks below a microsecond.
fn ns(row: &Value) -> f64 {
    if row["test"] == "stream" || row["test"] == "sock-stream" {
        return 1e9 / middle(row, "per_s");
    }
    let p50 = over_rounds(row, 0.5);
    let blocks: Vec<f64> =
        rounds(row).iter().filter_map(|round| round["block_ns"].as_f64()).collect();
    if p50 < 1_000.0 && !blocks.is_empty() { median(blocks) } else { p50 }
}

fn over_rounds(row: &Value, share: f64) -> f64 {
    median(rounds(row).iter().map(|round| quantile(&pairs(round), share)).collect())
}

fn quantile(pairs: &[(f64, f64)], share: f64) -> f64 {
    let all: f64 = pairs.iter().map(|pair| pair.1).sum();
    let mut seen = 0.0;
    for (time, number) in pairs {
        seen += number;
        if seen >= (share * all).ceil() {
            return *time;
        }
    }
    0.0
}

fn middle(row: &Value, field: &str) -> f64 {
    median(rounds(row).iter().map(|round| round[field].as_f64().expect("a number")).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// A figure without its unit (ns, per second, GB/s), and one step of its last digit.
fn value(shown: &str) -> (f64, f64) {
    let end = shown.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(shown.len());
    let (digits, unit) = shown.split_at(end);
    let number: f64 = digits.parse().unwrap_or_else(|_| panic!("no figure: {shown:?}"));
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len());
    let step = 0.1_f64.powi(i32::try_from(decimals).unwrap_or(0));
    let scale = match unit.trim_start_matches('\u{a0}') {
        "ns" | "" | "/s" | "GB/s" => 1.0,
        "\u{b5}s" | "k/s" => 1e3,
        "ms" | "M/s" => 1e6,
        "s" => 1e9,
        "MB/s" => 1e-3,
        unit => panic!("no unit: {unit:?} of {shown:?}"),
    };
    (number * scale, step * scale)
}
