//! What the shared library exports is what `libm3ipc.map` lists, and it bears its name.
//!
//! Cargo builds the library before this test; the tools that read it are those
//! that the compiler's linker comes with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library of this build: beside or above the test's own program.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a program");
    let found = test.ancestors().map(|folder| folder.join("libm3ipc_c.so")).find(|path| path.is_file());
    found.expect("cargo builds the library before its tests")
}

fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output();
    let output = output.unwrap_or_else(|cause| panic!("{program} cannot be run: {cause}; install binutils"));
    assert!(output.status.success(), "{program} {arguments:?} {} failed", file.display());
    String::from_utf8(output.stdout).expect("names are text")
}

#[test]
fn the_exported_symbols_are_those_of_the_map() {
    let map = include_str!("../libm3ipc.map");
    let listed: BTreeSet<&str> =
        map.lines().filter_map(|line| line.trim().strip_suffix(';')).filter(|name| *name != "*").collect();
    let symbols = output("nm", &["-D", "--defined-only", "-P"], &library());
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(|name| name.split('@').next().unwrap_or(name))
        .collect();
    let listed: BTreeSet<&str> = listed.into_iter().filter(|name| !name.starts_with('}')).collect();
    assert_eq!(exported, listed);
    assert_eq!(listed.len(), 67);
}

#[test]
fn the_library_is_looked_up_by_its_name_and_version() {
    let dynamic = output("readelf", &["-d"], &library());
    assert!(dynamic.contains("[libm3ipc.so.0]"), "no SONAME in: {dynamic}");
}
