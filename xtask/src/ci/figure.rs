//! The one figure of a rung's output that the table shows.

use std::process::ExitStatus;

/// Which figure.
pub enum Figure {
    /// These words: the rung says nothing when all is well.
    Fixed(&'static str),
    /// The last line that is not empty.
    LastLine,
    /// The sums over all `test result:` lines.
    TestTotals,
}

/// How long a figure may be, in characters.
const MAX_CHARS: usize = 100;

impl Figure {
    /// Finds the figure in the lines that the rung printed.
    pub fn read(&self, lines: &[String]) -> String {
        match self {
            Self::Fixed(words) => (*words).to_owned(),
            Self::LastLine => {
                let last = lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty());
                last.unwrap_or("it printed nothing").chars().take(MAX_CHARS).collect()
            }
            Self::TestTotals => Totals::read(lines).to_string(),
        }
    }

    /// What the table shows for a rung that failed: how it ended and, of tests, how many did not pass.
    pub fn of_failure(&self, status: ExitStatus, lines: &[String]) -> String {
        match self {
            Self::TestTotals => format!("{status}; {}", self.read(lines)),
            Self::Fixed(_) | Self::LastLine => status.to_string(),
        }
    }
}

/// Sums of cargo's `test result:` lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
    suites: u64,
}

impl Totals {
    fn read(lines: &[String]) -> Self {
        let mut totals = Self::default();
        for line in lines.iter().filter_map(|line| line.strip_prefix("test result:")) {
            totals.suites += 1;
            totals.passed += number_before(line, " passed");
            totals.failed += number_before(line, " failed");
            totals.ignored += number_before(line, " ignored");
        }
        totals
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { passed, failed, ignored, suites } = self;
        write!(f, "{passed} tests passed, {failed} failed, {ignored} ignored, in {suites} suites")
    }
}

/// The number that stands right before `word`, else 0.
fn number_before(line: &str, word: &str) -> u64 {
    line.split_once(word)
        .and_then(|(before, _)| before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(Into::into).collect()
    }

    #[test]
    fn totals_are_summed_over_suites() {
        let output = lines(
            "running 2 tests\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
             test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n",
        );
        assert_eq!(Totals::read(&output), Totals { passed: 15, failed: 2, ignored: 1, suites: 2 });
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(Figure::LastLine.read(&lines("one\n  two  \n\n")), "two");
        assert_eq!(Figure::LastLine.read(&[]), "it printed nothing");
    }
}
