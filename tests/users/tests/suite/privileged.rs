//! Programs with more rights than their caller, and the program that becomes a daemon.

use m3ipc_users::{ATTACKER, Place, VICTIM, is_root, printed, role_of, set_mode};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the role program that runs as the victim for every starter.
fn set_user_id_copy(place: &Place, folder: &Path) -> PathBuf {
    let program = folder.join("setuid-role");
    std::fs::copy(place.program(), &program).expect("a copy");
    chown(&program, Some(VICTIM), Some(VICTIM)).expect("root gives files away");
    // After the change of owner, which clears the bit.
    set_mode(&program, 0o4755);
    program
}

/// A program that leaves a mark when it is started.
fn trap(place: &Place, path: &Path) -> PathBuf {
    let marks = place.folder("marks", 0, 0o777);
    let name = path.to_string_lossy().replace('/', "-");
    let mark = marks.join(name);
    let script = format!("#!/bin/sh\necho started > {}\n", mark.display());
    std::fs::write(path, script).expect("a script");
    set_mode(path, 0o755);
    mark
}

/// Whether the kernel honours the set-user-ID bit below /tmp.
fn bit_counts(program: &Path) -> bool {
    let mut command = role_of(program, ATTACKER, &["directory"]);
    let own = printed(command.env("M3_RUNTIME_DIR", "/nowhere"));
    let counts = own != "/nowhere" || !is_nosuid(program);
    if !counts {
        println!("SKIP set-user-ID programs: /tmp is mounted with nosuid");
    }
    counts
}

fn is_nosuid(path: &Path) -> bool {
    rustix::fs::statvfs(path)
        .is_ok_and(|stat| stat.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID))
}

fn with_orders(command: &mut Command, directory: &Path, daemon: &Path) -> String {
    command
        .env("M3_RUNTIME_DIR", directory)
        .env("XDG_RUNTIME_DIR", directory)
        .env("M3_DAEMON", daemon)
        .env("PATH", daemon.parent().expect("a folder"));
    printed(command)
}

#[test]
fn a_set_user_id_program_takes_no_orders_from_its_caller() {
    if !is_root("set-user-ID programs") {
        return;
    }
    let place = Place::new();
    let program = set_user_id_copy(&place, place.path());
    if !bit_counts(&program) {
        return;
    }
    let orders = place.folder("orders", ATTACKER, 0o755);
    let daemon = orders.join("m3d");
    let mark = trap(&place, &daemon);
    let other = trap(&place, &orders.join("m3"));
    let directory = with_orders(&mut role_of(&program, ATTACKER, &["directory"]), &orders, &daemon);
    let expected = [format!("/tmp/m3-{VICTIM}"), m3ipc::runtime::SYSTEM_DIRECTORY.to_owned()];
    assert!(expected.contains(&directory), "it went to {directory}");
    let said = with_orders(&mut role_of(&program, ATTACKER, &["attach"]), &orders, &daemon);
    assert!(!mark.exists() && !other.exists(), "a program of the caller ran: {said}");
    // The same orders count for an ordinary program.
    let said = with_orders(&mut place.role(ATTACKER, &["directory"]), &orders, &daemon);
    assert_eq!(Path::new(&said), orders);
}

#[test]
fn a_daemon_beside_a_program_is_started_only_where_nobody_else_can_put_one() {
    if !is_root("daemons beside programs") {
        return;
    }
    let place = Place::new();
    for (name, owner, mode, starts) in [
        ("own", VICTIM, 0o755, true),
        ("roots", 0, 0o755, true),
        ("foreign", ATTACKER, 0o755, false),
        ("shared", 0, 0o777, false),
        ("sticky", 0, 0o1777, false),
        ("group", VICTIM, 0o775, false),
    ] {
        let folder = place.folder(name, owner, mode);
        let program = folder.join("program");
        std::fs::copy(place.program(), &program).expect("a copy");
        let daemon = folder.join("m3d");
        let mark = trap(&place, &daemon);
        let node = place.folder(&format!("node-{name}"), VICTIM, 0o700);
        let mut command = role_of(&program, VICTIM, &["attach"]);
        let said = printed(command.env("M3_RUNTIME_DIR", &node));
        assert_eq!(mark.exists(), starts, "{name}: {said}");
        if !starts {
            assert!(said.starts_with("-318 ") && said.contains("M3_DAEMON"), "{name}: {said}");
            let repair = |whose| format!("`chmod {whose}-w {}`", folder.display());
            let reason = match name {
                "foreign" => format!("belongs to user {ATTACKER}"),
                "group" => repair("g"),
                _ => repair("go"),
            };
            assert!(said.contains(&reason), "{name}: {said}");
        }
    }
}

