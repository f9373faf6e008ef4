//! The log of numbered messages: the outcome of each, as its sender and its receiver report it, and
//! whether the two agree.
//!
//! A server says `t NUMBER` when it has taken a request and before it answers;
//! a client says `a NUMBER` for an answer, `c NUMBER CODE` for an error.

use std::collections::BTreeMap;

/// How a call ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Answered,
    /// With this code.
    Code(i32),
}

/// What the log shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Calls that ended with an answer.
    pub answered: u64,
    /// Calls that ended with a code.
    pub refused: u64,
    /// Messages that were taken or answered twice.
    pub doubled: u64,
    /// Messages whose caller was told something that did not happen.
    pub lost: u64,
    /// The first few that are wrong, for people.
    pub wrong: Vec<String>,
}

/// All numbers, with the reports of both sides.
#[derive(Clone, Debug, Default)]
pub struct CallLog {
    taken: BTreeMap<u64, u32>,
    ended: BTreeMap<u64, Vec<Outcome>>,
}

impl CallLog {
    /// Notes a line of a worker; `false` if it is none of the above.
    pub fn note(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let (Some(what), Some(Ok(number))) = (words.next(), words.next().map(str::parse::<u64>))
        else {
            return false;
        };
        match (what, words.next().map(str::parse::<i32>)) {
            ("t", None) => *self.taken.entry(number).or_default() += 1,
            ("a", None) => self.ended.entry(number).or_default().push(Outcome::Answered),
            ("c", Some(Ok(code))) => {
                self.ended.entry(number).or_default().push(Outcome::Code(code))
            }
            _ => return false,
        }
        true
    }

    /// How many calls have ended.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.ended.len()
    }

    /// Compares what both sides tell; codes other than these are wrong.
    #[must_use]
    pub fn verdict(&self, codes: &[i32]) -> Verdict {
        let mut verdict = Verdict::default();
        for (number, times) in self.taken.iter().filter(|(_, times)| **times > 1) {
            verdict.doubled += 1;
            verdict.wrong.push(format!("{number} was taken {times} times"));
        }
        for (number, outcomes) in &self.ended {
            let taken = self.taken.contains_key(number);
            let [outcome] = outcomes.as_slice() else {
                verdict.doubled += 1;
                verdict.wrong.push(format!("{number} ended as {outcomes:?}"));
                continue;
            };
            let is_true = match outcome {
                Outcome::Answered => taken,
                // The code says that the request was not taken.
                Outcome::Code(code @ (-109 | -105)) => !taken && codes.contains(code),
                Outcome::Code(code) => codes.contains(code),
            };
            if !is_true {
                verdict.lost += 1;
                verdict.wrong.push(format!("{number} ended as {outcome:?}, taken: {taken}"));
            }
            match outcome {
                Outcome::Answered => verdict.answered += 1,
                Outcome::Code(_) => verdict.refused += 1,
            }
        }
        verdict.wrong.truncate(10);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[&str]) -> Verdict {
        let mut log = CallLog::default();
        assert!(lines.iter().all(|line| log.note(line)));
        log.verdict(&[-105, -108, -109])
    }

    #[test]
    fn what_agrees_is_right() {
        let right = verdict(&["t 1", "a 1", "c 2 -109", "t 3", "c 3 -108", "c 4 -108", "t 5"]);
        assert_eq!((right.answered, right.refused, right.lost, right.doubled), (1, 3, 0, 0));
    }

    #[test]
    fn planted_faults_are_found() {
        assert_eq!(verdict(&["t 1", "t 1", "a 1"]).doubled, 1);
        assert_eq!(verdict(&["t 1", "a 1", "a 1"]).doubled, 1);
        assert_eq!(verdict(&["a 1"]).lost, 1);
        assert_eq!(verdict(&["t 1", "c 1 -109"]).lost, 1);
        assert_eq!(verdict(&["c 1 -502"]).lost, 1);
    }
}
