//! The example of three nodes, as users run it.

use m3ipc_test_fixture::{program, watchdog};
use std::path::Path;
use std::process::Command;

#[test]
fn three_nodes_have_two_vms_that_cannot_see_each_other() {
    watchdog(240);
    // All three are needed: the first that is absent is named.
    let programs = ["m3", "m3-proxy", "m3-registry"].map(program);
    let folder = programs[0].parent().expect("it has one");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drvs/run.sh");
    let done = Command::new("bash").arg(script).arg(folder).env_remove("M3_RUNTIME_DIR").output();
    let done = done.expect("a shell is there");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    println!("{text}");
    assert!(done.status.success(), "{text}");
    for line in [
        "north calls shop/10 on east: str:hello",
        "east calls bank/10 on south: str:hello",
        "north has no VM bank",
        "all is well",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // With a directory, or visibly without.
    assert!(text.contains("calls go on: str:again") || text.contains("SKIP      ldap"), "{text}");
}
