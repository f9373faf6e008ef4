//! VMs of other users on the node of the system.

use m3ipc_users::{ATTACKER, Place, VICTIM, is_root};
use std::process::Stdio;

#[test]
fn only_its_owner_opens_a_vm_by_open_or_create() {
    if !is_root("VMs of other users") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", 0, 0o755);
    let path = directory.to_str().expect("a plain path");
    let _daemon = place.daemon(0, &directory);
    // A stranger that takes the name first does not get the victim into its VM.
    assert_eq!(place.run(ATTACKER, &["open", path, "shop"]), "0");
    let said = place.run(VICTIM, &["open", path, "shop"]);
    assert!(said.starts_with("-335 ") && said.contains("belongs to another user"), "{said}");
    assert!(!said.contains("65302"), "the mode of the VM hides it: {said}");
    assert_eq!(place.run(ATTACKER, &["open", path, "shop"]), "0");
    let said = place.run(0, &["open", path, "shop"]);
    assert!(said.starts_with("-335 ") && said.contains("belongs to user 65302"), "{said}");
}

#[test]
fn a_supervisor_joins_no_vm_that_another_user_made() {
    if !is_root("a VM of another user") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", 0, 0o755);
    let path = directory.to_str().expect("a plain path");
    let _daemon = place.daemon(0, &directory);
    assert_eq!(place.run(ATTACKER, &["open", path, "shop"]), "0");
    let file = place.path().join("services.toml");
    let text = "vm = 'shop'\n[service.till]\nrun = ['/bin/true']\n";
    std::fs::write(&file, text).expect("a file of root");
    let mut role = place.role(0, &["supervise", path, file.to_str().expect("a plain path")]);
    let output = role.stdout(Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("user 65302 made VM shop"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_log_of_the_systems_node_lies_in_the_folder_of_logs() {
    if !is_root("the log of the system's node") {
        return;
    }
    let said = Place::new().run(0, &["logs"]);
    assert!(said == "made\n[true, false]" || said.starts_with("SKIP"), "{said}");
}
