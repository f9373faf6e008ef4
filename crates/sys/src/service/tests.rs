use super::*;
use std::io::Read;

/// What a shell that starts as a service says, and its descriptor.
fn said(script: &str, directory: &str) -> (String, ServiceProcess) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let words = ["-c", script].map(OsStr::new);
    let variables = [("M3_TEST", OsStr::new("given"))];
    let shell = Path::new("/bin/sh");
    let service =
        start_service(shell, &words, &variables, Path::new(directory), writer.as_fd()).unwrap();
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    (text, service)
}

#[test]
fn a_service_has_its_streams_alone_and_another_parent() {
    let _kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).unwrap();
    let inherited = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 100).unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    let script = "(cd /proc/$$/fd; echo *; readlink 0 1; readlink ../cwd; echo $M3_TEST
        grep -E '^(PPid|Umask|SigBlk|SigIgn|SigCgt)' ../status; cut -d' ' -f6 ../stat) >&2";
    let (text, service) = said(script, "/");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[..5], ["0 1 2", "/dev/null", "/dev/null", "/", "given"], "{text}");
    assert!(lines.contains(&"Umask:\t0022"), "{text}");
    for mask in ["SigBlk", "SigIgn"] {
        assert!(lines.contains(&format!("{mask}:\t0000000000000000").as_str()), "{text}");
    }
    assert!(!lines.contains(&format!("PPid:\t{}", crate::process_id()).as_str()), "{text}");
    assert_eq!(*lines.last().unwrap(), service.pid.to_string(), "a session of its own: {text}");
    // No wait of this process for its children takes it, of whatever kind.
    let found = rustix::process::Pid::from_raw(service.pid);
    let waited = rustix::process::waitpid(found, rustix::process::WaitOptions::NOHANG);
    assert_eq!(waited.unwrap_err(), Errno::CHILD);
    while !crate::wait_readable(&[service.process.as_fd()], u64::MAX).unwrap_or(false) {}
}

#[test]
fn what_cannot_start_is_an_error_of_the_start() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let start = |program: &str, directory: &str| {
        let null = null.as_fd();
        start_service(Path::new(program), &[], &[], Path::new(directory), null).unwrap_err()
    };
    assert_eq!(start("/no/such/program", "/"), Errno::NOENT);
    assert_eq!(start("/dev/null", "/"), Errno::ACCESS);
    assert_eq!(start("/bin/true", "/no/such/directory"), Errno::NOENT);
    assert_eq!(start("/bin/\0true", "/"), Errno::INVAL);
}

#[test]
fn the_variables_of_a_service_of_systemd_stay_with_it() {
    let names: Vec<OsString> = environment(&[("PATH", OsStr::new("/x"))]);
    assert!(names.contains(&OsString::from("PATH=/x")));
    assert_eq!(names.iter().filter(|it| it.as_bytes().starts_with(b"PATH=")).count(), 1);
    assert!(!names.iter().any(|it| it.as_bytes().starts_with(b"NOTIFY_SOCKET=")));
}

#[test]
fn a_process_whose_descriptor_found_no_room_is_no_error_number() {
    let (ours, theirs) = crate::packet_pair().unwrap();
    // A part that finds no room cuts a packet as a descriptor does.
    let flags = rustix::net::SendFlags::empty();
    rustix::net::send(&theirs, &[70_000_i32.to_ne_bytes(); 2].concat(), flags).unwrap();
    assert_eq!(read_report(&ours).unwrap_err(), Errno::MFILE);
}
