//! Standard output: lines for people or JSON, and no noise where nobody reads it any more.

use crate::fail::{Fail, Result};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    json: bool,
    colour: bool,
}

impl Out {
    /// In lines, or as JSON.
    pub fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let capable = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self { json, colour: wanted && capable && std::io::stdout().is_terminal() }
    }

    /// Whether JSON is wanted.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Writes one line, at once.
    pub fn line(self, text: impl AsRef<str>) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", text.as_ref())?;
        Ok(stdout.flush()?)
    }

    /// Writes one value as JSON, in one line.
    pub fn json(self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|cause| Fail::system("cannot make JSON", cause))?;
        self.line(text)
    }

    /// Writes the value as JSON or the lines, as wanted.
    pub fn either(self, value: &impl Serialize, text: impl AsRef<str>) -> Result<()> {
        if self.json { self.json(value) } else { self.line(text) }
    }

    /// Emphasised.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What went well.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// What did not.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A table: columns as wide as their widest cell.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut width: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in width.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&width) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        line.trim_end().to_owned()
    };
    let mut lines = vec![line(&mut head.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// A time as people read it.
pub fn time(ns: u64) -> String {
    // Lossy on purpose: three digits are shown.
    let ns_shown = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns_shown / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns_shown / 1e6),
        _ => format!("{:.1} s", ns_shown / 1e9),
    }
}

/// The macros of the standard library panic where standard output is closed
/// (`m3 bench | head`): that is an end like any other.
pub fn survive_closed_stdout() {
    let former = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload().downcast_ref::<String>();
        if said.is_some_and(|said| said.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(0);
        }
        former(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            vec!["1".to_owned(), "long name".to_owned()],
            vec!["22".to_owned(), String::new()],
        ];
        assert_eq!(table(&["id", "name"], &rows), "id  name\n1   long name\n22");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!(
            [999, 1_500, 2_000_000, 3_000_000_000].map(time),
            ["999 ns", "1.50 us", "2.00 ms", "3.0 s"]
        );
    }
}
