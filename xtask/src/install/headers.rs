//! The C headers: those of the tree, and one-line headers under the paths of older projects.
//!
//! `crates/capi/include/forwards.tsv` lists the latter: the path of the header, a tab, and the
//! header that it includes. Both paths start at the include folder.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::tree;
use crate::workspace::Workspace;

use super::placer::{Placer, TEXT};

const INCLUDE: &str = "crates/capi/include";
const TABLE: &str = "crates/capi/include/forwards.tsv";

/// `cargo xtask forwards DIR`: writes a whole include folder.
///
/// # Errors
/// Where the table has a fault or a file cannot be written.
pub fn forwards(workspace: &Workspace, dir: &Path) -> Result<(), Error> {
    let mut placer = Placer::new(dir);
    install(&workspace.root, Path::new("/"), &mut placer)?;
    println!("{} headers in {}", placer.count(), dir.display());
    Ok(())
}

/// Places the headers into the include folder `to`.
///
/// # Errors
/// As [`forwards`].
pub fn install(root: &Path, to: &Path, placer: &mut Placer) -> Result<(), Error> {
    let headers = tree::sources(&root.join(INCLUDE), &["h", "hpp"])?;
    let forwards = parse(&tree::text(&root.join(TABLE))?)?;
    for forward in &forwards {
        let is_target = headers.iter().any(|header| header.path == forward.target)
            || forwards.iter().any(|other| other.path == Path::new(&forward.target));
        if !is_target {
            return Err(unfit(format!("{TABLE} names {}, which does not exist", forward.target)));
        }
    }
    for header in &headers {
        placer.file(&to.join(&header.path), header.text.as_bytes(), TEXT)?;
    }
    for forward in &forwards {
        placer.file(&to.join(&forward.path), forward.text().as_bytes(), TEXT)?;
    }
    Ok(())
}

/// A header that includes another and holds nothing else.
#[derive(Debug, PartialEq, Eq)]
struct Forward {
    path: PathBuf,
    target: String,
}

/// Reads the table; empty lines and lines that start with `#` are comments.
fn parse(table: &str) -> Result<Vec<Forward>, Error> {
    let lines = table.lines().enumerate();
    let rows = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    rows.map(|(index, line)| match line.split_once('\t') {
        Some((path, target)) if !path.is_empty() && !target.contains('\t') => {
            Ok(Forward { path: path.into(), target: target.to_owned() })
        }
        _ => Err(unfit(format!("line {} of {TABLE} is no pair with a tab", index + 1))),
    })
    .collect()
}

fn unfit(what: String) -> Error {
    Error::Unfit { what, next: "Correct the table.".into() }
}

impl Forward {
    /// The text: a relative include, because programs name only a folder below on the command line.
    fn text(&self) -> String {
        let path = self.path.to_string_lossy();
        let guard: String = path
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        let up = "../".repeat(path.matches('/').count());
        format!(
            "/* Made by `cargo xtask install` from forwards.tsv. */\n\
             #ifndef {guard}\n#define {guard}\n#include \"{up}{}\"\n#endif\n",
            self.target
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_becomes_a_header() {
        let rows = parse("# comment\n\nm3ipc/compat/minix/ipc.h\tm3ipc.h\n").expect("a fit table");
        assert_eq!(rows.len(), 1);
        let text = rows[0].text();
        assert!(text.contains("#include \"../../../m3ipc.h\"\n"), "{text}");
        assert!(text.contains("#define M3IPC_COMPAT_MINIX_IPC_H\n"), "{text}");
    }

    #[test]
    fn a_faulty_row_is_refused() {
        for table in ["m3ipc/a.h m3ipc.h", "\tm3ipc.h", "a.h\tb.h\tc.h"] {
            assert!(parse(table).is_err(), "{table}");
        }
    }
}
