//! Sums over all traced messages: histograms per verb and per pair, and the slowest calls.

use super::event::{TracedMessage, ns, phases_ns, verb};
use super::line;
use super::names::EndpointNames;
use crate::output::{table, time};
use hdrhistogram::Histogram;
use m3ipc::Address;
use m3ipc::trace::{Phases, StampScale};
use std::collections::BTreeMap;

/// The longest duration of a histogram, 1,000 seconds. Longer durations count as this.
const LONGEST_NS: u64 = 1_000_000_000_000;
/// Pairs that get a histogram: a VM may have a million pairs.
const PAIRS_MAX: usize = 1_024;

/// Durations of one verb or pair.
#[derive(Debug)]
struct Durations {
    histogram: Histogram<u64>,
    /// Sums of T1 to T5 and of the server's work.
    phases_ns: [u64; 6],
}

impl Durations {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .expect("the bounds are in order, and three digits are allowed");
        Self { histogram, phases_ns: [0; 6] }
    }

    fn add(&mut self, total_ns: u64, phases_ns: [u64; 6]) {
        self.histogram.saturating_record(total_ns);
        self.phases_ns
            .iter_mut()
            .zip(phases_ns)
            .for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    fn row(&self) -> Vec<String> {
        let count = self.histogram.len();
        let quantiles =
            [0.5, 0.99, 0.999].map(|share| time(self.histogram.value_at_quantile(share)));
        let means = self.phases_ns.map(|sum| time(sum / count.max(1)));
        let numbers = std::iter::once(count.to_string());
        numbers.chain(quantiles).chain([time(self.histogram.max())]).chain(means).collect()
    }

    fn json(&self) -> serde_json::Value {
        let count = self.histogram.len();
        let at = |share: f64| self.histogram.value_at_quantile(share);
        let mean = |phase: usize| self.phases_ns[phase] / count.max(1);
        serde_json::json!({
            "count": count, "p50_ns": at(0.5), "p99_ns": at(0.99), "p999_ns": at(0.999),
            "max_ns": self.histogram.max(),
            "mean_ns": {
                "T1": mean(0), "T2": mean(1), "T3": mean(2), "T4": mean(3), "T5": mean(4),
                "server": mean(5),
            },
        })
    }
}

/// All sums.
#[derive(Debug)]
pub struct Statistics {
    by_verb: BTreeMap<&'static str, Durations>,
    by_pair: BTreeMap<(i32, i32), Durations>,
    /// The slowest calls with their durations, the slowest first.
    slowest: Vec<(u64, TracedMessage)>,
    keep: usize,
    calls: u64,
    messages: u64,
}

impl Statistics {
    /// Empty sums, which will keep this number of slowest calls.
    pub fn new(keep: usize) -> Self {
        Self {
            by_verb: BTreeMap::new(),
            by_pair: BTreeMap::new(),
            slowest: Vec::new(),
            keep,
            calls: 0,
            messages: 0,
        }
    }

    /// Adds a message.
    pub fn add(&mut self, message: &TracedMessage, scale: &StampScale) {
        self.messages += 1;
        let Some(call) = &message.call else {
            let phases = Phases::of(&message.transfer);
            let [t1, t2, t3, t4, t5] = phases_ns(scale, &phases);
            let times =
                self.by_verb.entry(verb(message.transfer.what)).or_insert_with(Durations::new);
            times.add(ns(scale, phases.total()), [t1, t2, t3, t4, t5, 0]);
            return;
        };
        self.calls += 1;
        let phases = call.phases();
        let [t1, t2, t3, t4, t5] = phases_ns(scale, &phases.both());
        let (total_ns, parts) =
            (ns(scale, call.ticks()), [t1, t2, t3, t4, t5, ns(scale, phases.server)]);
        self.by_verb.entry("call").or_insert_with(Durations::new).add(total_ns, parts);
        let pair = (call.request.from.0, call.request.to.0);
        if self.by_pair.len() < PAIRS_MAX || self.by_pair.contains_key(&pair) {
            self.by_pair.entry(pair).or_insert_with(Durations::new).add(total_ns, parts);
        }
        self.keep_if_slow(total_ns, message);
    }

    fn keep_if_slow(&mut self, total_ns: u64, message: &TracedMessage) {
        let at = self.slowest.partition_point(|(other, _)| *other >= total_ns);
        if at < self.keep {
            self.slowest.insert(at, (total_ns, *message));
            self.slowest.truncate(self.keep);
        }
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The number of messages; the request and the answer of a call count as two.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The sums as tables.
    pub fn text(&self, names: &EndpointNames, scale: &StampScale) -> String {
        if self.messages == 0 {
            return "no messages".to_owned();
        }
        let head = |first: &'static str| {
            [first, "COUNT", "P50", "P99", "P99.9", "MAX", "T1", "T2", "T3", "T4", "T5", "SERVER"]
        };
        let row = |name: String, times: &Durations| {
            std::iter::once(name).chain(times.row()).collect::<Vec<_>>()
        };
        let verbs: Vec<_> =
            self.by_verb.iter().map(|(verb, times)| row((*verb).to_owned(), times)).collect();
        let mut text = table(&head("VERB"), &verbs);
        if !self.by_pair.is_empty() {
            let name = |pair: &(i32, i32)| {
                format!("{} -> {}", names.name(Address(pair.0)), names.name(Address(pair.1)))
            };
            let pairs: Vec<_> =
                self.by_pair.iter().map(|(pair, times)| row(name(pair), times)).collect();
            text += &format!("\n\n{}", table(&head("PAIR"), &pairs));
        }
        text += "\n(T1 to T5 and server: means; of an endpoint of another node, with the wire)";
        if !self.slowest.is_empty() {
            text += "\n\nslowest calls";
            for (_, message) in &self.slowest {
                text += &format!("\n  {}", line::text(message, names, scale));
            }
        }
        text
    }

    /// The sums as JSON.
    pub fn json(&self, names: &EndpointNames) -> serde_json::Value {
        let pairs: Vec<_> = self
            .by_pair
            .iter()
            .map(|((from, to), times)| {
                let mut value = times.json();
                value["from"] = names.name(Address(*from)).into();
                value["to"] = names.name(Address(*to)).into();
                value
            })
            .collect();
        let verbs: serde_json::Map<_, _> =
            self.by_verb.iter().map(|(verb, times)| ((*verb).to_owned(), times.json())).collect();
        let slowest: Vec<u64> = self.slowest.iter().map(|(total_ns, _)| *total_ns).collect();
        serde_json::json!({
            "calls": self.calls, "messages": self.messages, "verbs": verbs, "pairs": pairs,
            "slowest_ns": slowest,
        })
    }
}
