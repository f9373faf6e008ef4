//! Files of services: defaults, and errors with their lines.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::policy::{Ping, Restart};
use crate::spec::{ReadyBy, WhenNeedsRestart};

fn parse(text: &str) -> Result<Config, ConfigError> {
    let path = Path::new("/etc/services.toml");
    super::parse(text, path).map_err(|wrong| located(wrong, Path::new("services.toml"), text))
}

#[test]
fn two_lines_are_a_service_with_defaults() {
    let config = parse("vm = 'shop'\n[service.front]\nrun = ['./front', '-v']\n").unwrap();
    assert_eq!((config.slot, config.name.as_str(), config.mode), (2, "supervisor", 0o750));
    let front = &config.services["front"];
    assert_eq!(front.program.words, ["/etc/./front", "-v"]);
    assert_eq!(front.program.directory, Path::new("/etc"));
    assert_eq!((front.program.name.as_str(), front.program.ready), ("front", ReadyBy::Name));
    assert_eq!((front.policy.restart, front.policy.ping), (Restart::Always, None));
    assert_eq!((front.policy.backoff_ns, front.policy.restarts_max), (10_000_000, 10));
}

#[test]
fn every_key_has_its_effect() {
    let text = "\
vm = 'shop'
vm-life = 'supervisor'
vm-mode = '755'
[supervisor]
slot = 3
name = 'boss'
[service.disk]
run = ['disk']
slot = 5
ready = 'bind'
[service.front]
run = ['front']
name = 'web'
needs = ['disk']
when-needs-restart = 'restart'
start = 'request'
restart = 'on-failure'
backoff = '20ms'
backoff-max = '1m'
stable = '1h'
restarts = 3
within = '30s'
start-limit = '4s'
stop-limit = '0ms'
ping = '2s'
ping-limit = '500ms'
directory = 'data'
environment = { LEVEL = 'debug' }
";
    let config = parse(text).unwrap();
    assert!(config.vm_ends_with_supervisor);
    assert_eq!((config.slot, config.name.as_str(), config.mode), (3, "boss", 0o755));
    assert_eq!(config.services["disk"].program.slot, Some(5));
    assert_eq!(config.services["disk"].program.words, ["disk"]);
    let front = &config.services["front"];
    assert_eq!(
        (front.program.name.as_str(), front.needs.as_slice()),
        ("web", &["disk".into()][..])
    );
    assert_eq!(front.when_needs_restart, WhenNeedsRestart::Restart);
    assert_eq!(front.program.directory, Path::new("/etc/data"));
    assert_eq!(front.program.environment["LEVEL"], "debug");
    let policy = &front.policy;
    assert!(policy.on_request && policy.restart == Restart::OnFailure);
    assert_eq!((policy.backoff_ns, policy.backoff_max_ns), (20_000_000, 60_000_000_000));
    assert_eq!((policy.stable_ns, policy.restarts_max), (3_600_000_000_000, 3));
    assert_eq!((policy.window_ns, policy.start_limit_ns), (30_000_000_000, 4_000_000_000));
    assert_eq!(policy.stop_limit_ns, 0);
    let ping = Ping { every_ns: 2_000_000_000, limit_ns: 500_000_000 };
    assert_eq!(policy.ping, Some(ping));
}

#[test]
fn an_error_has_a_line_and_a_next_step() {
    let cases = [
        ("[service.a]\nrun = ['a']\nneds = []", "needs", 5),
        ("[service.a]\nrun = ['a']\nneeds = ['b']", "is no service; write one of: a", 5),
        ("[service.a]\nrun = []", "names no program", 4),
        ("[service.a]\nrun = ['a']\nbackoff = 'soon'", "no duration", 5),
        ("[service.a]\nrun = ['a']\nrestart = 'maybe'", "on-failure", 5),
        ("[service.a]\nrun = ['a']\nwithin = '0s'", "within is 0", 3),
        ("[service.a]\nrun = ['a']\nping-limit = '1s'", "add `ping", 3),
        ("[service.a]\nrun = ['a']\nslot = 2", "the supervisor has the slot 2", 5),
        ("[service.a]\nrun = ['a']\nname = 'supervisor'", "the supervisor has the name", 5),
        ("[service.a]\nrun = ['a']\nready = 'bind'\nstart = 'request'", "ready = \"name\"", 3),
        ("[service.a]\nrun = ['a']\n[service.b]\nrun = ['b']\nname = 'a'", "a has the name", 7),
        (
            "[service.a]\nrun = ['a']\nneeds = ['b']\n[service.b]\nrun = ['b']\nneeds = ['a']",
            "need each other: a, b",
            5,
        ),
        ("[service.'a b']\nrun = ['a']", "is no name of a service", 3),
    ];
    for (table, part, line) in cases {
        let error = parse(&format!("vm = 'shop'\n\n{table}\n")).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("services.toml:{line}: ")), "{table}: {text}");
        assert!(text.contains(part) && text.contains("; "), "{table}: {text}");
    }
    assert!(parse("vm = 'shop'\n").unwrap_err().to_string().contains("has no service"));
    assert!(parse("vm = ''\n").unwrap_err().to_string().starts_with("services.toml:1: "));
    assert!(parse("vm = \n").unwrap_err().to_string().starts_with("services.toml:1: "));
    let absent = read(Path::new("/nonexistent/services.toml")).unwrap_err();
    assert!(absent.to_string().contains("check the path"), "{absent}");
}
