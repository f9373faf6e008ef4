//! The figure of a step's output, and the cases of the test runners in it.

/// Which figure.
pub enum Figure {
    /// These words: the step prints nothing when all is well.
    Fixed(&'static str),
    /// The last line that is not empty.
    LastLine,
    /// The sums over the closing lines of the test runners.
    TestTotals,
}

/// How long a figure may be, in characters.
const MAX_CHARS: usize = 100;

impl Figure {
    /// Finds the figure in the output of the step.
    pub fn read(&self, output: &str) -> String {
        match self {
            Self::Fixed(words) => (*words).to_owned(),
            Self::LastLine => {
                let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty());
                last.unwrap_or("no output").chars().take(MAX_CHARS).collect()
            }
            Self::TestTotals => Totals::of(output).to_string(),
        }
    }

    /// The cases that the step counts, or nothing where it has none.
    pub fn totals(&self, output: &str) -> Option<Totals> {
        matches!(self, Self::TestTotals).then(|| Totals::of(output))
    }

    /// The lines to print beside the figure: each runner's own totals.
    pub fn closing_lines<'a>(&self, output: &'a str) -> Vec<&'a str> {
        match self {
            Self::TestTotals => closing_lines(output),
            Self::Fixed(_) | Self::LastLine => Vec::new(),
        }
    }
}

/// A failed case in the output of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct FailedCase {
    /// Its name, as the runner prints it.
    pub name: String,
    /// The command that runs it alone, where the output names it.
    pub alone: Option<String>,
}

/// The failed cases of `cargo test`, of pytest, of `cargo xtask cases`, and of the scripts of
/// `tests/`.
pub fn failed_cases(output: &str) -> Vec<FailedCase> {
    let lines: Vec<&str> = output.lines().collect();
    let case_at = |index: usize| {
        let line = lines[index];
        let name = if let Some(rest) = line.strip_prefix("FAIL ") {
            rest
        } else if let Some(rest) = line.strip_prefix("FAILED ") {
            // pytest: the reason follows.
            rest.split(" - ").next().unwrap_or(rest)
        } else {
            line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?
        };
        let follows =
            lines.get(index + 1).and_then(|next| next.trim_start().strip_prefix("alone: "));
        Some(FailedCase { name: name.to_owned(), alone: follows.map(str::to_owned) })
    };
    (0..lines.len()).filter_map(case_at).collect()
}

/// The closing lines of cargo test, of pytest, and of the scripts of `tests/`.
fn closing_lines(output: &str) -> Vec<&str> {
    let is_closing = |line: &&str| {
        line.starts_with("test result:") || {
            let starts = line.starts_with(|c: char| c.is_ascii_digit());
            let (counts, pytest) =
                line.split_once(" in ").map_or((*line, false), |(c, _)| (c, true));
            let is_count = |part: &str| {
                let number = part.trim().split_once(' ').map(|(number, _)| number.parse::<u64>());
                matches!(number, Some(Ok(_)))
            };
            starts
                && counts.split(',').all(is_count)
                && (pytest && line.contains(" passed") || line.contains(" passed, "))
        }
    };
    output.lines().filter(is_closing).collect()
}

/// Counts of cases.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Those that passed.
    pub passed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that could not run here, or are left out by their authors.
    pub skipped: u64,
}

impl Totals {
    fn of(output: &str) -> Self {
        closing_lines(output).into_iter().fold(Self::default(), Self::add_line)
    }

    fn add_line(self, line: &str) -> Self {
        let skipped = number_before(line, " ignored") + number_before(line, " skipped");
        self.plus(Self {
            passed: number_before(line, " passed"),
            failed: number_before(line, " failed"),
            skipped,
        })
    }

    /// The sums of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The number right before `word`, else 0.
fn number_before(line: &str, word: &str) -> u64 {
    line.split_once(word)
        .and_then(|(before, _)| before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 2 tests\n\
        test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out\n\
        test src/lib.rs - Link (line 12) ... FAILED\n\
        test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n\
        28 passed, 2 failed, 4 skipped\n\
        FAIL m3ipc-crash::areas killed (exit status: 101, 1.0s)\n\
        \x20    alone: cargo test -p m3ipc-crash\n\
        FAILED test_pool.py::test_kill - AssertionError: no\n\
        183 passed, 1 skipped in 20.31s\n\
        7 passed, 0 failed\n\
        FAIL tcp pending tiny: < native, > shared\n\
        conformance: 7 passed, 0 failed of all\n";

    #[test]
    fn totals_are_summed_over_runners() {
        assert_eq!(Figure::TestTotals.read(OUTPUT), "233 passed, 4 failed, 6 skipped");
        assert_eq!(Figure::TestTotals.closing_lines(OUTPUT).len(), 5);
        assert!(Figure::LastLine.closing_lines(OUTPUT).is_empty());
        assert_eq!(Figure::LastLine.totals(OUTPUT), None);
    }

    #[test]
    fn failed_cases_of_all_runners_are_found() {
        let cases = failed_cases(OUTPUT);
        let names: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
        assert_eq!(
            names,
            [
                "src/lib.rs - Link (line 12)",
                "m3ipc-crash::areas killed (exit status: 101, 1.0s)",
                "test_pool.py::test_kill",
                "tcp pending tiny: < native, > shared",
            ]
        );
        let alone: Vec<bool> = cases.iter().map(|case| case.alone.is_some()).collect();
        assert_eq!(alone, [false, true, false, false]);
    }

    #[test]
    fn the_last_line_is_the_last_with_text() {
        assert_eq!(Figure::LastLine.read("one\n  two  \n\n"), "two");
        assert_eq!(Figure::LastLine.read(""), "no output");
    }
}
