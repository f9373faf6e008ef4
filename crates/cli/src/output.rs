//! Standard output: lines or JSON, in colour on a terminal, and a quiet end when it is closed.

use crate::error::{CliError, Result};
use crate::escape::one_line;
use m3ipc_sys::{json_escaped, printable};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// The writer of results.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    colour: bool,
}

impl Output {
    /// A writer of lines, or of JSON.
    pub fn new(json: bool) -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let is_capable = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self { json, colour: is_wanted && is_capable && std::io::stdout().is_terminal() }
    }

    /// Whether results are printed as JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Writes one line and flushes it.
    pub fn line(self, text: impl AsRef<str>) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", printable(text.as_ref()))?;
        Ok(stdout.flush()?)
    }

    /// Clears the terminal.
    pub fn clear_screen(self) -> Result<()> {
        clear(&mut std::io::stdout().lock())
    }

    /// Writes one value as one line of JSON.
    pub fn json(self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|cause| CliError::system("cannot encode the result as JSON", cause))?;
        self.line(json_escaped(&text))
    }

    /// Writes `value` as JSON, or else `text`.
    pub fn either(self, value: &impl Serialize, text: impl AsRef<str>) -> Result<()> {
        if self.json { self.json(value) } else { self.line(text) }
    }

    /// Text in bold.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Text that reports a success.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Text that reports a failure.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Text of less importance.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A command of this program itself: `printable` would show it as text.
fn clear(terminal: &mut impl Write) -> Result<()> {
    terminal.write_all(b"\x1b[H\x1b[2J")?;
    Ok(terminal.flush()?)
}

/// A table whose columns are as wide as their widest cells.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let clean = |row: &Vec<String>| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>();
    let rows: Vec<_> = rows.iter().map(clean).collect();
    let mut width: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
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

/// A duration with three digits and a unit.
pub fn time(ns: u64) -> String {
    // The conversion may round: three digits are printed.
    let ns_shown = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns_shown / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns_shown / 1e6),
        _ => format!("{:.1} s", ns_shown / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_command_to_clear_itself_raw() {
        let mut terminal = Vec::new();
        clear(&mut terminal).unwrap();
        assert_eq!(terminal, b"\x1b[H\x1b[2J");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            vec!["1".to_owned(), "long name".to_owned()],
            vec!["22".to_owned(), String::new()],
        ];
        assert_eq!(table(&["id", "name"], &rows), "id  name\n1   long name\n22");
    }

    #[test]
    fn a_cell_makes_no_row_and_no_colour() {
        let rows = vec![vec!["x\n1\t\x1b[31mred\u{9b}".to_owned(), "a \\ b".to_owned()]];
        let text = table(&["name", "text"], &rows);
        assert_eq!(text.lines().nth(1), Some("x\\n1\\t\\u{1b}[31mred\\u{9b}  a \\ b"), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn json_has_no_control_characters() {
        let name = "a\u{7f}\u{9b}\n\u{e9}";
        let text = json_escaped(&serde_json::json!({ "name": name }).to_string());
        assert_eq!(text, "{\"name\":\"a\\u007f\\u009b\\n\u{e9}\"}");
        let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(read["name"], name);
    }

    #[test]
    fn durations_have_a_fitting_unit() {
        assert_eq!(
            [999, 1_500, 2_000_000, 3_000_000_000].map(time),
            ["999 ns", "1.50 us", "2.00 ms", "3.0 s"]
        );
    }
}
