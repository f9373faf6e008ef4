//! The steps of CI, as data. To add a step, add an entry to [`STEPS`].

use super::figure::Figure;
use super::step::{Need, PLAIN, Run, Step};

/// A check of xtask itself.
const fn check(name: &'static str, command: &'static str) -> Step {
    Step { name, command, run: Run::Fast, next: "each finding says what to do", ..PLAIN }
}

/// A step of `--full` alone.
const FULL: Step = Step { run: Run::Full, ..PLAIN };

/// One hour of a fuzz target. The step `fuzz` has built all of them.
const fn fuzz(name: &'static str, command: &'static str) -> Step {
    Step {
        name,
        command,
        needs: &[Need::Program("cargo-fuzz")],
        after: &["fuzz"],
        limit_s: 5_400,
        next: "cargo fuzz run TARGET FILE, with the target and the file that the log names",
        ..FULL
    }
}

/// Scripts learn from this variable where cargo builds.
const TARGET: &[(&str, &str)] = &[("CARGO_TARGET_DIR", "{target}")];

/// The steps, in the order in which they start where nothing else decides.
pub const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        command: "cargo fmt --all --check",
        run: Run::Fast,
        figure: Figure::Fixed("every file as rustfmt leaves it"),
        next: "cargo fmt --all",
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
    Step {
        name: "pages",
        command: "bash tests/c/check_pages.sh",
        env: TARGET,
        needs: &[Need::File("tests/c/check_pages.sh")],
        next: "write or correct the man page in docs/man that the log names",
        ..PLAIN
    },
    Step {
        name: "clippy",
        command: "cargo clippy --workspace --all-targets --features m3ipc-files/mount \
                  -- -D warnings",
        run: Run::Fast,
        lock: "debug",
        figure: Figure::Fixed("no warnings"),
        next: "correct the code; `cargo clippy --fix` does the simple ones",
        ..PLAIN
    },
    Step {
        name: "tools",
        command: "{xtask} tools",
        limit_s: 3_600,
        next: "check the network, or install the tool with cargo install",
        ..PLAIN
    },
    Step {
        name: "unused",
        command: "cargo machete",
        needs: &[Need::Program("cargo-machete")],
        after: &["tools"],
        figure: Figure::Fixed("no dead dependency"),
        next: "remove the dependencies that the log names",
        ..PLAIN
    },
    Step {
        name: "build",
        command: "cargo build --release",
        lock: "release",
        limit_s: 1_800,
        figure: Figure::Fixed("release build"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "build-proxy",
        command: "cargo build --release -p m3ipc-proxy -p m3ipc-registry",
        after: &["build"],
        lock: "release",
        limit_s: 1_800,
        figure: Figure::Fixed("release build of what a plain build leaves out"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "build-tests",
        limit_s: 1_800,
        command: "cargo test --workspace --no-run",
        after: &["clippy"],
        run: Run::Fast,
        lock: "debug",
        figure: Figure::Fixed("tests built"),
        next: "correct the error in the log",
        ..PLAIN
    },
    Step {
        name: "install",
        command: "{xtask} install --no-build --profile release --prefix /usr \
                  --destdir {target}/ci/install",
        after: &["build-proxy"],
        next: "run it alone with another --destdir",
        ..PLAIN
    },
    Step {
        name: "sizes",
        command: "{xtask} check sizes",
        after: &["install"],
        next: "each finding says what to do",
        ..PLAIN
    },
    Step {
        name: "public-api",
        command: "{xtask} check public-api",
        lock: "api",
        next: "each finding says what to do",
        ..PLAIN
    },
    Step {
        name: "docs",
        // The features of `clippy`, whose checked dependencies it then finds.
        command: "cargo doc --workspace --no-deps --features m3ipc-files/mount",
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        lock: "debug",
        figure: Figure::Fixed("no warnings"),
        next: "correct the link or the block that the log names",
        ..PLAIN
    },
    Step {
        name: "package",
        command: "cargo package --workspace --allow-dirty --quiet --no-verify",
        figure: Figure::Fixed("each package has its archive"),
        next: "run the command alone; `cargo package --list -p PACKAGE` lists the files",
        ..PLAIN
    },
    Step {
        name: "msrv",
        command: "cargo +1.88 check --workspace --target-dir {target}/msrv",
        needs: &[Need::Toolchain("1.88")],
        lock: "msrv",
        figure: Figure::Fixed("Rust 1.88 compiles the workspace"),
        next: "replace the newer function, or raise rust-version with an entry in CHANGELOG.md",
        ..PLAIN
    },
    Step {
        name: "site",
        command: "{xtask} site",
        needs: &[Need::File("docs/book.toml"), Need::Program("mdbook")],
        after: &["tools"],
        next: "run the command alone",
        ..PLAIN
    },
    Step {
        name: "test",
        command: "cargo nextest run --workspace --no-fail-fast",
        fallback: "cargo test --workspace --no-fail-fast --lib --bins --tests",
        // Most tests wait for processes: four at a time keep two CPUs busy.
        env: &[
            ("M3_SOAK_SECONDS", "5"),
            ("M3_ORACLE_CASES", "3000"),
            ("M3_FILES_SECONDS", "10"),
            ("NEXTEST_TEST_THREADS", "4"),
        ],
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
        command: "cargo test --workspace --doc --no-fail-fast",
        after: &["build-tests"],
        run: Run::Fast,
        lock: "debug",
        figure: Figure::TestTotals,
        next: "run the example alone: cargo test -p PACKAGE --doc NAME",
        ..PLAIN
    },
    Step {
        name: "capi",
        command: "bash tests/c/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/c/run.sh"), Need::Program("cc")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "cpp",
        command: "bash tests/cpp/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/cpp/run.sh"), Need::Program("c++")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "sockets",
        command: "bash tests/sockets/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/run.sh"), Need::Program("cc")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script with the name of the case after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "sockets-random",
        command: "bash tests/sockets/random.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/random.sh"), Need::Program("cc")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script with FIRST=<seed> SEEDS=1 after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "sockets-random-full",
        command: "env CALLS=50000 SEEDS=20 FIRST=100 bash tests/sockets/random.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/random.sh"), Need::Program("cc")],
        after: &["build"],
        limit_s: 3_600,
        figure: Figure::TestTotals,
        next: "run the script with FIRST=<seed> SEEDS=1 CALLS=50000",
        ..FULL
    },
    Step {
        name: "sockets-suites",
        command: "bash tests/sockets/suites.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/suites.sh"), Need::Program("python3")],
        after: &["build"],
        limit_s: 14_400,
        figure: Figure::TestTotals,
        next: "run the script with the name of the suite after cargo build --release",
        ..FULL
    },
    Step {
        name: "sockets-speed",
        command: "bash tests/sockets/speed.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/speed.sh"), Need::Program("wrk")],
        after: &["build"],
        quiet: true,
        limit_s: 3_600,
        next: "run the script with --only and the name of the program",
        ..FULL
    },
    Step {
        name: "python",
        command: "bash tests/python/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/python/run.sh"), Need::Program("python3")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "python-package",
        command: "bash tests/python/wheel.sh",
        env: TARGET,
        needs: &[Need::File("tests/python/wheel.sh"), Need::PythonModule("ensurepip")],
        after: &["build"],
        lock: "release",
        figure: Figure::LastLine,
        next: "run the script by itself; words after it go to pytest, as -k NAME",
        ..PLAIN
    },
    Step {
        name: "snippets",
        command: "bash tests/snippets/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/snippets/run.sh")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..PLAIN
    },
    Step {
        name: "bench-ipc",
        command: "{target}/release/m3 bench ipc --quick --rounds 1 --millis 2",
        after: &["build"],
        quiet: true,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Step {
        name: "bench-area",
        command: "{target}/release/m3 bench area --quick --rounds 1 --millis 2",
        after: &["build"],
        quiet: true,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Step {
        name: "bench-copy",
        command: "{target}/release/m3 bench copy --quick --rounds 1 --millis 2",
        after: &["build"],
        quiet: true,
        next: "run it alone on a quiet machine",
        ..PLAIN
    },
    Step {
        name: "fuzz",
        command: "{xtask} fuzz --seconds 6",
        needs: &[Need::Program("cargo-fuzz")],
        after: &["tools"],
        lock: "fuzz",
        limit_s: 1_800,
        next: "cargo fuzz run TARGET FILE, with the target and the file that the log names",
        ..PLAIN
    },
    Step {
        name: "soak",
        command: "cargo test -p m3ipc-test-fixture -p m3ipc-crash --test programs --test soak",
        env: &[("M3_SOAK_SECONDS", "600")],
        after: &["test"],
        quiet: true,
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone; the log names the seed",
        ..FULL
    },
    Step {
        name: "soak-calls",
        command: "cargo test -p m3ipc-calls --test random -- --nocapture",
        env: &[("M3_SOAK_SECONDS", "60")],
        after: &["test"],
        lock: "debug",
        figure: Figure::TestTotals,
        next: "run the command alone",
        ..FULL
    },
    Step {
        name: "soak-cpp",
        command: "bash tests/cpp/run.sh",
        env: &[("CARGO_TARGET_DIR", "{target}"), ("M3_SOAK_SECONDS", "60")],
        needs: &[Need::File("tests/cpp/run.sh"), Need::Program("c++")],
        after: &["build"],
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..FULL
    },
    Step {
        name: "soak-python",
        command: "bash tests/python/wheel.sh -k test_random",
        env: &[("CARGO_TARGET_DIR", "{target}"), ("M3_SOAK_SECONDS", "60")],
        needs: &[Need::File("tests/python/wheel.sh"), Need::PythonModule("ensurepip")],
        after: &["python-package"],
        lock: "release",
        figure: Figure::LastLine,
        next: "run the command alone; the log names the seed",
        ..FULL
    },
    Step {
        name: "rpc",
        command: "cargo test --manifest-path examples/rpc/Cargo.toml --target-dir {target}/rpc",
        env: &[("M3_DAEMON", "{target}/release/m3d")],
        after: &["build"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone after cargo build --release -p m3ipc-daemon",
        ..FULL
    },
    Step {
        name: "files",
        command: "cargo test -p m3ipc-test-fixture -p m3ipc-test-supervise -p m3ipc-files \
                  --features m3ipc-files/mount --test programs --test supervise --test kills \
                  --test mount",
        env: &[("M3_FILES_SECONDS", "60")],
        after: &["test"],
        lock: "debug",
        quiet: true,
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with M3_FILES_SEED=<seed> of the log",
        ..FULL
    },
    Step {
        name: "large",
        command: "cargo test --release -p m3ipc-large -- --ignored --test-threads 1",
        after: &["test", "build"],
        lock: "release",
        quiet: true,
        limit_s: 7_200,
        figure: Figure::TestTotals,
        next: "run the command alone, with --nocapture for its counts",
        ..FULL
    },
    Step {
        name: "build-attacks",
        command: "cargo build --release -p m3ipc-test-fixture -p m3ipc-hostile --bins",
        after: &["build"],
        lock: "release",
        limit_s: 1_800,
        figure: Figure::Fixed("the programs of the attacks"),
        next: "correct the error in the log",
        ..FULL
    },
    Step {
        name: "attacks",
        command: "{target}/release/m3-tests-attacks",
        after: &["build-attacks"],
        quiet: true,
        next: "run it as root on a quiet machine of two CPUs, with the name of one attack",
        ..FULL
    },
    Step {
        name: "oracle",
        command: "cargo test -p m3ipc-test-fixture -p m3ipc-conformance --test programs --test \
                  oracle",
        env: &[("M3_ORACLE_CASES", "30000")],
        after: &["test"],
        limit_s: 3_600,
        figure: Figure::TestTotals,
        next: "run the command alone; the log names the seed",
        ..FULL
    },
    Step {
        name: "nodes",
        command: "cargo test --release -p m3ipc-test-fabric",
        env: &[("M3_FABRIC_RUNS", "1000000")],
        after: &["test"],
        lock: "release",
        limit_s: 14_400,
        figure: Figure::TestTotals,
        next: "run the command with M3_FABRIC_SEED=<seed> M3_FABRIC_RUNS=1",
        ..FULL
    },
    Step {
        name: "conformance-nodes",
        command: "cargo nextest run -p m3ipc-conformance -p m3ipc-proxy -p m3ipc-test-fixture \
                  -p m3ipc-test-nodes --ignore-default-filter \
                  -E binary(conformance)&package(m3ipc-test-nodes)",
        after: &["test"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with the name of the failed row",
        ..FULL
    },
    Step {
        name: "slow-path",
        command: "cargo nextest run -p m3ipc -p m3ipc-test-fixture -p m3ipc-conformance -p \
                  m3ipc-hostile -p m3ipc-crash",
        env: &[("M3_NO_FAST_PATH", "1")],
        after: &["test"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with M3_NO_FAST_PATH=1 and the name of the failed test",
        ..FULL
    },
    Step {
        name: "sleep-path",
        command: "cargo nextest run -p m3ipc -p m3ipc-test-fixture -p m3ipc-conformance -p \
                  m3ipc-hostile -p m3ipc-crash",
        env: &[("M3_WAIT", "block")],
        after: &["slow-path"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with M3_WAIT=block and the name of the failed test",
        ..FULL
    },
    Step {
        name: "install-dist",
        command: "{xtask} install --prefix /usr --destdir {target}/ci/install-dist",
        after: &["build"],
        lock: "release",
        limit_s: 1_800,
        next: "run it alone with another --destdir",
        ..FULL
    },
    Step {
        name: "sizes-dist",
        command: "{xtask} check sizes-dist",
        after: &["install-dist"],
        next: "each finding says what to do",
        ..FULL
    },
    Step {
        name: "package-full",
        command: "cargo package --workspace --allow-dirty --quiet",
        limit_s: 1_800,
        lock: "package",
        figure: Figure::Fixed("each package builds from its archive"),
        next: "run the command alone; `cargo package --list -p PACKAGE` lists the files",
        ..FULL
    },
    Step {
        name: "loom-full",
        command: "cargo test -p m3ipc-link -p m3ipc-area -p m3ipc-shim -p m3ipc-shm --release \
                          --test loom --target-dir {target}/loom",
        env: &[
            ("M3_LOOM_FULL", "1"),
            ("LOOM_MAX_PREEMPTIONS", "3"),
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "4"),
        ],
        limit_s: 3_600,
        lock: "loom",
        figure: Figure::TestTotals,
        next: "set LOOM_LOG=trace and LOOM_LOCATION=1 to see the interleaving that fails",
        ..FULL
    },
    Step {
        name: "tools-full",
        command: "{xtask} tools --full",
        after: &["tools"],
        limit_s: 3_600,
        next: "check the network, or install the tool with cargo install or rustup",
        ..FULL
    },
    fuzz("fuzz-frames", "{xtask} fuzz frames --seconds 3600"),
    fuzz("fuzz-packets", "{xtask} fuzz packets --seconds 3600"),
    fuzz("fuzz-links", "{xtask} fuzz links --seconds 3600"),
    fuzz("fuzz-areas", "{xtask} fuzz areas --seconds 3600"),
    fuzz("fuzz-rings", "{xtask} fuzz rings --seconds 3600"),
    fuzz("fuzz-regions", "{xtask} fuzz regions --seconds 3600"),
    Step {
        name: "miri",
        command: "cargo +nightly miri test --no-fail-fast --lib --target-dir {target}/miri -p \
                          m3ipc-abi -p m3ipc-wire -p m3ipc-shm -p m3ipc-link -p m3ipc-area -p \
                          m3ipc-model",
        needs: &[Need::Nightly("bin/miri")],
        after: &["tools-full"],
        limit_s: 3_600,
        figure: Figure::TestTotals,
        next: "a test that needs a memory file takes #[cfg_attr(miri, ignore)]",
        ..FULL
    },
    Step {
        name: "asan",
        command: "cargo +nightly test --no-fail-fast --lib --target {host} --target-dir \
                          {target}/asan -p m3ipc-sys -p m3ipc-shm -p m3ipc-link -p m3ipc-area -p \
                          m3ipc-wire",
        env: &[("RUSTFLAGS", "-Zsanitizer=address")],
        needs: &[Need::Nightly("bin/rustc")],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone; the report names both the access and the allocation",
        ..FULL
    },
    Step {
        name: "tsan",
        command: "cargo +nightly test -Zbuild-std --no-fail-fast --lib --target {host} \
                  --target-dir {target}/tsan -p m3ipc-sys -p m3ipc-shm -p m3ipc-link -p m3ipc-area",
        env: &[("RUSTFLAGS", "-Zsanitizer=thread")],
        needs: &[Need::Nightly("lib/rustlib/src/rust/library/std/Cargo.toml")],
        after: &["tools-full"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone; the report names both accesses",
        ..FULL
    },
];

#[cfg(test)]
mod tests {
    use super::*;

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
}
