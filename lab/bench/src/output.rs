//! The JSON of a run, written and read.
//!
//! `machine` and `results` always; `samples` (each round of each result, with every time that was taken) where
//! something was measured; `counts`, `phases`, `skipped` and `failed` where there are any. Whoever reads it computes the
//! results anew from the samples: they are the run, the results its summary.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::book::{RunCard, StepCard};
use crate::error::Error;
use crate::job::{Placement, Wait};
use crate::machine::Machine;
use crate::measure::Round;
use crate::mechanism::Family;
use crate::phases::record::PhaseRecord;
use crate::record::{Count, RawRound, Record, Results, Row, Subject};

/// The rounds of one result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Raw {
    /// Name of the test.
    pub test: String,
    /// Name of the mechanism.
    pub mechanism: String,
    /// What the mechanism stands for.
    pub family: Family,
    /// Where its sides ran.
    pub placement: Placement,
    /// How they waited.
    pub wait: Wait,
    /// Payload each way, or size of the block, in bytes.
    pub bytes: usize,
    /// Pairs at once, or bound clients.
    pub pairs: u32,
    /// Its rounds, in the order of their taking.
    pub rounds: Vec<RawRound>,
}

impl Raw {
    /// The rounds of a row.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        let Row { record, family, rounds, .. } = row;
        Self {
            test: record.test.clone(),
            mechanism: record.mechanism.clone(),
            family: *family,
            placement: record.placement,
            wait: record.wait,
            bytes: record.bytes,
            pairs: record.pairs,
            rounds: rounds.clone(),
        }
    }

    /// The row that sums them up.
    #[must_use]
    pub fn row(&self) -> Row {
        let subject = Subject {
            test: &self.test,
            mechanism: &self.mechanism,
            family: self.family,
            placement: self.placement,
            wait: self.wait,
            bytes: self.bytes,
            pairs: self.pairs,
        };
        let rounds: Vec<Round> = self.rounds.iter().map(RawRound::round).collect();
        Row::of(&subject, &rounds)
    }
}

/// One run as JSON shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Output {
    /// How it was made, where it is a report's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunCard>,
    /// Where it ran.
    pub machine: Machine,
    /// Libraries of others with their versions, where any were measured.
    #[serde(default)]
    pub libraries: Vec<(String, String)>,
    /// What went on beside its steps, where they were watched.
    #[serde(default)]
    pub steps: Vec<StepCard>,
    /// What was found, summed up.
    pub results: Vec<Record>,
    /// What was found, round by round. A file of before there were any has none.
    #[serde(default)]
    pub samples: Vec<Raw>,
    /// Figures of other kinds.
    #[serde(default)]
    pub counts: Vec<Count>,
    /// Round trips cut into phases.
    #[serde(default)]
    pub phases: Vec<PhaseRecord>,
    /// What this machine cannot do, with why.
    #[serde(default)]
    pub skipped: Vec<String>,
    /// What went wrong.
    #[serde(default)]
    pub failed: Vec<String>,
}

impl Output {
    /// A run on this machine with these results.
    #[must_use]
    pub fn new(machine: &Machine, results: &Results) -> Self {
        Self {
            run: None,
            machine: machine.clone(),
            libraries: results.libraries.clone(),
            steps: vec![],
            results: results.rows.iter().map(|row| row.record.clone()).collect(),
            samples: results.rows.iter().map(Raw::of).collect(),
            counts: results.counts.clone(),
            phases: results.phases.clone(),
            skipped: results.skipped.clone(),
            failed: results.failed.clone(),
        }
    }

    /// The results, computed from the samples.
    #[must_use]
    pub fn results(&self) -> Results {
        Results {
            rows: self.samples.iter().map(Raw::row).collect(),
            counts: self.counts.clone(),
            phases: self.phases.clone(),
            skipped: self.skipped.clone(),
            failed: self.failed.clone(),
            libraries: self.libraries.clone(),
            cpus: self.machine.cpus,
        }
    }

    /// Reads one from a file.
    ///
    /// # Errors
    /// Where the file cannot be read or is none of ours.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        serde_json::from_slice(&text).map_err(|source| Error::Foreign { path: path.into(), source })
    }

    /// Writes it to a file, which is replaced as a whole: a line for each result.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let value = serde_json::to_value(self).map_err(Error::json("the results"))?;
        replace(path, text(&value)?.as_bytes())
    }
}

/// JSON whose long lists have a line for each entry, and everything else as it is usual.
fn text(value: &serde_json::Value) -> Result<String, Error> {
    let mut parts = vec![];
    for (name, value) in value.as_object().into_iter().flatten() {
        let shown = match value {
            serde_json::Value::Array(entries) if entries.is_empty() => continue,
            serde_json::Value::Array(entries) => {
                let lines: Vec<String> = entries.iter().map(line).collect::<Result<_, _>>()?;
                format!("[\n{}\n]", lines.join(",\n"))
            }
            other => serde_json::to_string_pretty(other).map_err(Error::json("the results"))?,
        };
        parts.push(format!("{}: {shown}", line(&serde_json::Value::from(name.as_str()))?));
    }
    Ok(format!("{{\n{}\n}}\n", parts.join(",\n")))
}

fn line(value: &serde_json::Value) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::json("the results"))
}

/// Writes a file beside its place, then puts it there.
///
/// # Errors
/// Where it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = std::path::PathBuf::from(name);
    let put = || {
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(bytes)?;
        std::fs::rename(&beside, path)
    };
    put().map_err(|source| Error::File { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of two rounds with the times that are given.
    fn row(times: [&[u64]; 2]) -> Row {
        let rounds = times.map(|times| {
            let mut round = Round { per_s: 2.5, cpu_ns_per_op: 3.0, ..Round::default() };
            times.iter().for_each(|&ns| round.samples.record(ns));
            round
        });
        let subject = Subject {
            test: "ipc2",
            mechanism: "pipe",
            family: Family::Kernel,
            placement: Placement::TwoCpus,
            wait: Wait::Block,
            bytes: 48,
            pairs: 1,
        };
        Row::of(&subject, &rounds)
    }

    #[test]
    fn results_are_computed_from_the_samples_as_they_were_at_first() {
        let first = row([&[10, 20, 30], &[40, 50, 9_000]]);
        let text = serde_json::to_string(&Raw::of(&first)).expect("serialises");
        let again = serde_json::from_str::<Raw>(&text).expect("parses").row();
        assert_eq!(again.record, first.record);
        assert_eq!(again.record.p50_ns, 35);
        assert_eq!(again.spread_ns, (20, 50));
    }

    #[test]
    fn lists_have_a_line_for_each_entry() {
        let value = serde_json::json!({"machine": {"cpu": "x"}, "results": [{"a": 1}, {"a": 2}], "failed": []});
        let text = text(&value).expect("serialises");
        assert!(text.contains("[\n{\"a\":1},\n{\"a\":2}\n]") && !text.contains("failed"), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
