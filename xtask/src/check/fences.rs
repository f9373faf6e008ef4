//! A comment that names the partner of a memory ordering names an item that exists.
//!
//! Form: ``pairs with `item` ``, where the item is a function, type, constant or field of the same
//! crate: `` `post` ``, `` `Link::post` ``, `` [`Link::post`] ``. A path that starts with another
//! crate (`` `m3ipc_link::Link::post` ``) is looked up there. All items that the sentence names in
//! backticks must exist, and there must be at least one. Other words may stand between them.

use std::collections::{HashMap, HashSet};

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::Tree;

const WORDS: &str = "pairs with";

/// Names of one crate: the folder of the crate, and each name that its files declare.
type Names = HashMap<String, HashSet<String>>;

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let sources: Vec<&Source> = tree.sources.iter().filter(|s| s.ends_in(&["rs"])).collect();
    let names = declared(&sources);
    let partners: Vec<Partner> = sources
        .iter()
        .filter(|s| !s.path.starts_with("xtask/"))
        .flat_map(|s| partners(s))
        .collect();
    let findings = partners.iter().filter_map(|partner| check(partner, &names)).collect();
    Ok(Report { findings, figure: format!("{} partners, each exists", partners.len()) })
}

/// A place where a comment names a partner.
struct Partner {
    crate_folder: String,
    location: String,
    items: Vec<String>,
}

/// The comments of a file with their first lines; lines of one comment are joined.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let Some((code, comment)) = line.split_once("//") else {
            goes_on = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        match found.last_mut() {
            Some((_, text)) if goes_on && code.trim().is_empty() => {
                *text = format!("{text} {comment}");
            }
            _ => found.push((index + 1, comment.to_owned())),
        }
        goes_on = true;
    }
    found
}

fn partners(source: &Source) -> Vec<Partner> {
    let mut found = Vec::new();
    for (line, comment) in comments(&source.text) {
        for (at, _) in comment.match_indices(WORDS) {
            let rest = &comment[at + WORDS.len()..];
            let end = [". ", "; ", ": "].iter().filter_map(|end| rest.find(end)).min();
            let sentence = &rest[..end.unwrap_or(rest.len())];
            let items = sentence.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            found.push(Partner {
                crate_folder: crate_of(&source.path),
                location: format!("{}:{line}", source.path),
                items,
            });
        }
    }
    found
}

fn check(partner: &Partner, names: &Names) -> Option<Finding> {
    let problem = if partner.items.is_empty() {
        "`pairs with` names no item in backticks".to_owned()
    } else {
        let missing = partner.items.iter().find(|item| !exists(item, &partner.crate_folder, names));
        format!("`pairs with` names `{}`, which the crate does not have", missing?)
    };
    Some(Finding {
        location: partner.location.clone(),
        problem,
        next: "Write: pairs with `function`, or `Type::method`, by the name in the code.",
    })
}

/// Whether the crate, or the crate that the path starts with, declares the parts of the path.
fn exists(item: &str, folder: &str, names: &Names) -> bool {
    let path = item.trim_end_matches(['(', ')']);
    let mut parts: Vec<&str> = path.split("::").flat_map(|part| part.split('.')).collect();
    let mut folder = folder.to_owned();
    if let Some(other) = parts.first().and_then(|first| first.strip_prefix("m3ipc")) {
        folder = format!("crates/{}", if other.is_empty() { "m3ipc" } else { &other[1..] });
        folder = folder.replace('_', "-");
        parts.remove(0);
    }
    let Some(known) = names.get(&folder) else { return false };
    let mut parts =
        parts.into_iter().filter(|part| !["crate", "self", "super", "Self"].contains(part));
    parts.all(|part| known.contains(part))
}

/// The crate of a file: the folder above `src`, `tests` or `benches`.
fn crate_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').take(2).collect();
    parts.join("/")
}

/// Collects the names that each crate declares.
fn declared(sources: &[&Source]) -> Names {
    let mut names = Names::new();
    for source in sources {
        let known = names.entry(crate_of(&source.path)).or_default();
        let file = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        known.extend(file.rsplit('/').next().map(str::to_owned));
        for line in source.text.lines() {
            known.extend(declarations(line).map(str::to_owned));
        }
    }
    names
}

/// The names that a line declares: items, and a field or a variant at its start.
fn declarations(line: &str) -> impl Iterator<Item = &str> {
    const KEYWORDS: &[&str] = &[
        "fn",
        "struct",
        "enum",
        "const",
        "static",
        "mod",
        "trait",
        "type",
        "union",
        "macro_rules!",
    ];
    let code = line.split("//").next().unwrap_or_default();
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let items: Vec<&str> =
        words.windows(2).filter(|pair| KEYWORDS.contains(&pair[0])).map(|pair| pair[1]).collect();
    items.into_iter().chain(member(code.trim_start()))
}

/// The field or the variant that a line starts with.
fn member(code: &str) -> Option<&str> {
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let code = match code.strip_prefix("pub(") {
        Some(scoped) => scoped.split_once(") ")?.1,
        None => code,
    };
    let end = code.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    let is_field = rest.starts_with(':') && !rest.starts_with("::");
    let is_variant = name.starts_with(|c: char| c.is_ascii_uppercase())
        && (rest.is_empty() || rest.starts_with([',', '(', ' ']));
    (!name.is_empty() && (is_field || is_variant)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Link {\n    pub(crate) word: Word,\n}\n\
                        impl Link {\n    pub const fn post(&self) {}\n}\nenum Way {\n    Up,\n}\n";

    fn found(comment: &str) -> Vec<Finding> {
        let link = Source { path: "crates/link/src/post.rs".into(), text: CODE.into() };
        let user = Source { path: "crates/link/src/a.rs".into(), text: comment.into() };
        let other = Source { path: "crates/area/src/b.rs".into(), text: "fn far() {}".into() };
        let names = declared(&[&link, &user, &other]);
        partners(&user).iter().filter_map(|partner| check(partner, &names)).collect()
    }

    #[test]
    fn a_partner_that_does_not_exist_fails() {
        for comment in [
            "// pairs with `pots`",
            "// Release: pairs with `Link::pots`. And more.",
            "x(); // pairs with `post` and\n// `pots`",
            "/// pairs with [`Knil::post`]",
            "// pairs with `far`",
            "// pairs with `m3ipc_area::near`",
            "// pairs with the other side",
        ] {
            assert_eq!(found(comment).len(), 1, "{comment}");
        }
    }

    #[test]
    fn partners_that_exist_pass() {
        for comment in [
            "x(); // pairs with `post`",
            "// Release: pairs with the\n// load in `Link::post()`. It has `nothing` else.",
            "//! pairs with [`Link::word`] and `Way::Up`",
            "// pairs with `m3ipc_area::far` of another",
            "// pairs with `post::Link::post` and `self.word`",
        ] {
            assert_eq!(found(comment), [], "{comment}");
        }
    }

    #[test]
    fn lines_of_one_comment_are_joined() {
        let lines = comments("// one\n// two\nx(); // three\ny();\n// four");
        assert_eq!(
            lines,
            [(1, "one two".to_owned()), (3, "three".to_owned()), (5, "four".to_owned())]
        );
    }
}
