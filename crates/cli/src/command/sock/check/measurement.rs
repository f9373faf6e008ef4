//! Measurements, read from the output of clients.

/// The throughput of a client in units of the case per second, and the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurement {
    pub rate: Option<f64>,
    pub latency_us: Option<f64>,
}

impl Measurement {
    const fn rate(rate: f64) -> Self {
        Self { rate: Some(rate), latency_us: None }
    }
}

/// A number with a decimal prefix and a unit.
pub fn short(value: f64, unit: &str) -> String {
    let steps =
        [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")];
    let (step, prefix) = steps.into_iter().find(|(step, _)| value >= *step).unwrap_or((1e-9, "n"));
    format!("{:.1} {prefix}{unit}", value / step)
}

/// The first number of a text.
fn number(text: &str) -> Option<f64> {
    let start = text.find(|letter: char| letter.is_ascii_digit())?;
    let rest = &text[start..];
    let end =
        rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.split_once(word).map(|(_, rest)| rest)
}

/// The first number of a text, with the time unit after it, in microseconds.
fn time_us(text: &str) -> Option<f64> {
    let value = number(text)?;
    let unit = text
        .trim_start()
        .trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let scale = match unit.trim_start() {
        unit if unit.starts_with("us") => 1.0,
        unit if unit.starts_with("ms") => 1e3,
        unit if unit.starts_with('s') => 1e6,
        _ => return None,
    };
    Some(value * scale)
}

/// `redis-benchmark --csv`: the line of GET, with requests per second and the median in ms.
pub fn redis(output: &str) -> Option<Measurement> {
    let line = output.lines().find(|line| line.starts_with("\"GET\""))?;
    let cells: Vec<f64> =
        line.split(',').skip(1).filter_map(|cell| cell.trim_matches('"').parse().ok()).collect();
    // The columns are rps, avg, min, p50, p95, p99 and max.
    Some(Measurement { rate: Some(*cells.first()?), latency_us: cells.get(3).map(|ms| ms * 1e3) })
}

/// `wrk --latency`; `None` after errors.
pub fn wrk(output: &str) -> Option<Measurement> {
    let errors = ["Socket errors", "Non-2xx"].iter().any(|word| output.contains(word));
    let rate = number(after(output, "Requests/sec:")?)?;
    let latency_us = after(output, "50%").and_then(time_us);
    (!errors && rate > 0.0).then_some(Measurement { rate: Some(rate), latency_us })
}

/// `memcslap`: complete runs per second.
pub fn memcslap(output: &str) -> Option<Measurement> {
    let seconds = number(after(output, "Took").or_else(|| after(output, "Time total:"))?)?;
    (seconds > 0.0).then(|| Measurement::rate(1.0 / seconds))
}

/// `iperf3 -J`: bytes per second.
pub fn iperf3(output: &str) -> Option<Measurement> {
    let value: serde_json::Value = serde_json::from_str(output).ok()?;
    let bits = value["end"]["sum_received"]["bits_per_second"].as_f64()?;
    (bits > 0.0).then(|| Measurement::rate(bits / 8.0))
}

/// `sockperf ping-pong`: half round trips.
pub fn sockperf(output: &str) -> Option<Measurement> {
    let latency_us =
        number(after(output, "percentile 50.000 =").or_else(|| after(output, "avg-latency="))?)?;
    Some(Measurement { rate: Some(1e6 / (2.0 * latency_us)), latency_us: Some(latency_us) })
}

/// `NPtcp`: the greatest rate of all sizes, and half a round trip of one byte.
pub fn netpipe(output: &str) -> Option<Measurement> {
    let mut rates = Vec::new();
    let mut latency_us = None;
    for line in output.lines().filter(|line| line.contains("Mbps in")) {
        let rate = number(after(line, "-->")?)?;
        latency_us = latency_us.or_else(|| number(after(line, "Mbps in")?));
        rates.push(rate);
    }
    let best = rates.into_iter().max_by(f64::total_cmp)?;
    Some(Measurement { rate: Some(best * 1e6 / 8.0), latency_us })
}

/// `pgbench`: transactions per second.
pub fn pgbench(output: &str) -> Option<Measurement> {
    let rate = number(after(output, "tps =")?)?;
    let latency_us = after(output, "latency average =").and_then(time_us);
    Some(Measurement { rate: Some(rate), latency_us })
}

/// `hey`; `None` after errors.
pub fn hey(output: &str) -> Option<Measurement> {
    let rate = number(after(output, "Requests/sec:")?)?;
    let failed = output.contains("Error distribution");
    (!failed && rate > 0.0).then(|| Measurement::rate(rate))
}

/// A script that prints `same` after its comparison, and perhaps a rate in bytes per second.
pub fn checked_transfer(output: &str) -> Option<Measurement> {
    let rate = after(output, "rate ").and_then(number);
    output.contains("same").then_some(Measurement { rate, latency_us: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_each_client_is_read() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\"\n\
                   \"SET\",\"1.0\",\"1\",\"1\",\"1\"\n\
                   \"GET\",\"25000.50\",\"0.039\",\"0.016\",\"0.031\",\"0.1\"\n";
        assert_eq!(redis(csv), Some(Measurement { rate: Some(25000.5), latency_us: Some(31.0) }));
        let text = "  Latency Distribution\n     50%  123.00us\n     75%  1.10ms\n\
                    Requests/sec:  45678.90\n";
        assert_eq!(wrk(text), Some(Measurement { rate: Some(45678.9), latency_us: Some(123.0) }));
        assert_eq!(wrk(&format!("{text}  Non-2xx or 3xx responses: 3\n")), None);
        assert_eq!(memcslap("\tTook 0.500 seconds to load data\n"), Some(Measurement::rate(2.0)));
        let json = r#"{"end":{"sum_received":{"bits_per_second":8e9}}}"#;
        assert_eq!(iperf3(json), Some(Measurement::rate(1e9)));
        let text = "sockperf: ---> percentile 50.000 =    8.000\n";
        assert_eq!(sockperf(text).and_then(|measurement| measurement.latency_us), Some(8.0));
        let text = "  0:       1 bytes  1000 times -->      0.50 Mbps in      15.10 usec\n";
        assert_eq!(
            netpipe(text),
            Some(Measurement { rate: Some(62_500.0), latency_us: Some(15.1) })
        );
        let text = "latency average = 1.250 ms\ntps = 800.5 (without initial connection time)\n";
        assert_eq!(
            pgbench(text),
            Some(Measurement { rate: Some(800.5), latency_us: Some(1250.0) })
        );
        assert_eq!(hey("  Requests/sec:\t1234.5\n"), Some(Measurement::rate(1234.5)));
        assert_eq!(checked_transfer("other"), None);
        assert_eq!(checked_transfer("same\nrate 1500\n"), Some(Measurement::rate(1500.0)));
        assert_eq!(checked_transfer("same\n"), Some(Measurement::default()));
    }

    #[test]
    fn output_without_a_measurement_gives_none() {
        for read in
            [redis, wrk, memcslap, iperf3, sockperf, netpipe, pgbench, hey, checked_transfer]
        {
            assert_eq!(read(""), None);
            assert_eq!(read("error: connection refused"), None);
        }
    }

    #[test]
    fn numbers_get_a_decimal_prefix() {
        assert_eq!(short(45_678.9, "req"), "45.7 kreq");
        assert_eq!(short(31e-6, "s"), "31.0 us");
        assert_eq!(short(0.0, "s"), "0.0 ns");
    }
}
