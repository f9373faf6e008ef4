//! The own node of a user: whom its daemon serves, and how long.

use m3ipc_users::{ATTACKER, Place, VICTIM, is_root, set_mode};

#[test]
fn the_node_of_a_user_serves_that_user_and_root_only() {
    if !is_root("the node of a user") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", VICTIM, 0o700);
    let path = directory.to_str().expect("a plain path");
    let _daemon = place.daemon_with(VICTIM, &directory, &[]);
    let socket = directory.join("m3d.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&socket).expect("a socket").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // Even if somebody opens the way to its socket.
    set_mode(&directory, 0o755);
    set_mode(&socket, 0o666);
    for user in [VICTIM, 0] {
        assert_eq!(place.run(user, &["hello", path]), "ok", "user {user}");
    }
    let said = place.run(ATTACKER, &["hello", path]);
    assert!(said.starts_with("-335 ") && said.contains("m3d --system"), "{said}");
}
