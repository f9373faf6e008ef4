//! A static lock of the library lies in a `PerProcess`, so that no child by fork inherits it held.
//! The head of [`PAGE`] lists each one.

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::Tree;

/// Where the list is.
const PAGE: &str = "crates/sys/src/fork.rs";

/// The crates whose code runs in programs of users.
const CRATES: &[&str] = &[
    "crates/abi/",
    "crates/sys/",
    "crates/shm/",
    "crates/area/",
    "crates/link/",
    "crates/wire/",
    "crates/m3ipc/",
    "crates/calls/",
    "crates/sockets/",
    "crates/capi/",
    "crates/python/",
];

/// What makes the type of a static a lock.
const LOCKS: &[&str] =
    &["Mutex<", "RwLock<", "OnceLock<", "LazyLock<", "Once ", "Condvar ", "Barrier "];

/// The locks that are plain statics. The list says why.
const PLAIN: &[&str] = &["MAKE", "FUNCTION", "TEST_DAEMON", "MEMORIES"];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let list = tree.text(PAGE)?;
    let all: Vec<Lock> = tree.sources.iter().flat_map(locks_of).collect();
    let findings = all.iter().filter_map(|lock| check(lock, &list)).collect();
    Ok(Report { findings, figure: format!("{} static locks, all in the list", all.len()) })
}

/// A static lock, or a static with a value of each process.
#[derive(Debug)]
struct Lock {
    location: String,
    name: String,
    is_per_process: bool,
}

fn locks_of(source: &Source) -> Vec<Lock> {
    if !CRATES.iter().any(|prefix| source.path.starts_with(prefix)) || !source.ends_in(&["rs"]) {
        return Vec::new();
    }
    // Tests fork where they say so.
    let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    if source.path.contains("/tests") {
        return Vec::new();
    }
    let mut locks = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let Some((name, rest)) = line.strip_prefix("static ").and_then(|it| it.split_once(':'))
        else {
            continue;
        };
        // The type ends at the value, which may be on the next line.
        let of = format!("{} ", rest.split('=').next().unwrap_or(rest));
        let is_per_process = of.contains("PerProcess<");
        if is_per_process || LOCKS.iter().any(|lock| of.contains(lock)) {
            let location = format!("{}:{}", source.path, number + 1);
            locks.push(Lock { location, name: name.trim().to_owned(), is_per_process });
        }
    }
    locks
}

fn check(lock: &Lock, list: &str) -> Option<Finding> {
    let Lock { location, name, is_per_process } = lock;
    let (problem, next) = if !is_per_process && !PLAIN.contains(&name.as_str()) {
        let problem = format!("a child by fork may inherit the static lock {name} held for ever");
        (problem, "Put it in a `m3ipc_sys::PerProcess`.")
    } else if !list.contains(&format!("::{name}`")) {
        (format!("{PAGE} does not list the lock {name}"), "Add it to the table at the head.")
    } else {
        return None;
    };
    Some(Finding { location: location.clone(), problem, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.into(), text: text.into() };
        let list =
            "//! | capi `table::TABLE` | sockets |\n//! | m3ipc `spawn::TEST_DAEMON` | ... |\n";
        let findings = locks_of(&source).into_iter().filter_map(|lock| check(&lock, list));
        findings.map(|finding| finding.problem).collect()
    }

    #[test]
    fn a_plain_static_lock_is_found() {
        for of in ["Mutex<u32>", "RwLock<Map>", "std::sync::OnceLock<u32>", "Once", "Condvar"] {
            let text = format!("fn f() {{\n    static HELD: {of} = new();\n}}\n");
            assert_eq!(found("crates/capi/src/a.rs", &text).len(), 1, "{of}");
            assert!(found("crates/daemon/src/a.rs", &text).is_empty());
            assert!(found("crates/capi/src/a/tests.rs", &text).is_empty());
        }
        assert!(found("crates/capi/src/a.rs", "static COUNT: AtomicU32 = new();\n").is_empty());
    }

    #[test]
    fn a_lock_is_in_the_list() {
        let text = "pub(crate) static TABLE: PerProcess<RwLock<T>> = PerProcess::new();\n";
        assert!(found("crates/capi/src/a.rs", text).is_empty());
        let unlisted = text.replace("TABLE", "OTHER");
        assert_eq!(found("crates/capi/src/a.rs", &unlisted).len(), 1);
        let plain = "static TEST_DAEMON: OnceLock<PathBuf> = OnceLock::new();\n";
        assert!(found("crates/m3ipc/src/spawn.rs", plain).is_empty());
    }
}
