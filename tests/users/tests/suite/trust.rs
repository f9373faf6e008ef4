//! Clients use a daemon only where its directory and its user are trusted.

use m3ipc_users::{ATTACKER, Place, Running, SYSTEM, VICTIM, is_root, set_mode};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Codes of the contract: bad directory, bad owner.
const BAD_DIRECTORY: &str = "-340 ";
const BAD_OWNER: &str = "-331 ";

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_daemon_in_a_directory_of_another_user_is_refused() {
    if !is_root("foreign daemon") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", ATTACKER, 0o755);
    let _daemon = place.daemon(ATTACKER, &directory);
    assert_eq!(place.run(ATTACKER, &["find", text(&directory)]), "ok", "its own user trusts it");
    for user in [0, VICTIM] {
        let said = place.run(user, &["find", text(&directory)]);
        assert!(said.starts_with(BAD_DIRECTORY), "user {user}: {said}");
        assert!(said.contains(&format!("user {ATTACKER} owns it")), "{said}");
        assert!(said.contains("M3_RUNTIME_DIR"), "the next step: {said}");
        let said = place.run(user, &["domain", text(&directory), "0"]);
        assert!(said.contains("not trusted"), "com-sockets of user {user}: {said}");
    }
}

#[test]
fn roots_daemon_serves_every_user() {
    if !is_root("daemon of root") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", 0, 0o755);
    let _daemon = place.daemon(0, &directory);
    for user in [0, VICTIM] {
        assert_eq!(place.run(user, &["find", text(&directory)]), "ok");
    }
}

#[test]
fn a_variable_that_su_left_behind_leads_to_no_daemon() {
    if !is_root("XDG_RUNTIME_DIR of another user") {
        return;
    }
    let place = Place::new();
    let base = place.folder("base", ATTACKER, 0o700);
    let directory = place.folder("base/m3", ATTACKER, 0o755);
    let mut listener = Running::start(&mut place.role(ATTACKER, &["listen", text(&directory)]));
    assert_eq!(listener.line(), "listening");
    let mut role = place.role(0, &["attach"]);
    let said = m3ipc_users::printed(role.env("XDG_RUNTIME_DIR", &base));
    assert!(said.starts_with(BAD_DIRECTORY) && said.contains("sudo -E"), "{said}");
    // The way to it is no better.
    std::fs::rename(directory.join("m3d.sock"), base.join("m3d.sock")).expect("root moves files");
    let said = m3ipc_users::printed(role.env("M3_RUNTIME_DIR", base.join("absent")));
    assert!(said.starts_with(BAD_DIRECTORY), "{said}");
    assert!(!base.join("absent").exists(), "nothing is made there");
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    if !is_root("links") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", 0, 0o755);
    let _daemon = place.daemon(0, &directory);
    let shared = place.folder("shared", 0, 0o1777);
    let link = shared.join("link");
    symlink(&directory, &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(ATTACKER), None).expect("root gives links away");
    let said = place.run(VICTIM, &["find", text(&link)]);
    assert!(said.starts_with(BAD_DIRECTORY) && said.contains("symbolic link"), "{said}");
    // Not even on the way.
    let deep = shared.join("way");
    symlink(place.path(), &deep).expect("a link");
    std::os::unix::fs::lchown(&deep, Some(ATTACKER), None).expect("root gives links away");
    let said = place.run(VICTIM, &["find", text(&deep.join("node"))]);
    assert!(said.starts_with(BAD_DIRECTORY) && said.contains("symbolic link"), "{said}");
}

#[test]
fn a_directory_that_others_can_write_or_replace_is_refused() {
    if !is_root("writable directories") {
        return;
    }
    let place = Place::new();
    let parent = place.folder("parent", 0, 0o755);
    let directory = place.folder("parent/node", 0, 0o755);
    let _daemon = place.daemon(0, &directory);
    for (path, mode, is_trusted) in [
        (&directory, 0o777, false),
        (&directory, 0o775, false),
        (&directory, 0o1777, false),
        (&parent, 0o777, false),
        (&parent, 0o775, false),
        (&parent, 0o1777, true),
    ] {
        set_mode(path, mode);
        let said = place.run(VICTIM, &["find", text(&directory)]);
        set_mode(path, 0o755);
        let found = if is_trusted { said == "ok" } else { said.starts_with(BAD_DIRECTORY) };
        assert!(found, "{} with mode {mode:o}: {said}", path.display());
    }
}