#[test]
fn no_daemon_above_the_program_or_on_the_search_path_is_started() {
    if !is_root("the search for a daemon") {
        return;
    }
    let place = Place::new();
    let folder = place.folder("bin", 0, 0o755);
    let program = folder.join("program");
    std::fs::copy(place.program(), &program).expect("a copy");
    let above = trap(&place, &place.path().join("m3d"));
    let path = place.folder("path", 0, 0o755);
    let on_path = [trap(&place, &path.join("m3d")), trap(&place, &path.join("m3"))];
    let node = place.folder("node", VICTIM, 0o700);
    let mut command = role_of(&program, VICTIM, &["attach"]);
    let said = printed(command.env("M3_RUNTIME_DIR", &node).env("PATH", &path));
    assert!(said.starts_with("-318 "), "{said}");
    assert!(!above.exists() && !on_path.iter().any(|mark| mark.exists()), "{said}");
    let said = printed(command.env("M3_DAEMON", "m3d").current_dir(&path));
    assert!(said.starts_with("-318 ") && said.contains("absolute"), "{said}");
    let absolute = command.env("M3_DAEMON", path.join("m3d"));
    let said = printed(absolute);
    assert!(on_path[0].exists(), "an absolute path counts: {said}");
}

#[test]
fn a_daemon_starts_from_a_directory_that_its_user_may_not_enter() {
    if !is_root("a directory of root") {
        return;
    }
    let place = Place::new();
    let folder = place.folder("bin", 0, 0o755);
    let started = trap(&place, &folder.join("m3d"));
    let node = place.folder("node", VICTIM, 0o700);
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={VICTIM}"), format!("--regid={VICTIM}")]);
    command.arg("--clear-groups").arg(place.program()).arg("attach");
    command.env_clear().current_dir(place.folder("closed", 0, 0o700));
    let said = printed(command.env("M3_RUNTIME_DIR", &node).env("M3_DAEMON", folder.join("m3d")));
    assert!(started.exists(), "{said}");
}

#[test]
fn the_group_of_one_user_counts_as_that_user() {
    if !is_root("groups of one user") {
        return;
    }
    let has_own_group = |user: &u32| m3ipc_sys::only_user_of_group(*user) == Some(*user);
    let Some(user) = (1..100).find(has_own_group) else {
        return println!("SKIP groups of one user: /etc/passwd and /etc/group have none");
    };
    let place = Place::new();
    // As umask 002 leaves them.
    let folder = place.folder("bin", user, 0o775);
    let program = folder.join("program");
    std::fs::copy(place.program(), &program).expect("a copy");
    let daemon = folder.join("m3d");
    let mark = trap(&place, &daemon);
    chown(&daemon, Some(user), Some(user)).expect("root gives files away");
    set_mode(&daemon, 0o775);
    let node = place.folder("node", user, 0o775);
    let mut command = role_of(&program, user, &["attach"]);
    let said = printed(command.env("M3_RUNTIME_DIR", &node));
    assert!(mark.exists(), "{said}");
    let _daemon = place.daemon(user, &node);
    let text = node.to_str().expect("a plain path");
    assert_eq!(place.run(user, &["find", text]), "ok");
    // The same group is others to anybody else.
    chown(&node, Some(VICTIM), None).expect("root gives files away");
    let said = place.run(VICTIM, &["find", text]);
    assert!(said.contains(&format!("`chmod g-w {text}`")), "{said}");
}
