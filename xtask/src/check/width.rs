//! Lines of code, comments and Markdown have at most 100 columns.
//!
//! Free are rows of tables, because a row cannot be broken, lines with an address of the web, and
//! output of programs in blocks of Markdown that are marked `text`.

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::Tree;

/// As `max_width` of rustfmt.toml, which does not see comments and strings.
const MAX_COLUMNS: usize = 100;

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let figure = format!("{} files, at most {MAX_COLUMNS} columns", tree.sources.len());
    Ok(Report { findings: tree.sources.iter().flat_map(check).collect(), figure })
}

fn check(source: &Source) -> impl Iterator<Item = Finding> {
    let mut in_output = false;
    source.text.lines().enumerate().filter_map(move |(index, line)| {
        if line.starts_with("```") {
            in_output = line == "```text";
        }
        let columns = line.chars().count();
        (!in_output && columns > MAX_COLUMNS && !is_free(line)).then(|| Finding {
            location: format!("{}:{}", source.path, index + 1),
            problem: format!("{columns} columns, more than {MAX_COLUMNS}"),
            next: "Break the line.",
        })
    })
}

/// Whether the line is a row of a table (also in a doc comment) or holds an address.
fn is_free(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*', '#']).trim_start();
    (text.starts_with('|') && text.ends_with('|'))
        || line.contains("https://")
        || line.contains("http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&Source { path: "a.rs".into(), text: format!("short\n{line}\n") }).count()
    }

    #[test]
    fn a_wide_line_fails() {
        assert_eq!(found(&"x".repeat(MAX_COLUMNS)), 0);
        assert_eq!(found(&"ä".repeat(MAX_COLUMNS)), 0, "columns are characters");
        assert_eq!(found(&"x".repeat(MAX_COLUMNS + 1)), 1);
    }

    #[test]
    fn output_in_a_block_is_free() {
        let wide = "x".repeat(MAX_COLUMNS + 1);
        assert_eq!(found(&format!("```text\n{wide}\n```")), 0);
        assert_eq!(found(&format!("```text\n```\n{wide}")), 1);
        assert_eq!(found(&format!("```sh\n{wide}\n```")), 1);
    }

    #[test]
    fn tables_and_addresses_are_free() {
        assert_eq!(found(&format!("| {} |", "x".repeat(MAX_COLUMNS))), 0);
        assert_eq!(found(&format!("//! | {} |", "x".repeat(MAX_COLUMNS))), 0);
        assert_eq!(found(&format!("see https://{}", "x".repeat(MAX_COLUMNS))), 0);
        assert_eq!(found(&format!("    a || {}", "x".repeat(MAX_COLUMNS))), 1);
    }
}
