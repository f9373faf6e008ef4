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
    /// Variables set for the command.
    pub env: &'static [(&'static str, &'static str)],
    /// Things that must be there; CI skips the step and says so where something is missing.
    pub needs: &'static [Need],
    /// Steps whose output it takes: it follows them, and is left out where one of them failed.
    pub takes: &'static [&'static str],
    /// Steps that must end first, however they end.
    pub after: &'static [&'static str],
    /// The command that includes it.
    pub gate: Gate,
    /// The runs of that command that include it.
    pub run: Run,
    /// Whether nothing may run beside it, because it measures or depends on time.
    pub quiet: bool,
    /// The folder below `target` that its cargo locks: two such steps would only wait.
    pub lock: &'static str,
    /// How long it may take before CI ends it, in seconds.
    pub limit_s: u64,
    /// The figure of its output.
    pub figure: Figure,
    /// The command that runs one failed case alone, with `{case}` for its name, or `{1}` to `{3}`
    /// for the words of its name. Empty where the output names the command, or where the step has
    /// no cases.
    pub case: &'static str,
    /// What to do when it fails.
    pub next: &'static str,
}

/// The command that includes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `cargo xtask test`: builds and runs the product. It needs cargo and Debian's packages alone.
    Test,
    /// `cargo xtask check`: reads the tree, with tools that it installs.
    Check,
}

/// The runs that include a step. Each includes the steps of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Run {
    /// With `--fast`: the loop of a person at work.
    Fast,
    /// Without an option: the gate.
    Gate,
    /// With `--full`: the long tier too.
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
    /// A file of the nightly toolchain.
    Nightly(&'static str),
}

/// The values that most steps have.
pub const PLAIN: Step = Step {
    name: "",
    command: "",
    env: &[],
    needs: &[],
    takes: &[],
    after: &[],
    gate: Gate::Test,
    run: Run::Gate,
    quiet: false,
    lock: "",
    limit_s: 900,
    figure: Figure::LastLine,
    case: "",
    next: "",
};

impl Step {
    /// The command with its words in braces replaced.
    ///
    /// `{target}` is cargo's target folder, `{host}` the target triple and `{msrv}` the oldest
    /// compiler. `{xtask}` is a copy of this program, because a build during the run may replace
    /// the original.
    pub fn words(&self, workspace: &Workspace) -> Vec<String> {
        self.command.split_whitespace().map(|word| expand(word, workspace)).collect()
    }

    /// Why the step must be skipped, or nothing where all its needs are met.
    pub fn missing(&self, workspace: &Workspace) -> Option<String> {
        self.needs.iter().find_map(|need| need.missing(workspace))
    }

    /// The command that runs one of its cases alone. A reason may follow the name of the case.
    pub fn case_command(&self, name: &str) -> String {
        let name = name.split(": ").next().unwrap_or(name);
        let name = name.split(" (").next().unwrap_or(name);
        let mut words = name.split_whitespace();
        let mut command = self.case.replace("{case}", name);
        for place in ["{1}", "{2}", "{3}"] {
            command = command.replace(place, words.next().unwrap_or_default());
        }
        command
    }

    /// The command as a person would type it.
    pub fn command_line(&self, workspace: &Workspace) -> String {
        let mut line: Vec<String> =
            self.env.iter().map(|(key, value)| format!("{key}='{value}'")).collect();
        line.push(self.command.to_owned());
        let line = line.join(" ").replace("{target}", "target").replace("{xtask}", "cargo xtask");
        expand(&line, workspace)
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
        .replace("{msrv}", workspace.oldest_compiler())
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
        let line = CHECK.command_line(&nowhere());
        assert_eq!(line, "RUSTFLAGS='--cfg loom' cargo xtask check width --in target/x");
        let words = ["/n/target/ci/xtask", "check", "width", "--in", "/n/target/x"];
        assert_eq!(CHECK.words(&nowhere()), words);
    }

    #[test]
    fn a_failed_case_has_a_command_of_its_own() {
        const MATRIX: Step = Step { case: "KIND={1} tests/sockets/run.sh {2}", ..PLAIN };
        let command = MATRIX.case_command("tcp pending tiny: < native, > shared");
        assert_eq!(command, "KIND=tcp tests/sockets/run.sh pending");
        const DOC: Step = Step { case: "cargo test --doc {3}", ..PLAIN };
        let command = DOC.case_command("src/call.rs - call::Call::send (line 12)");
        assert_eq!(command, "cargo test --doc call::Call::send");
    }

    #[test]
    fn a_missing_need_skips_the_step() {
        for need in [
            Need::File("tests/c/run.sh"),
            Need::Program("no-such-program-anywhere"),
            Need::PythonModule("no_such_module_anywhere"),
            Need::Nightly("no/such/file"),
        ] {
            assert!(need.missing(&nowhere()).is_some());
        }
        assert_eq!(Need::Program("sh").missing(&nowhere()), None);
    }
}
