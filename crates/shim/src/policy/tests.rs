use super::*;

#[test]
fn an_empty_line_allows_everything() {
    let policy = Policy::read("").unwrap();
    assert!(
        policy.allows_program("redis-server", 0)
            && policy.allows_ports(1, 2)
            && policy.allows_path(None)
    );
    assert!(!policy.asks_for_names());
    assert_eq!(policy.settings, Settings::default());
}

#[test]
fn rules_that_allow_exclude_the_rest_and_rules_that_deny_come_first() {
    let policy = Policy::read(
        "ports=6379,8000-8999 !ports=8080 programs=redis,nginx !users=5 paths=/run/,@a",
    )
    .unwrap();
    assert!(policy.allows_ports(6379, 50_000) && policy.allows_ports(50_000, 8999));
    assert!(!policy.allows_ports(50_000, 50_001) && !policy.allows_ports(8080, 6379));
    assert!(policy.allows_program("redis", 0) && !policy.allows_program("redis", 5));
    assert!(!policy.allows_program("redis-server", 0));
    assert!(policy.allows_path(Some(b"/run/x")) && policy.allows_path(Some(b"@abc")));
    assert!(!policy.allows_path(Some(b"/tmp/x")) && !policy.allows_path(None));
    assert!(policy.asks_for_names());
}

#[test]
fn settings_are_applied_and_bad_words_are_named() {
    let policy =
        Policy::read("ring=64 after=0 spin=0 wakeup=always same=1 bulk=0 rest=0 message=0")
            .unwrap();
    let wanted = Settings {
        ring_bytes: 64,
        upgrade_after_calls: 0,
        always_wake: true,
        spin_ns: 0,
        same_process: true,
        pins_bulk: false,
        rests: false,
        by_message: false,
        on: true,
    };
    assert_eq!(policy.settings, wanted);
    assert!(!Policy::read("uring=pass").unwrap().refuse_uring);
    for bad in [
        "ring=65",
        "ring=32",
        "spin=-1",
        "on=yes",
        "ports=9-1",
        "ports=x",
        "users=root",
        "what=1",
        "word",
    ] {
        assert_eq!(Policy::read(bad).unwrap_err(), BadWord(bad), "{bad}");
    }
}

#[test]
fn off_is_off() {
    assert!(!Policy::read("on=0").unwrap().allows_program("x", 0));
}

#[test]
fn the_library_loads_into_named_children_alone() {
    let none = Policy::read("after=0").unwrap();
    assert!(!none.has_children() && !none.loads_into("sh", 0));
    let some = Policy::read("children=sh,make !programs=make users=7").unwrap();
    assert!(some.has_children() && some.loads_into("sh", 7));
    assert!(!some.loads_into("sh", 0), "another user");
    assert!(!some.loads_into("make", 7) && !some.loads_into("redis", 7));
    let all = Policy::read("children=*").unwrap();
    assert!(all.loads_into("redis", 0));
    assert!(!Policy::read("on=0 children=*").unwrap().has_children());
}
