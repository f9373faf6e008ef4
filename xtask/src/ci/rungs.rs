//! The rungs of the ladder, as data. To add one, add an entry to [`LADDER`].

use std::env;

use crate::workspace::Workspace;

use super::figure::Figure;

/// One check or one set of tests.
pub struct Rung {
    /// Its short name.
    pub name: &'static str,
    /// The program and its arguments; `{target}` stands for cargo's target folder.
    pub command: &'static [&'static str],
    /// Variables set for it; `{target}` as above.
    pub env: &'static [(&'static str, &'static str)],
    /// What must be there; where something is not, the rung is skipped and says so.
    pub needs: &'static [Need],
    /// Whether `--fast` keeps it.
    pub fast: bool,
    /// How long it may take before it counts as hung, in seconds.
    pub limit_s: u64,
    /// Which figure of its output the table shows.
    pub figure: Figure,
    /// What to do when it fails.
    pub next: &'static str,
}

/// Something that a rung needs.
pub enum Need {
    /// A file of the tree.
    File(&'static str),
    /// A program on PATH.
    Program(&'static str),
    /// A test target of a package.
    Test(&'static str, &'static str),
    /// A program of ours, built for release.
    Built(&'static str),
}

/// What most rungs have in common.
const PLAIN: Rung = Rung {
    name: "",
    command: &[],
    env: &[],
    needs: &[],
    fast: false,
    limit_s: 600,
    figure: Figure::LastLine,
    next: "",
};

/// Scripts learn from this where cargo builds, wherever that is.
const TARGET: &[(&str, &str)] = &[("CARGO_TARGET_DIR", "{target}")];

/// The ladder, from the quickest to the slowest that depends on it.
pub const LADDER: &[Rung] = &[
    Rung {
        name: "fmt",
        command: &["cargo", "fmt", "--all", "--check"],
        fast: true,
        figure: Figure::Fixed("every file as rustfmt leaves it"),
        next: "cargo fmt --all",
        ..PLAIN
    },
    Rung {
        name: "clippy",
        command: &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        fast: true,
        figure: Figure::Fixed("no warnings"),
        next: "correct what is named above; `cargo clippy --fix` does the simple ones",
        ..PLAIN
    },
    Rung {
        name: "deps",
        command: &["cargo", "xtask", "deps"],
        fast: true,
        next: "each finding above says what to do",
        ..PLAIN
    },
    Rung {
        name: "build",
        command: &["cargo", "build", "--release"],
        limit_s: 900,
        figure: Figure::Fixed("release build"),
        next: "correct the error above",
        ..PLAIN
    },
    Rung {
        name: "test",
        command: &["cargo", "test", "--workspace", "--no-fail-fast"],
        env: &[("M3_SOAK_SECONDS", "25")],
        fast: true,
        limit_s: 1_200,
        figure: Figure::TestTotals,
        next: "run the failed test alone: cargo test -p CRATE NAME -- --nocapture",
        ..PLAIN
    },
    Rung {
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
        env: &[("RUSTFLAGS", "--cfg loom")],
        needs: &[
            Need::Test("m3ipc-link", "loom"),
            Need::Test("m3ipc-area", "loom"),
            Need::Test("m3ipc-sockets", "loom"),
            Need::Test("m3ipc-shim", "loom"),
        ],
        limit_s: 900,
        figure: Figure::TestTotals,
        next: "set LOOM_LOG=trace and LOOM_LOCATION=1 to see the interleaving that breaks",
        ..PLAIN
    },
    Rung {
        name: "capi",
        command: &["bash", "tests/c/run.sh"],
        env: TARGET,
        needs: &[Need::File("tests/c/run.sh"), Need::Program("cc")],
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Rung {
        name: "sock",
        command: &["bash", "tests/sockets/run.sh"],
        env: TARGET,
        needs: &[
            Need::File("tests/sockets/run.sh"),
            Need::Program("cc"),
            Need::Built("m3"),
            Need::Built("libm3sock.so"),
        ],
        next: "run the script with the name of the case after cargo build --release; `matrix tcp CASE` is one case",
        ..PLAIN
    },
    Rung {
        name: "python",
        command: &["bash", "tests/python/run.sh"],
        env: TARGET,
        needs: &[Need::File("tests/python/run.sh"), Need::Program("python3")],
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Rung {
        name: "pages",
        command: &["bash", "tests/c/check_pages.sh"],
        env: TARGET,
        needs: &[Need::File("tests/c/check_pages.sh")],
        next: "write or correct the man page named above, in docs/man",
        ..PLAIN
    },
    Rung {
        name: "bench",
        command: &["{target}/release/m3", "bench", "ipc", "--quick"],
        needs: &[Need::Built("m3")],
        limit_s: 300,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Rung {
        name: "bench area",
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
        needs: &[Need::Built("m3")],
        limit_s: 300,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Rung {
        name: "bench copy",
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
        needs: &[Need::Built("m3")],
        limit_s: 300,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Rung {
        name: "docs",
        command: &["cargo", "doc", "--workspace", "--no-deps"],
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        figure: Figure::Fixed("no warnings"),
        next: "correct the link or the block named above",
        ..PLAIN
    },
];

impl Rung {
    /// The command as a person would type it.
    pub fn command_line(&self) -> String {
        let env = self.env.iter().map(|(key, value)| format!("{key}='{value}'"));
        let line: Vec<String> =
            env.chain(self.command.iter().map(|word| (*word).to_owned())).collect();
        line.join(" ").replace("{target}", "target")
    }
}

impl Need {
    /// Why the rung must be skipped, or nothing where the need is met.
    pub fn missing(&self, workspace: &Workspace) -> Option<String> {
        match self {
            Self::File(path) => (!workspace.root.join(path).is_file())
                .then(|| format!("there is no {path} in this tree")),
            Self::Program(name) => {
                (!is_on_path(name)).then(|| format!("`{name}` is not installed"))
            }
            Self::Test(package, name) => {
                (!workspace.targets(package, "test").any(|target| target == *name))
                    .then(|| format!("{package} has no test target `{name}`"))
            }
            Self::Built(name) => (!workspace.target_dir.join("release").join(name).is_file())
                .then(|| format!("`{name}` was not built for release")),
        }
    }
}

fn is_on_path(name: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_has_a_name_a_command_and_a_next_step() {
        for (index, rung) in LADDER.iter().enumerate() {
            assert!(!rung.name.is_empty() && !rung.command.is_empty() && !rung.next.is_empty());
            assert!(
                LADDER[..index].iter().all(|other| other.name != rung.name),
                "{} is there twice",
                rung.name
            );
        }
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        let loom =
            LADDER.iter().find(|rung| rung.name == "loom").expect("the ladder has a loom rung");
        let line = loom.command_line();
        assert!(line.starts_with("RUSTFLAGS='--cfg loom' cargo test -p m3ipc-link"), "{line}");
        assert!(line.ends_with("--target-dir target/loom"), "{line}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let workspace = Workspace {
            root: "/nowhere".into(),
            target_dir: "/nowhere/target".into(),
            packages: Vec::new(),
        };
        for need in [
            Need::File("tests/c/run.sh"),
            Need::Program("no-such-program-anywhere"),
            Need::Test("m3ipc-link", "loom"),
            Need::Built("m3"),
        ] {
            assert!(need.missing(&workspace).is_some());
        }
        assert_eq!(Need::Program("sh").missing(&workspace), None);
    }
}
