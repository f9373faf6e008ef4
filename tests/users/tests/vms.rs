//! VMs of other users on the node of the system.

use m3ipc_users::{ATTACKER, Place, VICTIM, is_root};

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
