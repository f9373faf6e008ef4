//! The steps of the gate, as data. To add a step, add an entry to [`GATE`], or to that of
//! [`long_tier`](super::long_tier).

use super::figure::Figure;
use super::step::{Gate, Need, PLAIN, Run, Step};

/// A check of xtask itself.
const fn check(name: &'static str, command: &'static str) -> Step {
    let next = "each finding says what to do";
    Step { name, command, gate: Gate::Check, run: Run::Fast, next, ..PLAIN }
}

/// Scripts of the gate take what the step `programs` has kept, and build nothing.
const PROGRAMS: &[(&str, &str)] = &[
    ("CARGO_TARGET_DIR", "{target}/ci/built"),
    ("PROFILE", "gate"),
    ("M3_NO_BUILD", "1"),
    ("XTASK", "{xtask}"),
];

/// The packages of the step `build`. The features of what they share depend on the whole list, so a
/// step that takes another list compiles the workspace again.
macro_rules! packages {
    () => {
        "-p m3ipc-cli -p m3ipc-daemon -p m3ipc-capi -p m3ipc-shim-preload -p m3ipc-supervise \
         -p m3ipc-bench -p m3ipc-report -p xtask -p m3ipc-proxy -p m3ipc-registry"
    };
}

/// The steps, in the order in which they start where nothing else decides. The scripts run beside
/// the builds that follow `programs`.
pub const GATE: &[Step] = &[
    Step {
        name: "fmt",
        command: "cargo fmt --all --check",
        run: Run::Fast,
        figure: Figure::Fixed("every file as rustfmt leaves it"),
        next: "cargo fmt --all",
        gate: Gate::Check,
        ..PLAIN
    },
    check("direction", "{xtask} check direction"),
    check("dependencies", "{xtask} check dependencies"),
    check("manifests", "{xtask} check manifests"),
    check("unsafe", "{xtask} check unsafe"),
    check("lengths", "{xtask} check lengths"),
    check("width", "{xtask} check width"),
    check("fences", "{xtask} check fences"),
    check("paths", "{xtask} check paths"),
    check("links", "{xtask} check links"),
    check("circles", "{xtask} check circles"),
    check("orphans", "{xtask} check orphans"),
    check("locks", "{xtask} check locks"),
    Step {
        name: "pages",
        command: "bash tests/c/check_pages.sh",
        needs: &[Need::File("tests/c/check_pages.sh")],
        next: "write or correct the man page in docs/man that the log names",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "build",
        command: concat!("cargo build --profile gate ", packages!()),
        lock: "gate",
        limit_s: 1_800,
        figure: Figure::Fixed("programs and libraries built"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "programs",
        command: "sh tests/programs.sh {target}/gate {target}/ci/built/gate",
        takes: &["build"],
        lock: "gate",
        next: "the log names the file that could not be linked",
        ..PLAIN
    },
    Step {
        name: "install",
        command: "{xtask} install --no-build --profile gate --prefix /usr \
                  --destdir {target}/ci/install",
        env: PROGRAMS,
        takes: &["programs"],
        next: "run it alone with another --destdir",
        ..PLAIN
    },
    Step {
        name: "clippy",
        command: "cargo clippy --profile gate --workspace --all-targets \
                  --features m3ipc-files/mount -- -D warnings",
        run: Run::Fast,
        lock: "gate",
        figure: Figure::Fixed("no warnings"),
        next: "correct the code; `cargo clippy --fix` does the simple ones",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "build-tests",
        limit_s: 1_800,
        command: "cargo test --profile gate --workspace --no-run",
        run: Run::Fast,
        lock: "gate",
        figure: Figure::Fixed("tests built"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "sockets",
        command: "bash tests/sockets/run.sh",
        env: PROGRAMS,
        needs: &[Need::File("tests/sockets/run.sh"), Need::Program("cc")],
        takes: &["programs", "build-tests"],
        figure: Figure::TestTotals,
        next: "run the script with the name of the case and PROFILE=gate after cargo build \
               --profile gate",
        case: "KIND={1} PROFILE=gate tests/sockets/run.sh {2}",
        ..PLAIN
    },
    Step {
        name: "python-package",
        command: "bash tests/python/wheel.sh",
        env: &[
            ("CARGO_TARGET_DIR", "{target}"),
            ("PROFILE", "gate"),
            ("M3_PROGRAMS", "{target}/ci/built/gate"),
        ],
        needs: &[Need::File("tests/python/wheel.sh"), Need::PythonModule("ensurepip")],
        takes: &["programs", "build-tests"],
        figure: Figure::TestTotals,
        next: "run the script by itself with PROFILE=gate; words after it go to pytest, as -k NAME",
        case: "PROFILE=gate tests/python/wheel.sh {case}",
        ..PLAIN
    },
    Step {
        name: "tools",
        command: "{xtask} tools",
        limit_s: 3_600,
        next: "check the network, or install the tool with cargo install",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "unused",
        command: "cargo machete",
        needs: &[Need::Program("cargo-machete")],
        after: &["tools"],
        figure: Figure::Fixed("no dead dependency"),
        next: "remove the dependencies that the log names",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "public-api",
        command: "{xtask} check public-api",
        lock: "api",
        next: "each finding says what to do",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "docs",
        // The features of `clippy`, whose checked dependencies it then finds.
        command: "cargo doc --profile gate --workspace --no-deps --features m3ipc-files/mount",
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        lock: "gate",
        figure: Figure::Fixed("no warnings"),
        next: "correct the link or the block that the log names",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "package",
        command: "cargo package --workspace --allow-dirty --quiet --no-verify",
        figure: Figure::Fixed("each package has its archive"),
        next: "run the command alone; `cargo package --list -p PACKAGE` lists the files",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "msrv",
        command: "cargo +{msrv} check --workspace --target-dir {target}/msrv",
        after: &["tools"],
        lock: "msrv",
        figure: Figure::Fixed("the oldest Rust compiles the workspace"),
        next: "replace the newer function, or raise rust-version with an entry in CHANGELOG.md",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "site",
        command: "{xtask} site",
        needs: &[Need::File("docs/book.toml"), Need::Program("mdbook")],
        after: &["tools"],
        next: "run the command alone",
        gate: Gate::Check,
        ..PLAIN
    },
    Step {
        name: "test",
        command: "{xtask} cases",
        env: &[("M3_SOAK_SECONDS", "5"), ("M3_ORACLE_CASES", "3000"), ("M3_FILES_SECONDS", "10")],
        takes: &["build-tests"],
        run: Run::Fast,
        quiet: true,
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "the log has the output of each failed case",
        ..PLAIN
    },
    Step {
        name: "doctest",
        command: "cargo test --profile gate --workspace --doc --no-fail-fast",
        // rustdoc builds its programs elsewhere, where no daemon lies beside them.
        env: &[("M3_DAEMON", "{target}/ci/built/gate/m3d")],
        takes: &["build-tests", "programs"],
        run: Run::Fast,
        lock: "gate",
        figure: Figure::TestTotals,
        next: "run the example alone: cargo test -p PACKAGE --doc NAME",
        case: "cargo test --profile gate --workspace --doc {3}",
        ..PLAIN
    },
    Step {
        name: "capi",
        command: "bash tests/c/run.sh",
        env: PROGRAMS,
        needs: &[Need::File("tests/c/run.sh"), Need::Program("cc")],
        takes: &["programs"],
        figure: Figure::TestTotals,
        next: "run the script by itself with PROFILE=gate",
        ..PLAIN
    },
    Step {
        name: "cpp",
        command: "bash tests/cpp/run.sh",
        env: PROGRAMS,
        needs: &[Need::File("tests/cpp/run.sh"), Need::Program("c++")],
        takes: &["programs"],
        figure: Figure::TestTotals,
        next: "run the script by itself with PROFILE=gate",
        ..PLAIN
    },
    Step {
        name: "sockets-random",
        command: "bash tests/sockets/random.sh",
        env: PROGRAMS,
        needs: &[Need::File("tests/sockets/random.sh"), Need::Program("cc")],
        takes: &["programs"],
        figure: Figure::TestTotals,
        next: "run the script with FIRST=<seed>, SEEDS=1 and PROFILE=gate after cargo build \
               --profile gate",
        ..PLAIN
    },
    Step {
        name: "python",
        command: "bash tests/python/run.sh",
        env: PROGRAMS,
        needs: &[Need::File("tests/python/run.sh"), Need::Program("python3")],
        takes: &["programs"],
        figure: Figure::TestTotals,
        next: "run the script by itself with PROFILE=gate",
        ..PLAIN
    },
    Step {
        name: "snippets",
        command: "bash tests/snippets/run.sh",
        env: &[
            ("CARGO_TARGET_DIR", "{target}"),
            ("CARGOFLAGS", concat!("--profile gate ", packages!())),
        ],
        needs: &[Need::File("tests/snippets/run.sh")],
        takes: &["programs"],
        lock: "gate",
        figure: Figure::TestTotals,
        next: "run the script by itself with CARGOFLAGS='--profile gate'",
        ..PLAIN
    },
    // The gate asks whether the benchmarks run. Deaths and starts are left out: each waits for
    // seconds, and the tests of the package `m3ipc-bench` have them.
    Step {
        name: "bench-ipc",
        command: "{target}/ci/built/gate/m3 bench ipc --quick --rounds 1 --millis 2 --only \
                  ipc1,ipc2,ipc3",
        takes: &["programs"],
        next: "run it by itself",
        ..PLAIN
    },
    Step {
        name: "bench-area",
        command: "{target}/ci/built/gate/m3 bench area --quick --rounds 1 --millis 2",
        takes: &["programs"],
        next: "run it by itself",
        ..PLAIN
    },
    Step {
        name: "bench-copy",
        command: "{target}/ci/built/gate/m3 bench copy --quick --rounds 1 --millis 2",
        takes: &["programs"],
        next: "run it by itself",
        ..PLAIN
    },
];
