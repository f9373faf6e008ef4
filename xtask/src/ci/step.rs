//! One step of CI: its command, its needs, and when it may run.

use crate::tools;
use crate::workspace::Workspace;

use super::figure::Figure;

/// A check, a build or a set of tests.
pub struct Step {
    /// Its short name, also the name of its log file.
    pub name: &'static str,
    /// The program and its arguments; see [`Step::words`] for the words in braces.
    pub command: &'static str,
    /// The command to run instead where a tool of `needs` is missing; empty for none.
    pub fallback: &'static str,
    /// Variables set for the command.
    pub env: &'static [(&'static str, &'static str)],
    /// Things that must be there; CI skips the step and says so where something is missing.
    pub needs: &'static [Need],
    /// Steps that must end first.
    pub after: &'static [&'static str],
    /// The runs that include it.
    pub run: Run,
    /// Whether nothing may run beside it, because it measures or depends on time.
    pub quiet: bool,
    /// The folder below `target` that its cargo locks: two such steps would only wait.
    pub lock: &'static str,
    /// How long it may take before CI ends it, in seconds.
    pub limit_s: u64,
    /// The figure of its output.
    pub figure: Figure,
    /// What to do when it fails.
    pub next: &'static str,
}

/// The runs that include a step. Each includes the steps of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Run {
    /// `cargo xtask ci --fast`: the loop of a person at work.
    Fast,
    /// `cargo xtask ci`: the gate.
    Gate,
    /// `cargo xtask ci --full`: also soak, fuzzing, miri and sanitizers.
    Full,
}

/// Something that a step needs.
pub enum Need {
    /// A file of the tree.
    File(&'static str),
    /// A program on PATH; [`tools`] installs some of them.
    Program(&'static str),
    /// A module of python3; Debian has `ensurepip` in the package python3-venv.
    PythonModule(&'static str),
    /// A toolchain of rustup.
    Toolchain(&'static str),
    /// A file of the nightly toolchain.
    Nightly(&'static str),
}

/// The values that most steps have.
pub const PLAIN: Step = Step {
    name: "",
    command: "",
    fallback: "",
    env: &[],
    needs: &[],
    after: &[],
    run: Run::Gate,
    quiet: false,
    lock: "",
    limit_s: 900,
    figure: Figure::LastLine,
    next: "",
};

impl Step {
    /// The command with its words in braces replaced.
    ///
    /// `{target}` is cargo's target folder and `{host}` the target triple. `{xtask}` is a copy of
    /// this program, because a build during the run may replace the original.
    pub fn words(&self, workspace: &Workspace) -> Vec<String> {
        let words = if self.falls_back(workspace).is_none() { self.command } else { self.fallback };
        words.split_whitespace().map(|word| expand(word, workspace)).collect()
    }

    /// Why CI must skip the step, or nothing where all its needs are met.
    pub fn missing(&self, workspace: &Workspace) -> Option<String> {
        if !self.fallback.is_empty() {
            return None;
        }
        self.needs.iter().find_map(|need| need.missing(workspace))
    }

    /// Why CI must run the fallback, or nothing where it runs the command.
    pub fn falls_back(&self, workspace: &Workspace) -> Option<String> {
        if self.fallback.is_empty() {
            return None;
        }
        self.needs.iter().find_map(|need| need.missing(workspace))
    }

    /// The command as a person would type it.
    pub fn command_line(&self) -> String {
        let mut line: Vec<String> =
            self.env.iter().map(|(key, value)| format!("{key}='{value}'")).collect();
        line.push(self.command.to_owned());
        line.join(" ")
            .replace("{target}", "target")
            .replace("{xtask}", "cargo xtask")
            .replace("{host}", HOST)
    }
}

/// The target of sanitizer runs. Cargo then builds build scripts without the sanitizer.
const HOST: &str = if cfg!(target_arch = "aarch64") {
    "aarch64-unknown-linux-gnu"
} else {
    "x86_64-unknown-linux-gnu"
};

/// Replaces the words in braces.
pub fn expand(text: &str, workspace: &Workspace) -> String {
    let target = workspace.target_dir.to_string_lossy();
    text.replace("{xtask}", "{target}/ci/xtask")
        .replace("{target}", &target)
        .replace("{host}", HOST)
}

impl Need {
    fn missing(&self, workspace: &Workspace) -> Option<String> {
        match self {
            Self::File(path) => {
                (!workspace.root.join(path).is_file()).then(|| format!("the tree has no {path}"))
            }
            Self::Program(name) => {
                (!tools::is_on_path(name)).then(|| format!("`{name}` is not installed"))
            }
            Self::PythonModule(name) => (!tools::python_has(name))
                .then(|| format!("python3 has no module {name} (Debian: python3-venv)")),
            Self::Toolchain(version) => (!tools::has_toolchain(version))
                .then(|| format!("rustup has no toolchain {version}")),
            Self::Nightly(path) => (!tools::nightly_has(path))
                .then(|| format!("rustup has no nightly toolchain with {path}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: &str = "/n";

    fn nowhere() -> Workspace {
        let target_dir = format!("{NOWHERE}/target").into();
        Workspace { root: NOWHERE.into(), target_dir, packages: Vec::new() }
    }

    #[test]
    fn a_person_can_type_the_command_line() {
        const CHECK: Step = Step {
            command: "{xtask} check width --in {target}/x",
            env: &[("RUSTFLAGS", "--cfg loom")],
            ..PLAIN
        };
        let line = CHECK.command_line();
        assert_eq!(line, "RUSTFLAGS='--cfg loom' cargo xtask check width --in target/x");
        let words = ["/n/target/ci/xtask", "check", "width", "--in", "/n/target/x"];
        assert_eq!(CHECK.words(&nowhere()), words);
    }

    #[test]
    fn a_missing_need_skips_the_step() {
        for need in [
            Need::File("tests/c/run.sh"),
            Need::Program("no-such-program-anywhere"),
            Need::PythonModule("no_such_module_anywhere"),
            Need::Toolchain("0.1"),
            Need::Nightly("no/such/file"),
        ] {
            assert!(need.missing(&nowhere()).is_some());
        }
        assert_eq!(Need::Program("sh").missing(&nowhere()), None);
    }

    #[test]
    fn a_fallback_runs_where_the_tool_is_missing() {
        const MISSING: Step = Step {
            command: "first",
            fallback: "second",
            needs: &[Need::Program("no-such-program-anywhere")],
            ..PLAIN
        };
        assert_eq!(MISSING.words(&nowhere()), ["second"]);
        assert_eq!(MISSING.missing(&nowhere()), None);
    }
}
