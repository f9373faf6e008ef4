//! The text of the demonstration.

use super::leaks::LeakReport;
use super::protocol::{RoundTrips, median};
use crate::error::Result;
use crate::output::{Output, time};
use std::time::Duration;

/// The bound of the median time from a kill to the error of the call.
const DEATH_BOUND_NS: u64 = 1_000_000;

/// Prints numbered steps; prints nothing where JSON is wanted.
pub struct StepPrinter {
    out: Output,
    step: u32,
}

impl StepPrinter {
    /// A printer before its first step.
    pub fn new(out: Output) -> Self {
        Self { out, step: 0 }
    }

    /// The first line of a step.
    pub fn step(&mut self, title: &str, text: &str) -> Result<()> {
        self.step += 1;
        let title = self.out.bold(&format!("{title:<9}"));
        self.print(&format!("{} {title}{text}", self.step))
    }

    /// A further line of the step.
    pub fn detail(&self, text: &str) -> Result<()> {
        self.print(&format!("           {text}"))
    }

    fn print(&self, text: &str) -> Result<()> {
        if self.out.is_json() { Ok(()) } else { self.out.line(text) }
    }

    /// The lines of the search for leaks.
    pub fn leaks(&self, leaked: &LeakReport) -> Result<()> {
        let files = leaked.shared_files + usize::from(leaked.directory);
        let rows = [
            ("processes", leaked.processes, format!("of {} started", leaked.processes_started)),
            (
                "descriptors",
                leaked.descriptors,
                format!("in {} processes that were searched", leaked.processes_scanned),
            ),
            ("mappings", leaked.mappings, format!("of {} memory objects", leaked.memory_objects)),
            ("files", files, "in /dev/shm and the runtime directory".to_owned()),
        ];
        for (name, count, scope) in rows {
            let text = count.to_string();
            let count = if count == 0 { self.out.good(&text) } else { self.out.bad(&text) };
            self.detail(&format!("{name:<12} {count} left {scope}"))?;
        }
        Ok(())
    }
}

/// The times from a kill to the news of it, in nanoseconds.
pub struct DeathNews<'a> {
    /// To the error of the call.
    pub own_ns: &'a [u64],
    /// To the end of file of a Unix socket.
    pub socket_ns: &'a [u64],
}

/// The 99th percentile: of fewer than 100 values, the largest.
pub fn p99(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * 99).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// The last lines: latencies, the time to learn of a death, and leaks.
pub fn summary(
    round_trips: &[RoundTrips],
    news: DeathNews<'_>,
    leaked: &LeakReport,
    took: Duration,
    out: Output,
) -> String {
    let of = |name: &str| {
        let found = round_trips.iter().find(|result| result.name.starts_with(name));
        found.map_or(0, |result| result.median_ns)
    };
    let (own_ns, pipe_ns, socket_ns) = (of("m3ipc, adaptive"), of("pipe"), of("Unix"));
    // The conversion may round: one digit after the point is printed.
    let ratio = |other_ns: u64| other_ns as f64 / own_ns.max(1) as f64;
    let clean =
        if leaked.is_clean() { out.good("nothing is left") } else { out.bad("SOMETHING IS LEFT") };
    let middle_ns = |times_ns: &[u64]| median(&mut times_ns.to_vec());
    let death_ns = middle_ns(news.own_ns);
    let death = time(death_ns);
    let death = if death_ns <= DEATH_BOUND_NS {
        out.good(&death)
    } else {
        out.bad(&format!("{death} (over 1 ms)"))
    };
    format!(
        "\na call takes {}; a pipe {:.1} times as long, a Unix socket {:.1} times\n\
         the client learns of a killed server after {death} (median; p99 {}), by a Unix socket \
         after {} (p99 {})\n\
         {clean}; the demonstration took {:.1} s. Next: m3 vm create shop, m3 --help",
        out.bold(&time(own_ns)),
        ratio(pipe_ns),
        ratio(socket_ns),
        time(p99(news.own_ns)),
        time(middle_ns(news.socket_ns)),
        time(p99(news.socket_ns)),
        took.as_secs_f64()
    )
}
