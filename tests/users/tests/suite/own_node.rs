//! The own node of a user: whom its daemon serves, and how long.

use m3ipc_users::{ATTACKER, Place, Running, VICTIM, is_root, set_mode};
use std::path::Path;
use std::process::Stdio;

#[test]
fn the_node_of_a_user_serves_that_user_and_root_only() {
    if !is_root("the node of a user") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", VICTIM, 0o700);
    let path = text(&directory);
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

#[test]
fn lines_that_another_user_causes_are_few() {
    if !is_root("lines that another user causes") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", VICTIM, 0o700);
    let path = text(&directory);
    // The starter of a daemon in the background sets this variable.
    let mut role = place.role(VICTIM, &["daemon", "--runtime-dir", path]);
    let _daemon = Running::start(role.env("M3_DETACHED", "1").stderr(Stdio::null()));
    let socket = directory.join("m3d.sock");
    m3ipc_users::until("the daemon listens", || socket.exists());
    set_mode(&directory, 0o755);
    set_mode(&socket, 0o666);
    for _ in 0..60 {
        assert!(place.run(ATTACKER, &["hello", path]).starts_with("-335 "));
    }
    let log = std::fs::read_to_string(directory.join("m3d.log")).expect("a log");
    let lines = log.lines().filter(|line| line.contains("a newcomer of another user")).count();
    // 16 at once, and one each 5 seconds.
    assert!((1..50).contains(&lines), "{lines} lines:\n{log}");
    assert!(log.contains("some are left out"), "{log}");
}

/// What a second daemon in a directory says.
fn refusal_of_daemon(place: &Place, user: u32, path: &str, flags: &[&str]) -> String {
    let output = place.role(user, &["daemon", "--runtime-dir", path]).args(flags).output();
    let output = output.expect("the role program starts");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_daemon_in_the_directory_of_another_user_says_whose_it_is() {
    if !is_root("a daemon in a directory of another user") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", VICTIM, 0o755);
    for user in [0, ATTACKER] {
        let said = refusal_of_daemon(&place, user, text(&directory), &[]);
        let whose = format!("belongs to user {VICTIM}, and a daemon of user {user}");
        assert!(said.contains(&whose) && said.contains("--runtime-dir"), "{said}");
    }
    let systems = place.folder("system", 0, 0o755);
    let _daemon = place.daemon(0, &systems);
    let said = refusal_of_daemon(&place, ATTACKER, text(&systems), &["--system"]);
    assert!(said.contains("belongs to user 0") && said.contains("use the node"), "{said}");
}

#[test]
fn a_process_outside_of_the_daemons_pid_namespace_learns_why_it_is_refused() {
    if !is_root("a PID namespace") {
        return;
    }
    let place = Place::new();
    if place.run(0, &["deeper", "directory"]).starts_with("SKIP") {
        println!("SKIP a PID namespace: the system refuses one");
        return;
    }
    let directory = place.path().join("node");
    let path = text(&directory);
    let words = ["deeper", "daemon", "--runtime-dir", path, "--log-level", "error"];
    let _daemon = Running::start(&mut place.role(0, &words));
    m3ipc_users::until("the daemon listens", || directory.join("m3d.sock").exists());
    for role in ["find", "attach-at", "hello"] {
        let said = place.run(0, &[role, path]);
        assert!(said.starts_with("-335 ") && said.contains("PID namespace"), "{role}: {said}");
    }
    // The number in its lock is 1, which is another process here.
    let said = refusal_of_daemon(&place, 0, path, &[]);
    assert!(said.contains("another daemon (pid ") && !said.contains("(pid 1)"), "{said}");
    let outside = place.path().join("outside");
    let _other = place.daemon_with(0, &outside, &[]);
    let words = ["deeper", "daemon", "--runtime-dir", text(&outside)];
    let output = place.role(0, &words).output().expect("the role program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("another daemon (in another PID namespace)"), "{said}");
}

/// A daemon as a library starts it, of the user of the test.
fn on_demand(place: &Place, directory: &Path) -> Running {
    place.daemon_with(0, directory, &["--idle-exit", "1000"])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_daemon_whose_directory_is_removed_leaves() {
    let place = Place::new();
    for what in ["node", "node/m3d.sock"] {
        let directory = place.path().join("node");
        let mut daemon = on_demand(&place, &directory);
        // A VM without members keeps no daemon that nobody can find.
        assert_eq!(place.run(0, &["create", text(&directory), "mine"]), "0");
        let removed = place.path().join(what);
        if removed.is_dir() {
            std::fs::remove_dir_all(&removed).expect("own files");
        } else {
            std::fs::remove_file(&removed).expect("own files");
        }
        m3ipc_users::until("the daemon leaves", || daemon.has_ended());
        assert!(!directory.exists(), "{what}");
    }
}

#[test]
fn a_daemon_that_leaves_removes_nothing_of_its_successor() {
    let place = Place::new();
    let directory = place.path().join("node");
    let mut former = on_demand(&place, &directory);
    std::fs::rename(&directory, place.path().join("moved")).expect("own files");
    let mut successor = on_demand(&place, &directory);
    m3ipc_users::until("the daemon leaves", || former.has_ended());
    assert_eq!(place.run(0, &["find", text(&directory)]), "ok");
    assert!(!successor.has_ended());
}

#[test]
fn a_daemon_whose_socket_is_removed_stays_until_its_last_member_leaves() {
    let place = Place::new();
    let directory = place.path().join("node");
    let mut daemon = on_demand(&place, &directory);
    assert_eq!(place.run(0, &["create", text(&directory), "mine"]), "0");
    let mut role = place.role(0, &["bind-child", text(&directory), "mine", "sleep"]);
    let mut parent = Running::start(&mut role);
    assert_eq!(parent.line(), "asleep");
    let child = m3ipc_sys::open_process(parent.line().parse().expect("a number")).expect("lives");
    assert!(parent.line().parse::<i32>().is_ok_and(|address| address > 0));
    std::fs::remove_file(directory.join("m3d.sock")).expect("own files");
    // Two looks of the daemon.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(!daemon.has_ended(), "it has a member");
    m3ipc_sys::signal(&child, m3ipc_sys::Signal::KILL).expect("a process of this test");
    m3ipc_users::until("the daemon leaves", || daemon.has_ended());
}
