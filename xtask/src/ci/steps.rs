//! The steps of CI, as data. To add a step, add an entry to [`STEPS`].

use crate::tools;
use crate::workspace::Workspace;

use super::figure::Figure;

/// A check, a build or a set of tests.
pub struct Step {
    /// Its short name, also the name of its log file.
    pub name: &'static str,
    /// The program and its arguments; see [`Step::words`] for the words in braces.
    pub command: &'static [&'static str],
    /// The command to run instead where a tool of `needs` is missing; empty for none.
    pub fallback: &'static [&'static str],
    /// Variables set for the command.
    pub env: &'static [(&'static str, &'static str)],
    /// Things that must be there; CI skips the step and says so where one is missing.
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
    /// A toolchain of rustup.
    Toolchain(&'static str),
    /// A file of the nightly toolchain.
    Nightly(&'static str),
    /// A test target of a package.
    Test(&'static str, &'static str),
}

/// The values that most steps have.
pub const PLAIN: Step = Step {
    name: "",
    command: &[],
    fallback: &[],
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

/// A check of xtask itself.
const fn check(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { name, command, run: Run::Fast, next: "each finding says what to do", ..PLAIN }
}

/// A step of `--full` alone.
const FULL: Step = Step { run: Run::Full, ..PLAIN };

/// The target of sanitizer runs. Cargo then builds build scripts without the sanitizer.
const HOST: &str = if cfg!(target_arch = "aarch64") {
    "aarch64-unknown-linux-gnu"
} else {
    "x86_64-unknown-linux-gnu"
};

/// Stable Rust then takes the options of nightly that cargo-fuzz uses.
const BOOTSTRAP: &[(&str, &str)] = &[("RUSTC_BOOTSTRAP", "1")];

/// Scripts learn from this variable where cargo builds.
const TARGET: &[(&str, &str)] = &[("CARGO_TARGET_DIR", "{target}")];

/// The steps, in the order in which they start where nothing else decides.
pub const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        command: &["cargo", "fmt", "--all", "--check"],
        run: Run::Fast,
        figure: Figure::Fixed("every file as rustfmt leaves it"),
        next: "cargo fmt --all",
        ..PLAIN
    },
    check("direction", &["{xtask}", "check", "direction"]),
    check("dependencies", &["{xtask}", "check", "dependencies"]),
    check("manifests", &["{xtask}", "check", "manifests"]),
    check("unsafe", &["{xtask}", "check", "unsafe"]),
    check("lengths", &["{xtask}", "check", "lengths"]),
    check("width", &["{xtask}", "check", "width"]),
    check("fences", &["{xtask}", "check", "fences"]),
    check("paths", &["{xtask}", "check", "paths"]),
    check("circles", &["{xtask}", "check", "circles"]),
    Step {
        name: "pages",
        command: &["bash", "tests/c/check_pages.sh"],
        env: TARGET,
        needs: &[Need::File("tests/c/check_pages.sh")],
        next: "write or correct the man page in docs/man that the log names",
        ..PLAIN
    },
    Step {
        name: "clippy",
        command: &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        run: Run::Fast,
        lock: "debug",
        figure: Figure::Fixed("no warnings"),
        next: "correct the code; `cargo clippy --fix` does the simple ones",
        ..PLAIN
    },
    Step {
        name: "tools",
        command: &["{xtask}", "tools"],
        limit_s: 3_600,
        next: "check the network, or install the tool with cargo install",
        ..PLAIN
    },
    Step {
        name: "unused",
        command: &["cargo", "machete"],
        needs: &[Need::Program("cargo-machete")],
        after: &["tools"],
        figure: Figure::Fixed("no dead dependency"),
        next: "remove the dependencies that the log names",
        ..PLAIN
    },
    Step {
        name: "build",
        command: &["cargo", "build", "--release"],
        lock: "release",
        figure: Figure::Fixed("release build, optimised as the profile dist"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "build-tests",
        command: &["cargo", "test", "--workspace", "--no-run"],
        after: &["clippy"],
        run: Run::Fast,
        lock: "debug",
        figure: Figure::Fixed("tests built"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "install",
        command: &["{xtask}", "install", "--prefix", "/usr", "--destdir", "{target}/ci/install"],
        after: &["build"],
        next: "run it alone with another --destdir",
        ..PLAIN
    },
    Step {
        name: "sizes",
        command: &["{xtask}", "check", "sizes"],
        after: &["install"],
        next: "each finding says what to do",
        ..PLAIN
    },
    Step {
        name: "public-api",
        command: &["{xtask}", "check", "public-api"],
        lock: "api",
        next: "each finding says what to do",
        ..PLAIN
    },
    Step {
        name: "docs",
        command: &["cargo", "doc", "--workspace", "--no-deps"],
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        lock: "debug",
        figure: Figure::Fixed("no warnings"),
        next: "correct the link or the block that the log names",
        ..PLAIN
    },
    Step {
        name: "package",
        command: &["cargo", "package", "--workspace", "--allow-dirty", "--quiet"],
        after: &["build-tests"],
        lock: "debug",
        figure: Figure::Fixed("each package builds from its archive"),
        next: "run the command alone; `cargo package --list -p PACKAGE` lists the files",
        ..PLAIN
    },
    Step {
        name: "msrv",
        command: &["cargo", "+1.88", "check", "--workspace", "--target-dir", "{target}/msrv"],
        needs: &[Need::Toolchain("1.88")],
        lock: "msrv",
        figure: Figure::Fixed("Rust 1.88 compiles the workspace"),
        next: "replace the newer function, or raise rust-version with an entry in CHANGELOG.md",
        ..PLAIN
    },
    Step {
        name: "site",
        command: &["mdbook", "build", "docs", "--dest-dir", "{target}/site"],
        needs: &[Need::File("docs/book.toml"), Need::Program("mdbook")],
        after: &["tools"],
        figure: Figure::Fixed("target/site"),
        next: "run the command alone",
        ..PLAIN
    },
    Step {
        name: "loom",
        command: &[
            "cargo",
            "test",
            "-p",
            "m3ipc-link",
            "-p",
            "m3ipc-area",
            "-p",
            "m3ipc-sockets",
            "-p",
            "m3ipc-shim",
            "--release",
            "--test",
            "loom",
            "--target-dir",
            "{target}/loom",
        ],
        env: &[
            ("RUSTFLAGS", "--cfg loom"),
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "4"),
        ],
        needs: &[
            Need::Test("m3ipc-link", "loom"),
            Need::Test("m3ipc-area", "loom"),
            Need::Test("m3ipc-sockets", "loom"),
            Need::Test("m3ipc-shim", "loom"),
        ],
        lock: "loom",
        figure: Figure::TestTotals,
        next: "set LOOM_LOG=trace and LOOM_LOCATION=1 to see the interleaving that fails",
        ..PLAIN
    },
    Step {
        name: "test",
        command: &["cargo", "nextest", "run", "--workspace", "--no-fail-fast"],
        fallback: &["cargo", "test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"],
        env: &[("M3_SOAK_SECONDS", "5")],
        needs: &[Need::Program("cargo-nextest")],
        after: &["build-tests", "tools"],
        run: Run::Fast,
        quiet: true,
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the failed test alone: cargo test -p PACKAGE NAME -- --nocapture",
        ..PLAIN
    },
    Step {
        name: "doctest",
        command: &["cargo", "test", "--workspace", "--doc", "--no-fail-fast"],
        after: &["build-tests"],
        run: Run::Fast,
        lock: "debug",
        figure: Figure::TestTotals,
        next: "run the example alone: cargo test -p PACKAGE --doc NAME",
        ..PLAIN
    },
    Step {
        name: "capi",
        command: &["bash", "tests/c/run.sh"],
        env: TARGET,
        needs: &[Need::File("tests/c/run.sh"), Need::Program("cc")],
        after: &["build"],
        quiet: true,
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "sockets",
        command: &["bash", "tests/sockets/run.sh"],
        env: TARGET,
        needs: &[Need::File("tests/sockets/run.sh"), Need::Program("cc")],
        after: &["build"],
        quiet: true,
        figure: Figure::TestTotals,
        next: "run the script with the name of the case after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "python",
        command: &["bash", "tests/python/run.sh"],
        env: TARGET,
        needs: &[Need::File("tests/python/run.sh"), Need::Program("python3")],
        after: &["build"],
        quiet: true,
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "snippets",
        command: &["bash", "tests/snippets/run.sh"],
        env: TARGET,
        needs: &[Need::File("tests/snippets/run.sh")],
        after: &["build"],
        quiet: true,
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "bench-ipc",
        command: &["{target}/release/m3", "bench", "ipc", "--quick"],
        after: &["build"],
        quiet: true,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Step {
        name: "bench-area",
        command: &[
            "{target}/release/m3",
            "bench",
            "area",
            "--quick",
            "--rounds",
            "1",
            "--millis",
            "2",
        ],
        after: &["build"],
        quiet: true,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Step {
        name: "bench-copy",
        command: &[
            "{target}/release/m3",
            "bench",
            "copy",
            "--quick",
            "--rounds",
            "1",
            "--millis",
            "2",
        ],
        after: &["build"],
        quiet: true,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Step {
        name: "soak",
        command: &["cargo", "test", "-p", "m3ipc-conformance", "--test", "soak"],
        env: &[("M3_SOAK_SECONDS", "600")],
        after: &["test"],
        quiet: true,
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone; the log names the seed",
        ..FULL
    },
    Step {
        name: "tools-full",
        command: &["{xtask}", "tools", "--full"],
        after: &["tools"],
        limit_s: 3_600,
        next: "check the network, or install the tool with cargo install or rustup",
        ..FULL
    },
    Step {
        name: "fuzz-frames",
        command: &["cargo", "fuzz", "run", "frames", "--", "-max_total_time=600"],
        env: BOOTSTRAP,
        needs: &[Need::Program("cargo-fuzz")],
        after: &["tools-full"],
        limit_s: 1_800,
        next: "cargo fuzz run frames FILE, with the file that the log names",
        ..FULL
    },
    Step {
        name: "fuzz-links",
        command: &["cargo", "fuzz", "run", "links", "--", "-max_total_time=600"],
        env: BOOTSTRAP,
        needs: &[Need::Program("cargo-fuzz")],
        after: &["fuzz-frames"],
        limit_s: 1_800,
        next: "cargo fuzz run links FILE, with the file that the log names",
        ..FULL
    },
    Step {
        name: "miri",
        command: &[
            "cargo",
            "+nightly",
            "miri",
            "test",
            "--no-fail-fast",
            "--lib",
            "--target-dir",
            "{target}/miri",
            "-p",
            "m3ipc-abi",
            "-p",
            "m3ipc-wire",
            "-p",
            "m3ipc-shm",
            "-p",
            "m3ipc-link",
            "-p",
            "m3ipc-area",
            "-p",
            "m3ipc-model",
        ],
        needs: &[Need::Nightly("bin/miri")],
        after: &["tools-full"],
        limit_s: 3_600,
        figure: Figure::TestTotals,
        next: "a test that needs a memory file takes #[cfg_attr(miri, ignore)]",
        ..FULL
    },
    Step {
        name: "asan",
        command: &[
            "cargo",
            "+nightly",
            "test",
            "--no-fail-fast",
            "--lib",
            "--target",
            HOST,
            "--target-dir",
            "{target}/asan",
            "-p",
            "m3ipc-sys",
            "-p",
            "m3ipc-shm",
            "-p",
            "m3ipc-link",
            "-p",
            "m3ipc-area",
            "-p",
            "m3ipc-wire",
        ],
        env: &[("RUSTFLAGS", "-Zsanitizer=address")],
        needs: &[Need::Nightly("bin/rustc")],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone; the report names both the access and the allocation",
        ..FULL
    },
    Step {
        name: "tsan",
        command: &[
            "cargo",
            "+nightly",
            "test",
            "-Zbuild-std",
            "--no-fail-fast",
            "--lib",
            "--target",
            HOST,
            "--target-dir",
            "{target}/tsan",
            "-p",
            "m3ipc-sys",
            "-p",
            "m3ipc-shm",
            "-p",
            "m3ipc-link",
            "-p",
            "m3ipc-area",
        ],
        env: &[("RUSTFLAGS", "-Zsanitizer=thread")],
        needs: &[Need::Nightly("lib/rustlib/src/rust/library/std/Cargo.toml")],
        after: &["tools-full"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone; the report names both accesses",
        ..FULL
    },
];

impl Step {
    /// The command with its words in braces replaced.
    ///
    /// `{target}` is cargo's target folder, `{xtask}` a copy of this program there: a build during
    /// the run may replace the original.
    pub fn words(&self, workspace: &Workspace) -> Vec<String> {
        let words = if self.falls_back(workspace).is_none() { self.command } else { self.fallback };
        words.iter().map(|word| expand(word, workspace)).collect()
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
        line.extend(self.command.iter().map(|&word| word.to_owned()));
        line.join(" ").replace("{target}", "target").replace("{xtask}", "cargo xtask")
    }
}

/// Replaces the words in braces.
pub fn expand(text: &str, workspace: &Workspace) -> String {
    let target = workspace.target_dir.to_string_lossy();
    text.replace("{xtask}", "{target}/ci/xtask").replace("{target}", &target)
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
            Self::Toolchain(version) => (!tools::has_toolchain(version))
                .then(|| format!("rustup has no toolchain {version}")),
            Self::Nightly(path) => (!tools::nightly_has(path))
                .then(|| format!("rustup has no nightly toolchain with {path}")),
            Self::Test(package, name) => {
                (!workspace.targets(package, "test").any(|target| target == *name))
                    .then(|| format!("{package} has no test target `{name}`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Workspace {
        Workspace { root: "/n".into(), target_dir: "/n/target".into(), packages: Vec::new() }
    }

    #[test]
    fn each_step_is_whole_and_follows_earlier_steps_alone() {
        for (index, step) in STEPS.iter().enumerate() {
            let earlier = &STEPS[..index];
            assert!(!step.name.is_empty() && !step.command.is_empty() && !step.next.is_empty());
            assert!(earlier.iter().all(|other| other.name != step.name), "{} twice", step.name);
            for name in step.after {
                let before = earlier.iter().find(|other| other.name == *name);
                assert!(before.is_some(), "{} waits for {name}", step.name);
            }
        }
    }

    #[test]
    fn a_person_can_type_the_command_line() {
        let find = |name| STEPS.iter().find(|step| step.name == name).expect("a step");
        let line = find("loom").command_line();
        assert!(line.starts_with("RUSTFLAGS='--cfg loom' cargo test -p m3ipc-link"), "{line}");
        assert!(line.ends_with("--target-dir target/loom"), "{line}");
        assert_eq!(find("width").command_line(), "cargo xtask check width");
        assert_eq!(find("width").words(&nowhere())[0], "/n/target/ci/xtask");
    }

    #[test]
    fn a_missing_need_skips_the_step() {
        for need in [
            Need::File("tests/c/run.sh"),
            Need::Program("no-such-program-anywhere"),
            Need::Toolchain("0.1"),
            Need::Nightly("no/such/file"),
            Need::Test("m3ipc-link", "loom"),
        ] {
            assert!(need.missing(&nowhere()).is_some());
        }
        assert_eq!(Need::Program("sh").missing(&nowhere()), None);
    }

    #[test]
    fn a_fallback_runs_where_the_tool_is_missing() {
        const MISSING: Step = Step {
            command: &["first"],
            fallback: &["second"],
            needs: &[Need::Program("no-such-program-anywhere")],
            ..PLAIN
        };
        assert_eq!(MISSING.words(&nowhere()), ["second"]);
        assert_eq!(MISSING.missing(&nowhere()), None);
    }
}
