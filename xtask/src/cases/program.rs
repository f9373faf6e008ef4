//! The test programs that cargo builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::error::Error;
use crate::workspace::Workspace;

/// What may run beside the cases of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Cases of all programs but those that run alone.
    Beside,
    /// The same, without a second heavy case: they start many processes, or use up memory and
    /// descriptors.
    Heavy,
    /// Nothing: they compare shares of time, or fill the machine.
    Alone,
}

/// The programs that need more than their share, as package and program.
const TURNS: &[(&str, &str, Turn)] = &[
    ("m3ipc-conformance", "areas", Turn::Heavy),
    ("m3ipc-conformance", "copy", Turn::Heavy),
    ("m3ipc-conformance", "oracle", Turn::Heavy),
    ("m3ipc-crash", "areas", Turn::Heavy),
    ("m3ipc-crash", "chaos", Turn::Heavy),
    ("m3ipc-crash", "crash", Turn::Heavy),
    ("m3ipc-hostile", "areas", Turn::Heavy),
    ("m3ipc-hostile", "exhaustion", Turn::Heavy),
    ("m3ipc-files", "kills", Turn::Heavy),
    ("m3ipc-crash", "soak", Turn::Alone),
    ("m3ipc-hostile", "fairness", Turn::Alone),
];

/// Programs whose rows wait for seconds each.
const LONG: &[(&str, &str)] = &[("m3ipc-test-nodes", "conformance")];

/// A test program.
pub struct Program {
    /// The package that it tests.
    pub package: String,
    /// The target of the package: the name of a library, of a program, or of a file of `tests/`.
    pub target: String,
    /// The option of `cargo test` that selects the target.
    pub option: String,
    /// The folder of the package, where its cases run.
    pub folder: PathBuf,
    /// The file to run.
    pub file: PathBuf,
}

impl Program {
    /// What may run beside its cases.
    pub fn turn(&self) -> Turn {
        let is_own = |(package, target, _): &&(&str, &str, Turn)| {
            *package == self.package && *target == self.target
        };
        TURNS.iter().find(is_own).map_or(Turn::Beside, |(_, _, turn)| *turn)
    }

    /// Whether it belongs to the long tier.
    pub fn is_long(&self) -> bool {
        LONG.contains(&(&*self.package, &*self.target))
    }
}

/// A message of `cargo test --no-run`; those of other reasons lack the fields.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<BuiltTarget>,
    profile: Option<BuiltProfile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct BuiltTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct BuiltProfile {
    test: bool,
}

/// Builds all test programs of the workspace.
///
/// # Errors
/// Where cargo cannot be started, fails, or answers in another format.
pub fn build(workspace: &Workspace, profile: &str) -> Result<Vec<Program>, Error> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(["--profile", profile]).current_dir(&workspace.root).stderr(Stdio::inherit());
    let output =
        cargo.output().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    if !output.status.success() {
        let command = format!("cargo test --workspace --no-run --profile {profile}");
        return Err(Error::Failed { command, status: output.status });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        programs.extend(read(workspace, &serde_json::from_str(line)?));
    }
    Ok(programs)
}

fn read(workspace: &Workspace, message: &Message) -> Option<Program> {
    let (target, file) = (message.target.as_ref()?, message.executable.clone()?);
    if !message.profile.as_ref()?.test {
        return None;
    }
    let is_own = |manifest: &Path| manifest == message.manifest_path;
    let package = workspace.packages.iter().find(|package| is_own(&package.manifest_path))?;
    let option = match &*target.kind.first()?.clone() {
        kind @ ("test" | "bin" | "example" | "bench") => format!("--{kind} {}", target.name),
        _ => "--lib".into(),
    };
    let folder = message.manifest_path.parent()?.to_owned();
    let (package, target) = (package.name.clone(), target.name.clone());
    Some(Program { package, target, option, folder, file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn program_of(line: &str) -> Option<Program> {
        let package = Package {
            name: "m3ipc-hostile".into(),
            manifest_path: "/w/tests/hostile/Cargo.toml".into(),
            ..Package::default()
        };
        let workspace = Workspace {
            root: "/w".into(),
            target_dir: "/w/target".into(),
            packages: vec![package],
        };
        read(&workspace, &serde_json::from_str(line).expect("a message"))
    }

    #[test]
    fn a_test_program_is_found_in_the_messages_of_cargo() {
        let program = program_of(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/tests/hostile/Cargo.toml",
            "target":{"kind":["test"],"name":"fairness"},"profile":{"test":true},
            "executable":"/w/target/gate/deps/fairness-1"}"#,
        );
        let program = program.expect("it is a test program");
        assert_eq!(program.option, "--test fairness");
        assert_eq!(program.folder, Path::new("/w/tests/hostile"));
        assert_eq!(program.turn(), Turn::Alone);
        assert!(!program.is_long());
    }

    #[test]
    fn other_messages_are_passed_over() {
        for line in [
            r#"{"reason":"build-finished","success":true}"#,
            r#"{"manifest_path":"/w/tests/hostile/Cargo.toml","executable":"/w/target/gate/m3",
            "target":{"kind":["bin"],"name":"m3"},"profile":{"test":false}}"#,
        ] {
            assert!(program_of(line).is_none(), "{line}");
        }
    }
}
