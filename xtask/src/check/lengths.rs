//! Files stay short, and `#[cfg]` stays out of function bodies.

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::Tree;

/// The endings of source files.
const ENDINGS: &[&str] = &["rs", "c", "h", "cpp", "hpp", "py", "sh"];

/// The most lines a source file may have.
const MAX_LINES: usize = 600;

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let files = tree.sources.iter().filter(|s| s.ends_in(ENDINGS));
    let longest = files.map(|s| s.text.lines().count()).max().unwrap_or(0);
    Ok(Report { findings: check(&tree.sources), figure: format!("longest file: {longest} lines") })
}

/// Finds long files and conditional compilation inside functions.
fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.ends_in(ENDINGS)) {
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            findings.push(Finding {
                location: source.path.clone(),
                problem: format!("{lines} lines, more than {MAX_LINES}"),
                next: "Split it by object or operation family; move long tests to foo/tests.rs.",
            });
        }
        if source.ends_in(&["rs"]) {
            findings.extend(cfg_in_bodies(&source.text).map(|line| Finding {
                location: format!("{}:{line}", source.path),
                problem: "conditional compilation inside a function body".into(),
                next: "Give each condition its own function or module, and choose there.",
            }));
        }
    }
    findings
}

/// The lines (from 1) that carry `#[cfg(` within a function's braces.
///
/// The search relies on rustfmt: a function ends at a `}` of the indentation at which it starts.
/// Text in raw strings may mislead the search; a parser would cost more than that.
fn cfg_in_bodies(text: &str) -> impl Iterator<Item = usize> {
    let mut body_of: Option<usize> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        match body_of {
            Some(start) if indent <= start && (code.starts_with('}') || code.ends_with(';')) => {
                body_of = None
            }
            Some(start) if indent > start && code.starts_with("#[cfg(") => return Some(index + 1),
            None if is_function(code) && !(code.ends_with(';') || code.ends_with('}')) => {
                body_of = Some(indent)
            }
            _ => {}
        }
        None
    })
}

fn is_function(code: &str) -> bool {
    if code.starts_with("//") {
        return false;
    }
    let Some((before, _)) = code.split_once("fn ") else { return false };
    before.split_whitespace().all(|word| {
        ["pub", "const", "async", "unsafe", "extern", "default"].contains(&word)
            || word.starts_with("pub(")
            || word.starts_with('"')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<usize> {
        cfg_in_bodies(text).collect()
    }

    #[test]
    fn a_long_file_fails() {
        let file = |lines: usize| Source { path: "a.c".into(), text: "int x;\n".repeat(lines) };
        assert_eq!(check(&[file(MAX_LINES)]), []);
        assert_eq!(check(&[file(MAX_LINES + 1)]).len(), 1);
    }

    #[test]
    fn a_cfg_in_a_body_fails() {
        let cfg = "#[cfg(loom)]";
        assert_eq!(lines_of(&format!("pub fn f() {{\n    {cfg}\n    g();\n}}\n")), [2]);
        let method = format!(
            "impl A {{\n    unsafe extern \"C\" fn f(\n        a: u8,\n    ) {{\n        {cfg}\n\
             \x20       g();\n    }}\n}}\n"
        );
        assert_eq!(lines_of(&method), [5]);
    }

    #[test]
    fn a_cfg_between_functions_passes() {
        let cfg = "#[cfg(loom)]";
        let text = format!(
            "fn one() {{ 1 }}\n{cfg}\nfn f() {{\n    g();\n}}\nimpl A {{\n    fn b(&self) {{\n\
             \x20   }}\n    {cfg}\n    fn c(&self);\n    {cfg}\n    fn d(\n    );\n    {cfg}\n\
             \x20   fn e() {{}}\n}}\n{cfg}\nmod tests {{}}\n"
        );
        assert_eq!(lines_of(&text), [0_usize; 0]);
    }
}
