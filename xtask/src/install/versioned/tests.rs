//! Links a small library and reads its symbols as a linker would.

use super::*;

use std::fs;

/// The output of a program; `None` where it is not installed or fails.
fn output_of(program: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn exported_names_bear_the_version_of_the_map() {
    let folder = std::env::temp_dir().join(format!("m3-xtask-versioned-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder can be made");
    let source = "int mnx_known(void) { return 1; }\nint rust_internal(void) { return 2; }\n";
    fs::write(folder.join("small.c"), source).expect("it can be written");
    fs::write(
        folder.join("small.map"),
        "M3IPC_0.1 {\n  global:\n    mnx_known;\n  local: *;\n};\n",
    )
    .expect("likewise");
    let made = output_of("cc", &["-c", "-fPIC", "small.c"], &folder)
        .and_then(|_| output_of("ar", &["rcs", "libsmall.a", "small.o"], &folder))
        .and_then(|_| output_of("objdump", &["--version"], &folder));
    if made.is_none() {
        println!("SKIP symbol versions: cc, ar or objdump is not installed");
        return;
    }
    let shared = folder.join("libsmall.so.0");
    link_with(
        "cc",
        &folder.join("libsmall.a"),
        &folder.join("small.map"),
        "libsmall.so.0",
        &shared,
    )
    .expect("it links");
    let symbols =
        output_of("objdump", &["-T", "libsmall.so.0"], &folder).expect("a shared library");
    let known = symbols.lines().find(|line| line.ends_with(" mnx_known")).expect("exported");
    assert!(known.contains("M3IPC_0.1"), "{known}");
    assert!(!symbols.contains("rust_internal"), "{symbols}");
    let names = output_of("objdump", &["-p", "libsmall.so.0"], &folder).expect("a shared library");
    assert!(
        names.lines().any(|line| line.contains("SONAME") && line.ends_with("libsmall.so.0")),
        "{names}"
    );
    let missing = link_with(
        "cc",
        &folder.join("libnone.a"),
        &folder.join("small.map"),
        "libnone.so.0",
        &shared,
    );
    assert!(missing.is_err_and(|error| error.to_string().contains("version-script")));
    let _ = fs::remove_dir_all(&folder);
}
