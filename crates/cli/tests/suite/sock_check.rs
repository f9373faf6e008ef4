//! `m3 sock check` leaves no program behind.

use crate::fixture::{Fixture, send_signal};
use m3ipc_sys::Signal;
use std::os::unix::fs::PermissionsExt;

/// A program that never listens and never ends. It says which signals it got blocked.
const PROGRAM: &str = "#!/bin/sh
grep SigBlk /proc/self/status > blocked && cp blocked BASE
echo $$ > number && mv number BASE
exec sleep 1000
";
const LINE: &str = "TMPDIR=$PWD PATH=$PWD/bin:$PATH M3_SOCK_LIBRARY=$PWD/bin/redis-server \
                    exec m3 sock check --only 'redis -c 1'";

#[test]
fn a_signal_ends_the_programs_of_a_check() {
    for (signal, bit) in [(Signal::TERM, 1 << 14), (Signal::INT, 1 << 1)] {
        let fixture = Fixture::new();
        let programs = fixture.base().join("bin");
        std::fs::create_dir(&programs).unwrap();
        for name in ["redis-server", "redis-benchmark"] {
            let path = programs.join(name);
            std::fs::write(&path, PROGRAM.replace("BASE", fixture.base().to_str().unwrap()))
                .unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        }
        let check = fixture.shell(LINE);
        let number = fixture.base().join("number");
        fixture.wait_until("the server runs", || number.exists());
        let number = std::fs::read_to_string(number).unwrap().trim().parse().unwrap();
        let server = m3ipc_sys::open_process(number).unwrap();
        let blocked = std::fs::read_to_string(fixture.base().join("blocked")).unwrap();
        let blocked = blocked.trim_start_matches("SigBlk:").trim();
        assert_eq!(u64::from_str_radix(blocked, 16).unwrap() & bit, 0, "{blocked}");
        send_signal(check.pid().cast_signed(), signal);
        let ended = check.wait();
        // A server that is left behind ends with the test.
        let left = m3ipc_sys::signal(&server, Signal::KILL);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.err.contains("interrupted"), "{ended:?}");
        assert!(left.is_err(), "the server was left behind");
        let files = std::fs::read_dir(fixture.base()).unwrap();
        let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert!(names.all(|name| !name.starts_with("m3-sock-check")), "its directory is left");
    }
}
