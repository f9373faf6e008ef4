//! Each relative link of a Markdown file leads to a file of the tree.

use std::path::Path;

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::Tree;

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let pages: Vec<&Source> = tree.sources.iter().filter(|s| s.ends_in(&["md"])).collect();
    let links: Vec<Link> = pages.iter().flat_map(|page| links(page)).collect();
    let findings = links.iter().filter_map(|link| check(link, &tree.workspace.root)).collect();
    Ok(Report { findings, figure: format!("{} links in {} pages", links.len(), pages.len()) })
}

/// A link to a file: the page with its line, and the target.
struct Link {
    page: String,
    line: usize,
    target: String,
}

/// The relative links of a page. Blocks of code have none.
fn links(page: &Source) -> Vec<Link> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        // Every second part stands in backticks.
        let text: Vec<&str> = line.split('`').step_by(2).collect();
        if in_code {
            continue;
        }
        for part in text.join("`").split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains(':') {
                let target = path.to_owned();
                found.push(Link { page: page.path.clone(), line: index + 1, target });
            }
        }
    }
    found
}

fn check(link: &Link, root: &Path) -> Option<Finding> {
    let folder = Path::new(&link.page).parent().unwrap_or(Path::new(""));
    (!root.join(folder).join(&link.target).exists()).then(|| Finding {
        location: format!("{}:{}", link.page, link.line),
        problem: format!("it links to {}, which does not exist", link.target),
        next: "Correct the path; it starts at the folder of the page.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let page = Source { path: "check/a.md".into(), text: text.into() };
        // The tests of a package run in its folder, so this tree is that of xtask.
        links(&page).iter().filter_map(|link| check(link, Path::new("src"))).count()
    }

    #[test]
    fn a_dead_link_fails() {
        assert_eq!(found("see [x](no/such.md) and [y](../main.rs)"), 1);
        assert_eq!(found("see [x](../no-such.rs#part)"), 1);
    }

    #[test]
    fn addresses_parts_and_code_are_free() {
        assert_eq!(found("[a](https://x.org/y) [b](#part) [c](../main.rs#x) `[d](e)`"), 0);
        assert_eq!(found("```\n[a](no.md)\n```\n"), 0);
    }
}