#[test]
fn a_socket_from_before_the_directory_was_closed_is_refused() {
    if !is_root("foreign socket") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", 0, 0o777);
    let mut listener = Running::start(&mut place.role(ATTACKER, &["listen", text(&directory)]));
    assert_eq!(listener.line(), "listening");
    set_mode(&directory, 0o755);
    for user in [0, VICTIM] {
        let said = place.run(user, &["find", text(&directory)]);
        assert!(said.starts_with(BAD_OWNER) && said.contains("belongs to user"), "{said}");
        assert_eq!(listener.line(), "a client left", "the client sent nothing");
    }
}

#[test]
fn the_owner_of_the_systems_directory_is_the_user_of_its_daemon() {
    if !is_root("the system's directory") {
        return;
    }
    let place = Place::new();
    let scene = |mode: &str, client: u32, words: &[&str]| {
        let (owner, client) = (SYSTEM.to_string(), client.to_string());
        let all = ["system", &owner, mode, &client].into_iter().chain(words.iter().copied());
        place.run(0, &all.collect::<Vec<_>>())
    };
    for user in [0, VICTIM, SYSTEM] {
        for words in [&["find", "/run/m3"][..], &["find", "/var/../run/m3"], &["attach"]] {
            let said = scene("755", user, words);
            assert!(said == "ok" || said.starts_with("SKIP"), "user {user}, {words:?}: {said}");
        }
    }
    // A user namespace that maps neither root nor the daemon's user still knows the place.
    let said = scene("755", VICTIM, &["apart", "find", "/run/m3"]);
    assert!(said == "ok" || said.starts_with("SKIP"), "{said}");
    // Where others could have made it, the owner means nothing.
    for mode in ["1777", "777"] {
        let said = scene(mode, VICTIM, &["find", "/run/m3"]);
        assert!(said.starts_with(BAD_DIRECTORY) || said.starts_with("SKIP"), "{mode}: {said}");
    }
}

#[test]
fn an_unmapped_owner_is_nobody() {
    if !is_root("unmapped owner") {
        return;
    }
    let place = Place::new();
    // Seen from the namespace, root, the attacker and user 65534 have one number.
    for owner in [0, ATTACKER, 65_534] {
        let directory = place.folder(&format!("node-{owner}"), owner, 0o755);
        let _daemon = place.daemon(owner, &directory);
        for user in [VICTIM, 65_534] {
            let said = place.run(user, &["apart", "find", text(&directory)]);
            let refused = said.starts_with(BAD_DIRECTORY) || said.starts_with("SKIP");
            // User 65534 maps itself, and its number stays ambiguous.
            assert!(refused, "owner {owner}, user {user}: {said}");
        }
    }
    let own = place.folder("own", VICTIM, 0o755);
    let _daemon = place.daemon(VICTIM, &own);
    let said = place.run(VICTIM, &["apart", "find", text(&own)]);
    assert!(said == "ok" || said.starts_with("SKIP"), "the own user is known: {said}");
}

#[test]
fn a_daemon_in_a_user_namespace_refuses_users_that_it_cannot_tell_apart() {
    if !is_root("daemon in a namespace") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", SYSTEM, 0o755);
    let path = text(&directory);
    let words = ["apart", "daemon", "--runtime-dir", path, "--system", "--log-level", "error"];
    let mut daemon = Running::start(&mut place.role(SYSTEM, &words));
    let mut listens = false;
    m3ipc_users::until("the daemon listens or skips", || {
        listens = directory.join("m3d.sock").exists();
        listens || daemon.has_ended()
    });
    if !listens {
        println!("SKIP daemon in a namespace: {}", daemon.line());
        return;
    }
    assert_eq!(place.run(SYSTEM, &["hello", path]), "ok");
    for user in [VICTIM, ATTACKER] {
        let said = place.run(user, &["hello", path]);
        assert!(said.starts_with("-335 ") && said.contains("user namespace"), "{said}");
    }
}
