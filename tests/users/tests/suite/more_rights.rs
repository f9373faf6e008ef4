//! Programs with more rights than their user: none of them trusts a daemon of that user.

use m3ipc_users::{ATTACKER, Place, SYSTEM, VICTIM, is_root, printed, role_of, set_mode};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

const BAD_DIRECTORY: &str = "-340 ";
const NO_DAEMON: &str = "-318 ";

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The words that give a role of root these rights, and what an error says about them.
fn all_rights() -> [(Vec<String>, &'static str); 5] {
    let words = |text: String| text.split(' ').map(str::to_owned).collect();
    [
        (words(format!("users 0 {VICTIM} 0")), "saved users differ"),
        (words(format!("users {VICTIM} {VICTIM} {SYSTEM}")), "saved users differ"),
        (words(format!("users {SYSTEM} {VICTIM} {VICTIM}")), "saved users differ"),
        (words(format!("groups {VICTIM} {SYSTEM} {SYSTEM} {VICTIM}")), "saved groups differ"),
        (words(format!("capabilities {VICTIM}")), "holds capabilities"),
    ]
}

fn with_rights(place: &Place, rights: &[String], words: &[&str]) -> String {
    let all: Vec<&str> = rights.iter().map(String::as_str).chain(words.iter().copied()).collect();
    place.run(0, &all)
}

#[test]
fn a_program_with_more_rights_than_its_user_trusts_root_alone() {
    if !is_root("more rights") {
        return;
    }
    let place = Place::new();
    let own = place.folder("own", VICTIM, 0o755);
    let _daemon = place.daemon(VICTIM, &own);
    assert_eq!(place.run(VICTIM, &["find", text(&own)]), "ok", "the plain user");
    let roots = place.folder("roots", 0, 0o755);
    let _roots_daemon = place.daemon(0, &roots);
    for (rights, why) in all_rights() {
        let said = with_rights(&place, &rights, &["find", text(&own)]);
        assert!(said.starts_with(BAD_DIRECTORY) && said.contains(why), "{rights:?}: {said}");
        assert!(said.contains("m3d --system"), "the next step: {said}");
        let said = with_rights(&place, &rights, &["find", text(&roots)]);
        assert_eq!(said, "ok", "{rights:?}: the daemon of root");
    }
}

#[test]
fn a_program_with_more_rights_than_its_user_uses_the_systems_node() {
    if !is_root("more rights at the system's node") {
        return;
    }
    let place = Place::new();
    for (rights, _) in all_rights() {
        let words = ["system", &SYSTEM.to_string(), "755", "0"].map(str::to_owned);
        let said = with_rights(
            &place,
            &words.into_iter().chain(rights.clone()).collect::<Vec<_>>(),
            &["find", "/run/m3"],
        );
        assert!(said == "ok" || said.starts_with("SKIP"), "{rights:?}: {said}");
    }
}

/// A copy of the role program that runs with the group of the system, for every starter.
fn set_group_id_copy(place: &Place, folder: &Path) -> PathBuf {
    let program = folder.join("setgid-role");
    std::fs::copy(place.program(), &program).expect("a copy");
    chown(&program, Some(0), Some(SYSTEM)).expect("root gives files away");
    set_mode(&program, 0o2755);
    program
}

/// A copy of the role program with a capability; `None` if the file system keeps none.
fn capable_copy(place: &Place, folder: &Path) -> Option<PathBuf> {
    const REVISION_2: u32 = 0x0200_0000;
    const EFFECTIVE: u32 = 1;
    const CAP_NET_BIND_SERVICE: u32 = 1 << 10;
    let program = folder.join("capable-role");
    std::fs::copy(place.program(), &program).expect("a copy");
    set_mode(&program, 0o755);
    let words = [REVISION_2 | EFFECTIVE, CAP_NET_BIND_SERVICE, 0, 0, 0];
    let value: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let name = "security.capability";
    match rustix::fs::setxattr(&program, name, &value, rustix::fs::XattrFlags::empty()) {
        Ok(()) => Some(program),
        Err(errno) => {
            println!("SKIP file capabilities: {errno}");
            None
        }
    }
}

#[test]
fn a_set_group_id_or_capable_program_trusts_and_starts_no_daemon_of_its_caller() {
    if !is_root("set-group-ID programs and file capabilities") {
        return;
    }
    let place = Place::new();
    let folder = place.folder("bin", 0, 0o755);
    let own = place.folder("own", ATTACKER, 0o755);
    let _daemon = place.daemon(ATTACKER, &own);
    let roots = place.folder("roots", 0, 0o755);
    let _roots_daemon = place.daemon(0, &roots);
    // A daemon beside the program, which a plain program would start.
    let mark = place.folder("marks", 0, 0o777).join("started");
    let script = format!("#!/bin/sh\necho started > {}\n", mark.display());
    std::fs::write(folder.join("m3d"), script).expect("a script");
    set_mode(&folder.join("m3d"), 0o755);
    let copies = [Some(set_group_id_copy(&place, &folder)), capable_copy(&place, &folder)];
    for program in copies.into_iter().flatten() {
        let run = |words: &[&str]| printed(&mut role_of(&program, ATTACKER, words));
        if run(&["rights"]) == "none" {
            println!("SKIP {}: the kernel ignores its rights here", program.display());
            continue;
        }
        let said = run(&["find", text(&own)]);
        assert!(said.starts_with(BAD_DIRECTORY), "{}: {said}", program.display());
        assert!(said.contains("file capabilities"), "{said}");
        assert_eq!(run(&["find", text(&roots)]), "ok");
        let absent = place.path().join("absent");
        let said = run(&["attach-at", text(&absent)]);
        assert!(said.starts_with(NO_DAEMON) && said.contains("starts none"), "{said}");
        assert!(!mark.exists() && !absent.exists(), "a daemon was started");
    }
    // A plain program starts it.
    let plain = folder.join("plain");
    std::fs::copy(place.program(), &plain).expect("a copy");
    let absent = place.path().join("absent");
    let said = printed(&mut role_of(&plain, ATTACKER, &["attach-at", text(&absent)]));
    assert!(mark.exists(), "{said}");
}
