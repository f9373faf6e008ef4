//! The daemon may signal all processes. Nobody can make it end a process with rights of others.

use m3ipc_users::{ATTACKER, Place, Running, VICTIM, is_root, role_of, set_mode};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

const DENIED: &str = "-335";

/// A copy of the role program that runs as `user` for every starter.
fn set_user_id_copy(place: &Place, user: u32) -> PathBuf {
    let program = place.path().join(format!("as-{user}"));
    std::fs::copy(place.program(), &program).expect("a copy");
    chown(&program, Some(user), Some(user)).expect("root gives files away");
    set_mode(&program, 0o4755);
    program
}

fn node(place: &Place) -> (PathBuf, Running) {
    let directory = place.folder("node", 0, 0o755);
    let daemon = place.daemon(0, &directory);
    (directory, daemon)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn the_first_process_is_bound_by_nobody() {
    if !is_root("the first process") {
        return;
    }
    let place = Place::new();
    let (directory, _daemon) = node(&place);
    assert_eq!(place.run(0, &["create", text(&directory), "mine"]), "0");
    assert_eq!(place.run(0, &["bind-other", text(&directory), "mine", "1"]), DENIED);
}

#[test]
fn a_process_with_rights_of_two_users_is_bound_by_neither() {
    if !is_root("rights of two users") {
        return;
    }
    let place = Place::new();
    let (directory, _daemon) = node(&place);
    let program = set_user_id_copy(&place, VICTIM);
    let mut mixed = Running::start(&mut role_of(&program, ATTACKER, &["sleep"]));
    assert_eq!(mixed.line(), "asleep");
    let pid = mixed.pid().to_string();
    for user in [VICTIM, ATTACKER] {
        let name = format!("of-{user}");
        let created = place.run(user, &["create", text(&directory), &name]);
        assert!(created.parse::<i32>().is_ok_and(|id| id >= 0), "{created}");
        let bound = place.run(user, &["bind-other", text(&directory), &name, &pid]);
        assert_eq!(bound, DENIED, "user {user}");
    }
}

#[test]
fn a_member_that_became_root_outlives_its_vm() {
    if !is_root("a member that becomes root") {
        return;
    }
    let place = Place::new();
    let (directory, _daemon) = node(&place);
    let program = set_user_id_copy(&place, 0);
    let mark = place.path().join("mark");
    let words = ["exec-after", text(&mark), text(&program)];
    let mut member = Running::start(&mut place.role(VICTIM, &words));
    assert_eq!(member.line(), "waiting");
    let pid = member.pid().to_string();
    assert_eq!(place.run(VICTIM, &["create", text(&directory), "mine"]), "0");
    let bound = place.run(VICTIM, &["bind-other", text(&directory), "mine", &pid]);
    assert!(bound.parse::<i32>().is_ok_and(|address| address > 0), "{bound}");
    std::fs::write(&mark, "").expect("a mark");
    assert_eq!(member.line(), "asleep", "it has become root");
    assert_eq!(place.run(VICTIM, &["end", text(&directory), "mine"]), "0");
    assert!(!member.has_ended(), "the daemon ended a process of root");
}
