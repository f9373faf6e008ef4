//! The steps of `--full` beside those of the gate, as data.

use super::figure::Figure;
use super::step::{Gate, Need, PLAIN, Run, Step};

/// A step of `--full` alone.
const FULL: Step = Step { run: Run::Full, ..PLAIN };

/// One hour of a fuzz target. The step `fuzz` has built all of them.
const fn fuzz(name: &'static str, command: &'static str) -> Step {
    Step {
        name,
        command,
        needs: &[Need::Program("cargo-fuzz")],
        takes: &["fuzz"],
        limit_s: 5_400,
        gate: Gate::Check,
        next: "cargo fuzz run TARGET FILE, with the target and the file that the log names",
        ..FULL
    }
}

/// Scripts learn from this variable where cargo builds.
const TARGET: &[(&str, &str)] = &[("CARGO_TARGET_DIR", "{target}")];

/// The steps, in the order in which they start where nothing else decides.
pub const LONG_TIER: &[Step] = &[
    Step {
        name: "build-release",
        command: "cargo build --release",
        lock: "release",
        limit_s: 1_800,
        figure: Figure::Fixed("what a plain release build makes"),
        next: "correct the error in the log",
        ..FULL
    },
    Step {
        name: "capi-release",
        command: "bash tests/c/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/c/run.sh"), Need::Program("cc")],
        takes: &["build-release"],
        lock: "release",
        figure: Figure::TestTotals,
        next: "run the script by itself",
        ..FULL
    },
    Step {
        name: "sockets-release",
        command: "bash tests/sockets/run.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/run.sh"), Need::Program("cc")],
        takes: &["build-release"],
        figure: Figure::TestTotals,
        next: "run the script with the name of the case after cargo build --release",
        ..FULL
    },
    Step {
        name: "sockets-random-full",
        command: "env CALLS=50000 SEEDS=20 FIRST=100 bash tests/sockets/random.sh",
        env: TARGET,
        needs: &[Need::File("tests/sockets/random.sh"), Need::Program("cc")],
        takes: &["build-release"],
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
        takes: &["build-release"],
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
        takes: &["build-release"],
        quiet: true,
        limit_s: 3_600,
        next: "run the script with --only and the name of the program",
        ..FULL
    },
    Step {
        name: "soak",
        command: "cargo test --profile gate -p m3ipc-test-fixture -p m3ipc-crash --test programs \
                  --test soak",
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
        command: "cargo test --profile gate -p m3ipc-calls --test random -- --nocapture",
        env: &[("M3_SOAK_SECONDS", "60")],
        after: &["test"],
        lock: "gate",
        figure: Figure::TestTotals,
        next: "run the command alone",
        ..FULL
    },
    Step {
        name: "soak-cpp",
        command: "bash tests/cpp/run.sh",
        env: &[("CARGO_TARGET_DIR", "{target}"), ("M3_SOAK_SECONDS", "60")],
        needs: &[Need::File("tests/cpp/run.sh"), Need::Program("c++")],
        takes: &["build-release"],
        figure: Figure::TestTotals,
        next: "run the script by itself after cargo build --release",
        ..FULL
    },
    Step {
        name: "soak-python",
        command: "bash tests/python/wheel.sh -k test_random",
        env: &[("CARGO_TARGET_DIR", "{target}"), ("M3_SOAK_SECONDS", "60")],
        needs: &[Need::File("tests/python/wheel.sh"), Need::PythonModule("ensurepip")],
        takes: &["python-package"],
        lock: "release",
        figure: Figure::TestTotals,
        next: "run the command alone; the log names the seed",
        ..FULL
    },
    Step {
        name: "rpc",
        command: "cargo test --manifest-path examples/rpc/Cargo.toml --target-dir {target}/rpc",
        env: &[("M3_DAEMON", "{target}/release/m3d")],
        takes: &["build-release"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command alone after cargo build --release -p m3ipc-daemon",
        ..FULL
    },
    Step {
        name: "files",
        command: "cargo test --profile gate -p m3ipc-test-fixture -p m3ipc-test-supervise -p \
                  m3ipc-files \
                  --features m3ipc-files/mount --test programs --test supervise --test kills \
                  --test mount",
        env: &[("M3_FILES_SECONDS", "60")],
        after: &["test"],
        lock: "gate",
        quiet: true,
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with M3_FILES_SEED=<seed> of the log",
        ..FULL
    },
    Step {
        name: "large",
        command: "cargo test --release -p m3ipc-large -- --ignored --test-threads 1",
        takes: &["build-release"],
        after: &["test"],
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
        takes: &["build-release"],
        lock: "release",
        limit_s: 1_800,
        figure: Figure::Fixed("the programs of the attacks"),
        next: "correct the error in the log",
        ..FULL
    },
    Step {
        name: "attacks",
        command: "{target}/release/m3-tests-attacks",
        takes: &["build-attacks"],
        quiet: true,
        next: "run it as root on a quiet machine of two CPUs, with the name of one attack",
        ..FULL
    },
    Step {
        name: "oracle",
        command: "cargo test --profile gate -p m3ipc-test-fixture -p m3ipc-conformance --test \
                  programs --test \
                  oracle",
        env: &[("M3_ORACLE_CASES", "30000")],
        after: &["test"],
        lock: "gate",
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
        command: "{xtask} cases --long -p m3ipc-test-nodes --test conformance",
        after: &["test"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with the name of the failed row",
        ..FULL
    },
    Step {
        name: "slow-path",
        command: "{xtask} cases -p m3ipc -p m3ipc-conformance -p m3ipc-hostile -p m3ipc-crash",
        env: &[("M3_NO_FAST_PATH", "1")],
        after: &["test"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with M3_NO_FAST_PATH=1 and the name of the failed test",
        ..FULL
    },
    Step {
        name: "sleep-path",
        command: "{xtask} cases -p m3ipc -p m3ipc-conformance -p m3ipc-hostile -p m3ipc-crash",
        env: &[("M3_WAIT", "block")],
        after: &["test"],
        limit_s: 1_800,
        figure: Figure::TestTotals,
        next: "run the command with M3_WAIT=block and the name of the failed test",
        ..FULL
    },
    Step {
        name: "install-dist",
        command: "{xtask} install --prefix /usr --destdir {target}/ci/install-dist",
        takes: &["build-release"],
        lock: "release",
        limit_s: 1_800,
        next: "run it alone with another --destdir",
        ..FULL
    },
    Step {
        name: "sizes",
        command: "{xtask} check sizes",
        takes: &["install-dist"],
        next: "each finding says what to do",
        gate: Gate::Check,
        ..FULL
    },
    Step {
        name: "package-full",
        command: "{xtask} package",
        limit_s: 1_800,
        lock: "package",
        next: "run the command alone; `cargo package --list -p PACKAGE` lists the files",
        gate: Gate::Check,
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
        gate: Gate::Check,
        ..FULL
    },
    Step {
        name: "fuzz",
        command: "{xtask} fuzz --seconds 6",
        needs: &[Need::Program("cargo-fuzz")],
        after: &["tools-full"],
        lock: "fuzz",
        limit_s: 1_800,
        next: "cargo fuzz run TARGET FILE, with the target and the file that the log names",
        gate: Gate::Check,
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
        gate: Gate::Check,
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
        gate: Gate::Check,
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
        gate: Gate::Check,
        ..FULL
    },
];
