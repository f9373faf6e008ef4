//! The figure of a step's output, and the closing lines of the test runners in it.

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
            Self::TestTotals => {
                let totals = closing_lines(output).into_iter().fold(Totals::default(), Totals::add);
                format!(
                    "{} passed, {} failed, {} ignored",
                    totals.passed, totals.failed, totals.ignored
                )
            }
        }
    }

    /// The lines to print beside the figure: each runner's own totals.
    pub fn closing_lines<'a>(&self, output: &'a str) -> Vec<&'a str> {
        match self {
            Self::TestTotals => closing_lines(output),
            Self::Fixed(_) | Self::LastLine => Vec::new(),
        }
    }
}

/// The closing lines of cargo test, of nextest, and of the scripts of `tests/`.
fn closing_lines(output: &str) -> Vec<&str> {
    let is_closing = |line: &&str| {
        line.starts_with("test result:")
            || line.trim_start().starts_with("Summary [")
            || (line.starts_with(|c: char| c.is_ascii_digit())
                && line.contains(" passed, ")
                && line.ends_with(" failed"))
    };
    output.lines().filter(is_closing).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Totals {
    fn add(self, line: &str) -> Self {
        let timed_out = number_before(line, " timed out");
        Self {
            passed: self.passed + number_before(line, " passed"),
            failed: self.failed + number_before(line, " failed") + timed_out,
            ignored: self.ignored
                + number_before(line, " ignored")
                + number_before(line, " skipped"),
        }
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
        test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n\
        \x20    Summary [   9.2s] 30 run: 28 passed (1 slow), 1 failed, 1 timed out, 4 skipped\n\
        7 passed, 0 failed\n\
        conformance: 7 passed, 0 failed of all\n";

    #[test]
    fn totals_are_summed_over_runners() {
        assert_eq!(Figure::TestTotals.read(OUTPUT), "50 passed, 4 failed, 5 ignored");
        assert_eq!(Figure::TestTotals.closing_lines(OUTPUT).len(), 4);
        assert!(Figure::LastLine.closing_lines(OUTPUT).is_empty());
    }

    #[test]
    fn the_last_line_is_the_last_with_text() {
        assert_eq!(Figure::LastLine.read("one\n  two  \n\n"), "two");
        assert_eq!(Figure::LastLine.read(""), "no output");
    }
}
