//! The counts of tests in the output of a suite.
//!
//! Test runners report in a few forms. Each line of a known form adds to the counts; all other
//! lines are ignored. The counts are compared between two runs of one command, so a form that is
//! counted twice does no harm.

/// Tests by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl TestCounts {
    const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Adds tests with a result, by the word of a runner for it.
    fn add_word(&mut self, word: &str, count: u64) -> bool {
        let word = word.trim_end_matches(['.', ',', ';', ':', ')']).to_ascii_lowercase();
        match word.as_str() {
            "passed" | "passing" | "pass" | "xfailed" => self.passed += count,
            "failed" | "failing" | "fail" | "failures" | "error" | "errors" | "xpassed" => {
                self.failed += count;
            }
            "skipped" | "ignored" | "pending" | "skip" => self.skipped += count,
            _ => return false,
        }
        true
    }
}

/// The counts of all lines; `None` without any line of a known form.
pub fn of(output: &str) -> Option<TestCounts> {
    let mut all = TestCounts::default();
    let mut is_known = false;
    for line in output.lines().map(uncoloured) {
        // unittest names the number of all tests first, and then those that did not pass.
        if let Some(rest) = line.strip_prefix("Ran ") {
            let count = rest.split(' ').next().and_then(|word| word.parse().ok());
            all.passed += count.unwrap_or(0);
            is_known |= count.is_some();
        } else if let Some(others) = of_unittest_end(&line) {
            all.passed = all.passed.saturating_sub(others.failed + others.skipped);
            all.add(others);
        } else if let Some(counts) = of_one_test(&line).or_else(|| of_summary(&line)) {
            all.add(counts);
            is_known = true;
        }
    }
    is_known.then_some(all)
}

/// The line without the sequences that colour it.
fn uncoloured(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    text
}

/// `FAILED (failures=1, errors=2, skipped=3)` or `OK (skipped=3)`.
fn of_unittest_end(line: &str) -> Option<TestCounts> {
    let rest = line.strip_prefix("FAILED (").or_else(|| line.strip_prefix("OK ("))?;
    let mut counts = TestCounts::default();
    for part in rest.trim_end_matches(')').split(", ") {
        let (word, count) = part.split_once('=')?;
        counts.add_word(word, count.parse().ok()?);
    }
    Some(counts)
}

/// The line of one test: TAP, redis, or a package of Go.
fn of_one_test(line: &str) -> Option<TestCounts> {
    let is_numbered = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    let is_skipped = line.to_ascii_lowercase().contains("# skip");
    if let Some(rest) = line.strip_prefix("not ok ") {
        // A test that is to be done may fail.
        let is_expected = rest.contains("# TODO");
        return is_numbered(rest).then_some(match is_expected {
            true => TestCounts::SKIPPED,
            false => TestCounts::FAILED,
        });
    }
    if let Some(rest) = line.strip_prefix("ok ").filter(|rest| is_numbered(rest)) {
        let skips = is_skipped && !rest.is_empty();
        return Some(if skips { TestCounts::SKIPPED } else { TestCounts::PASSED });
    }
    let starts_with = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    if starts_with(&["[ok]:", "ok  \t"]) {
        Some(TestCounts::PASSED)
    } else if starts_with(&["[err]:", "[exception]:", "[TIMEOUT]:", "FAIL\t"]) {
        Some(TestCounts::FAILED)
    } else if starts_with(&["[ignore]:", "[skip]:"]) {
        Some(TestCounts::SKIPPED)
    } else {
        None
    }
}

/// The line that ends a runner's output: numbers before words (`5 passed, 1 failed`) or behind them
/// (`# PASS: 5`).
fn of_summary(line: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    // CTest: 98% tests passed, 2 tests failed out of 100.
    if let Some((before, all)) = line.split_once(" tests failed out of ") {
        let failed = before.rsplit(' ').next()?.parse().ok()?;
        let all: u64 = all.trim().parse().ok()?;
        return Some(TestCounts { failed, passed: all.saturating_sub(failed), skipped: 0 });
    }
    if let Some((word, count)) = line.strip_prefix("# ").and_then(|rest| rest.split_once(": ")) {
        let count = count.trim().parse().ok()?;
        return counts.add_word(word, count).then_some(counts);
    }
    let words: Vec<&str> =
        line.split([' ', '\t', '=', '(', '|']).filter(|word| !word.is_empty()).collect();
    // Tcl: Total 10 Passed 9 Skipped 1 Failed 0.
    if let Some(at) = words.iter().position(|word| *word == "Total") {
        let mut is_found = false;
        for pair in words[at..].chunks_exact(2) {
            is_found |= pair[1].parse().is_ok_and(|count| counts.add_word(pair[0], count));
        }
        return is_found.then_some(counts);
    }
    let mut is_found = false;
    for pair in words.windows(2) {
        if let Ok(count) = pair[0].parse() {
            is_found |= counts.add_word(pair[1], count);
        }
    }
    is_found.then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runner_is_read() {
        for (output, expected) in [
            ("test result: ok. 3 passed; 1 failed; 2 ignored; 0 measured; done", [3, 1, 2]),
            ("Summary [ 1.2s] 12 tests run: 9 passed, 3 failed, 2 skipped", [9, 3, 2]),
            ("==== 5 passed, 1 failed, 2 skipped, 1 error in 0.12s ====", [5, 2, 2]),
            ("Ran 12 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=3)", [6, 3, 3]),
            ("Ran 12 tests in 0.1s\n\nOK", [12, 0, 0]),
            ("1..4\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no\nnot ok 4 # TODO d", [1, 1, 2]),
            ("[\x1b[32mok\x1b[0m]: PING (1 ms)\n[err]: b in tests\n[ignore]: c", [1, 1, 1]),
            ("# TOTAL: 6\n# PASS:  4\n# SKIP:  1\n# FAIL:  1\n# ERROR: 0", [4, 1, 1]),
            ("98% tests passed, 2 tests failed out of 100", [98, 2, 0]),
            ("all.tcl:\tTotal\t10\tPassed\t8\tSkipped\t1\tFailed\t1", [8, 1, 1]),
            ("ok  \tnet/http\t1.2s\nFAIL\tnet\t0.1s", [1, 1, 0]),
            ("  5 passing (12ms)\n  1 failing\n  2 pending", [5, 1, 2]),
        ] {
            let [passed, failed, skipped] = expected;
            assert_eq!(of(output), Some(TestCounts { passed, failed, skipped }), "{output}");
        }
    }

    #[test]
    fn other_text_has_no_counts() {
        for text in ["", "ok", "hello 5 times", "3 files, passed on", "running 5 tests"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
