//! The protocol of systemd: a test in the place of the service manager.

use m3ipc_sys::Signal;
use m3ipc_test_fixture::{NodeFixture, program};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn the_service_manager_hears_of_each_step() {
    let node = NodeFixture::new("systemd");
    let folder = node.directory().with_extension("systemd");
    std::fs::create_dir_all(&folder).unwrap();
    let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let service = program("m3-tests-service");
    // The service itself must not inherit the socket.
    let check = "test -z \"$NOTIFY_SOCKET\" && exec \"$0\" serve";
    let file = format!(
        "vm = 'x'\n[service.front]\nrun = ['sh', '-c', '''{check}''', '{}']\n",
        service.display()
    );
    std::fs::write(folder.join("services.toml"), file).unwrap();
    let mut child = Command::new(program("m3-tests-supervise"))
        .arg("run")
        .arg(folder.join("services.toml"))
        .env("M3_RUNTIME_DIR", node.directory())
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .env("WATCHDOG_USEC", "200000")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut heard = String::new();
    let mut until = |wanted: &str| {
        let mut buffer = [0; 1024];
        while !heard.contains(wanted) {
            let bytes = socket.recv(&mut buffer).unwrap_or_else(|_| panic!("{wanted}: {heard}"));
            heard.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
            heard.push('\n');
        }
    };
    until("READY=1");
    until("STATUS=1 of 1 services ready, 0 failed");
    until("WATCHDOG=1");
    m3ipc_test_supervise::send(child.id().cast_signed(), Signal::HUP);
    until("RELOADING=1\nMONOTONIC_USEC=");
    m3ipc_test_supervise::send(child.id().cast_signed(), Signal::TERM);
    until("STOPPING=1");
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&folder).unwrap();
}
