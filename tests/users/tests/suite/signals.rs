//! The daemon may signal all processes. Nobody can make it end a process with rights of others, or
//! a process that did not agree to be bound.

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
fn a_process_is_bound_only_with_its_consent() {
    if !is_root("consent") {
        return;
    }
    let place = Place::new();
    let (directory, _daemon) = node(&place);
    let path = text(&directory);
    assert_eq!(place.run(VICTIM, &["create", path, "mine"]), "0");
    assert_eq!(place.run(0, &["create", path, "roots"]), "1");
    assert_eq!(place.run(ATTACKER, &["create", path, "theirs"]), "2");
    let mut busy = Running::start(&mut place.role(VICTIM, &["sleep"]));
    assert_eq!(busy.line(), "asleep");
    let pid = busy.pid().to_string();
    // Neither its own user nor root binds a process that did not agree.
    assert_eq!(place.run(VICTIM, &["bind-other", path, "mine", &pid]), DENIED);
    assert_eq!(place.run(0, &["bind-other", path, "roots", &pid]), DENIED);
    for (user, vm) in [(VICTIM, "mine"), (0, "roots")] {
        let mut role = place.role(VICTIM, &["wait-bind"]);
        let mut waiting = Running::start(role.env("M3_RUNTIME_DIR", &directory));
        assert_eq!(waiting.line(), "waiting");
        let pid = waiting.pid().to_string();
        // Its wait is no consent to another user.
        assert_eq!(place.run(ATTACKER, &["bind-other", path, "theirs", &pid]), DENIED);
        let mut bound = String::new();
        m3ipc_users::until("the process waits", || {
            bound = place.run(user, &["bind-other", path, vm, &pid]);
            bound != DENIED
        });
        assert_eq!(waiting.line(), bound, "{vm}");
    }
}

#[test]
fn a_child_is_bound_by_its_parent_only() {
    if !is_root("children") {
        return;
    }
    let place = Place::new();
    let (directory, _daemon) = node(&place);
    let path = text(&directory);
    assert_eq!(place.run(VICTIM, &["create", path, "mine"]), "0");
    let words = ["bind-child", path, "mine", "sleep"];
    let mut parent = Running::start(&mut place.role(VICTIM, &words));
    assert_eq!(parent.line(), "asleep");
    let (child, bound) = (parent.line(), parent.line());
    assert!(bound.parse::<i32>().is_ok_and(|address| address > 0), "{bound}");
    // The child of a child is nobody's child here.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "\"$0\" sleep & echo $! && wait", text(&place.program())]);
    let mut shell = Running::start(&mut shell);
    let lines = [shell.line(), shell.line()];
    let grandchild = lines.iter().find(|line| *line != "asleep").expect("a number");
    assert_eq!(place.run(0, &["create", path, "roots"]), "1");
    assert_eq!(place.run(0, &["bind-other", path, "roots", grandchild]), DENIED);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(grandchild.parse().expect("a number")).expect("a process"),
        rustix::process::Signal::KILL,
    )
    .expect("a process of this test");
    drop((parent, child));
}

#[test]
fn a_thread_of_the_kernel_is_bound_by_nobody() {
    if !is_root("threads of the kernel") {
        return;
    }
    let place = Place::new();
    let (directory, _daemon) = node(&place);
    assert_eq!(place.run(0, &["create", text(&directory), "mine"]), "0");
    let is_kernels = |pid: &i32| {
        m3ipc_sys::open_process(*pid)
            .and_then(|fd| m3ipc_sys::process_facts(*pid, fd))
            .is_ok_and(|facts| facts.is_kernels)
    };
    let Some(pid) = (2..100).find(is_kernels) else {
        return println!("SKIP threads of the kernel: this PID namespace has none");
    };
    let bound = place.run(0, &["bind-other", text(&directory), "mine", &pid.to_string()]);
    assert_eq!(bound, DENIED);
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
    assert_eq!(place.run(VICTIM, &["create", text(&directory), "mine"]), "0");
    let member = ["exec-after", text(&mark), text(&program)];
    let words = ["bind-child", text(&directory), "mine"].into_iter().chain(member);
    let words: Vec<&str> = words.collect();
    let mut parent = Running::start(&mut place.role(VICTIM, &words));
    assert_eq!(parent.line(), "waiting");
    let pid: i32 = parent.line().parse().expect("the number of the child");
    let bound = parent.line();
    assert!(bound.parse::<i32>().is_ok_and(|address| address > 0), "{bound}");
    let process = m3ipc_sys::open_process(pid).expect("the child lives");
    std::fs::write(&mark, "").expect("a mark");
    assert_eq!(parent.line(), "asleep", "it has become root");
    assert_eq!(place.run(VICTIM, &["end", text(&directory), "mine"]), "0");
    let ended = m3ipc_sys::wait_readable(&[std::os::fd::AsFd::as_fd(&process)], 0);
    assert_eq!(ended, Ok(false), "the daemon ended a process of root");
    m3ipc_sys::signal(&process, m3ipc_sys::Signal::KILL).expect("a process of this test");
}
