//! Several services: order, restarts of what others need, new files.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::policy::{Exit, Ping, Policy, Restart};
use crate::spec::{Program, ReadyBy};

const S: Ns = 1_000_000_000;

fn spec(needs: &[&str]) -> Spec {
    Spec {
        program: Program {
            words: vec!["program".into()],
            directory: "/".into(),
            environment: BTreeMap::new(),
            slot: None,
            name: "name".into(),
            ready: ReadyBy::Name,
        },
        policy: Policy {
            restart: Restart::Always,
            on_request: false,
            backoff_ns: 1,
            backoff_max_ns: 1,
            stable_ns: S,
            restarts_max: 100,
            window_ns: S,
            start_limit_ns: S,
            stop_limit_ns: S,
            ping: None,
        },
        needs: needs.iter().map(|&need| need.into()).collect(),
        when_needs_restart: WhenNeedsRestart::Inform,
    }
}

/// A chain: front needs cache, and cache needs disk.
fn chain() -> BTreeMap<String, Spec> {
    BTreeMap::from([
        ("cache".into(), spec(&["disk"])),
        ("disk".into(), spec(&[])),
        ("front".into(), spec(&["cache"])),
    ])
}

fn named<'a>(orders: &'a [Order], wanted: &Action) -> Vec<&'a str> {
    orders.iter().filter(|(_, action)| action == wanted).map(|(name, _)| name.as_str()).collect()
}

fn states(fleet: &Fleet) -> Vec<State> {
    fleet.members().values().map(|member| member.machine.state()).collect()
}

/// A chain whose services are ready.
fn ready() -> Fleet {
    ready_with(100)
}

/// The same, with so many restarts at most.
fn ready_with(restarts_max: u32) -> Fleet {
    let mut file = chain();
    file.values_mut().for_each(|spec| spec.policy.restarts_max = restarts_max);
    let mut fleet = Fleet::default();
    fleet.load(file, 0);
    for name in ["disk", "cache", "front"] {
        fleet.on(name, Event::Bound, 0);
    }
    assert!(fleet.is_up());
    fleet
}

#[test]
fn services_start_after_what_they_need_and_stop_before_it() {
    let mut fleet = Fleet::default();
    let (changes, orders) = fleet.load(chain(), 0);
    assert_eq!(changes.added, ["cache", "disk", "front"]);
    assert_eq!(named(&orders, &Action::Spawn), ["disk"]);
    assert_eq!(named(&fleet.on("disk", Event::Bound, 0), &Action::Spawn), ["cache"]);
    assert_eq!(named(&fleet.on("cache", Event::Bound, 0), &Action::Spawn), ["front"]);
    assert!(!fleet.is_up());
    fleet.on("front", Event::Bound, 0);
    assert!(fleet.is_up());

    assert_eq!(named(&fleet.unwant_all(0), &Action::Terminate), ["front"]);
    let ended = |fleet: &mut Fleet, name| {
        let orders = fleet.on(name, Event::Exited(Exit::Code(0)), 0);
        named(&orders, &Action::Terminate).join(",")
    };
    assert_eq!(ended(&mut fleet, "front"), "cache");
    assert_eq!(ended(&mut fleet, "cache"), "disk");
    assert!(!fleet.is_at_rest());
    assert_eq!(ended(&mut fleet, "disk"), "");
    assert!(fleet.is_at_rest());
}

/// The service may have taken its ping since the look.
#[test]
fn a_ping_that_became_late_after_the_look_is_no_hang_yet() {
    let mut one = spec(&[]);
    one.policy.ping = Some(Ping { every_ns: 2, limit_ns: 10 });
    let mut fleet = Fleet::default();
    fleet.load(BTreeMap::from([("one".into(), one)]), 0);
    fleet.on("one", Event::Bound, 0);
    // The limit of the ping runs from the time at which it is sent.
    assert_eq!(named(&fleet.tick(2, 5), &Action::Ping), ["one"]);
    assert!(fleet.tick(14, S).is_empty());
    assert_eq!(named(&fleet.tick(15, S), &Action::Kill), ["one"]);
}

#[test]
fn a_restart_informs_restarts_or_spares_those_that_need_the_service() {
    for (when, wanted) in [
        (WhenNeedsRestart::Inform, Some(Action::Inform("disk".into()))),
        (WhenNeedsRestart::Restart, Some(Action::Terminate)),
        (WhenNeedsRestart::Ignore, None),
    ] {
        let mut fleet = ready();
        fleet.members.get_mut("cache").unwrap().spec.when_needs_restart = when;
        let orders = fleet.on("disk", Event::Exited(Exit::Signal(9)), 1);
        assert!(named(&orders, &Action::Terminate).is_empty(), "others go on meanwhile");
        assert_eq!(named(&fleet.tick(2, 2), &Action::Spawn), ["disk"]);
        let orders = fleet.on("disk", Event::Bound, 3);
        let told: Vec<&Action> =
            orders.iter().filter(|(name, _)| name == "cache").map(|(_, it)| it).collect();
        match wanted {
            Some(wanted) => assert!(told.contains(&&wanted), "{told:?}"),
            None => assert!(told.is_empty(), "{told:?}"),
        }
        assert!(!orders.iter().any(|(name, _)| name == "front"));
    }
}

#[test]
fn a_stop_by_request_stops_what_needs_it_and_a_start_starts_what_it_needs() {
    let mut fleet = ready();
    assert_eq!(named(&fleet.unwant("cache", 0), &Action::Terminate), ["front"]);
    fleet.on("front", Event::Exited(Exit::Code(0)), 0);
    fleet.on("cache", Event::Exited(Exit::Code(0)), 0);
    assert_eq!(states(&fleet), [State::Stopped, State::Ready, State::Stopped]);
    assert_eq!(named(&fleet.want("front", 0), &Action::Spawn), ["cache"]);
    assert_eq!(named(&fleet.on("cache", Event::Bound, 0), &Action::Spawn), ["front"]);
}

#[test]
fn a_new_file_adds_removes_restarts_and_adjusts() {
    let mut fleet = ready();
    let mut file = chain();
    file.remove("front");
    file.insert("log".into(), spec(&[]));
    file.get_mut("disk").unwrap().program.words.push("-v".into());
    file.get_mut("cache").unwrap().policy.restarts_max = 7;
    let (changes, orders) = fleet.load(file.clone(), 0);
    assert_eq!((changes.added, changes.removed), (vec!["log".into()], vec!["front".into()]));
    assert_eq!((changes.restarted, changes.adjusted), (vec!["disk".into()], vec!["cache".into()]));
    assert_eq!(named(&orders, &Action::Terminate), ["disk", "front"]);
    assert_eq!(named(&orders, &Action::Spawn), ["log"]);
    // The new description counts from the next process on.
    assert_eq!(fleet.get("disk").unwrap().spec.program.words.len(), 1);
    let orders = fleet.on("disk", Event::Exited(Exit::Code(0)), 0);
    assert_eq!(named(&orders, &Action::Spawn), ["disk"]);
    assert_eq!(fleet.get("disk").unwrap().spec.program.words.len(), 2);
    fleet.on("front", Event::Exited(Exit::Code(0)), 0);
    assert!(fleet.get("front").is_none());
    assert_eq!(fleet.load(file, 0).0, Changes::default());
}

#[test]
fn a_service_that_is_removed_and_comes_back_runs_again() {
    let mut fleet = ready();
    let mut file = chain();
    file.remove("front");
    fleet.load(file, 0);
    assert_eq!(fleet.load(chain(), 0).0.added, ["front"]);
    let orders = fleet.on("front", Event::Exited(Exit::Code(0)), 0);
    assert_eq!(named(&orders, &Action::Spawn), ["front"]);
}

#[test]
fn a_service_starts_again_after_what_it_needs() {
    let killed = || Event::Exited(Exit::Signal(9));
    // Its pause is over.
    let mut fleet = ready();
    fleet.on("cache", killed(), 1);
    fleet.on("disk", killed(), 1);
    assert_eq!(named(&fleet.tick(2, 2), &Action::Spawn), ["disk"]);
    assert_eq!(fleet.get("cache").unwrap().machine.state(), State::Stopped);
    assert!(!fleet.is_up());
    assert_eq!(named(&fleet.on("disk", Event::Bound, 3), &Action::Spawn), ["cache"]);
    assert_eq!(fleet.get("cache").unwrap().machine.restarts(), 1);
    // Its process has ended by request.
    let mut fleet = ready();
    assert_eq!(named(&fleet.restart("cache", 1), &Action::Terminate), ["cache"]);
    fleet.on("disk", killed(), 1);
    assert!(named(&fleet.on("cache", killed(), 1), &Action::Spawn).is_empty());
    assert_eq!(named(&fleet.tick(2, 2), &Action::Spawn), ["disk"]);
    assert_eq!(named(&fleet.on("disk", Event::Bound, 3), &Action::Spawn), ["cache"]);
    // Both were given up.
    for request in [Fleet::want, Fleet::restart] {
        let mut fleet = ready_with(0);
        fleet.on("cache", killed(), 1);
        fleet.on("disk", killed(), 1);
        assert_eq!(states(&fleet), [State::Failed, State::Failed, State::Ready]);
        assert_eq!(named(&request(&mut fleet, "cache", 2), &Action::Spawn), ["disk"]);
        assert_eq!(named(&fleet.on("disk", Event::Bound, 3), &Action::Spawn), ["cache"]);
    }
}

#[test]
fn a_first_request_waits_for_what_the_service_needs_until_a_stop() {
    for is_stopped in [false, true] {
        let mut file = chain();
        file.get_mut("cache").unwrap().policy.on_request = true;
        file.remove("front");
        let mut fleet = Fleet::default();
        fleet.load(file, 0);
        assert_eq!(named(&fleet.on("disk", Event::Bound, 0), &Action::HoldName), ["cache"]);
        fleet.on("disk", Event::Exited(Exit::Signal(9)), 1);
        let orders = fleet.on("cache", Event::Requested, 1);
        assert_eq!(named(&orders, &Action::FreeName), ["cache"]);
        assert!(named(&orders, &Action::Spawn).is_empty());
        if is_stopped {
            fleet.unwant("cache", 1);
            fleet.want("cache", 1);
        }
        assert_eq!(named(&fleet.tick(2, 2), &Action::Spawn), ["disk"]);
        let wanted = if is_stopped { Action::HoldName } else { Action::Spawn };
        assert_eq!(named(&fleet.on("disk", Event::Bound, 3), &wanted), ["cache"]);
    }
}

#[test]
fn a_restart_by_request_forgets_earlier_failures() {
    let fails_after = |forget: fn(&mut Fleet) -> Vec<Order>| {
        let mut fleet = ready_with(1);
        fleet.on("front", Event::Exited(Exit::Signal(9)), 1);
        fleet.tick(2, 2);
        fleet.on("front", Event::Bound, 2);
        forget(&mut fleet);
        fleet.on("front", Event::Exited(Exit::Signal(9)), 2);
        fleet.on("front", Event::Bound, 2);
        fleet.on("front", Event::Exited(Exit::Signal(9)), 3);
        fleet.get("front").unwrap().machine.state()
    };
    assert_eq!(fails_after(|fleet| fleet.restart("front", 2)), State::BackOff);
    let by_need = |fleet: &mut Fleet| fleet.on("front", Event::Restart("a need".into()), 2);
    assert_eq!(fails_after(by_need), State::Failed);
}

#[test]
fn a_service_whose_need_has_failed_or_ended_does_not_hold_up_the_others() {
    for (restart, code) in [(Restart::Always, 1), (Restart::OnFailure, 0)] {
        let mut file = chain();
        let disk = file.get_mut("disk").unwrap();
        (disk.policy.restart, disk.policy.restarts_max) = (restart, 0);
        file.insert("log".into(), spec(&[]));
        let mut fleet = Fleet::default();
        fleet.load(file, 0);
        fleet.on("disk", Event::Exited(Exit::Code(code)), 1);
        assert!(!fleet.is_up(), "log may still come");
        fleet.on("log", Event::Bound, 1);
        assert_eq!(fleet.get("front").unwrap().machine.state(), State::Stopped);
        assert!(fleet.is_up());
        fleet.want("disk", 2);
        assert!(!fleet.is_up(), "disk may come now, and the others after it");
    }
}

/// Random events and files: order and rest hold at each step, and an end always comes.
#[test]
fn no_sequence_breaks_the_order_and_all_services_can_be_ended() {
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut fleet, mut now_ns) = (Fleet::default(), 1);
        let mut pids = BTreeMap::<String, ()>::new();
        let obey = |pids: &mut BTreeMap<String, ()>, orders: Vec<Order>, fleet: &Fleet| {
            for (name, action) in orders {
                if action == Action::Spawn {
                    assert!(pids.insert(name.clone(), ()).is_none(), "seed {seed}: {name} twice");
                    let member = fleet.get(&name);
                    assert!(member.is_some_and(|it| fleet.has_needs(it)), "seed {seed}: {name}");
                }
            }
        };
        let orders = fleet.load(chain(), now_ns).1;
        obey(&mut pids, orders, &fleet);
        for _ in 0..200 {
            now_ns += random.u64(1..S / 4);
            let name = ["cache", "disk", "front"][random.usize(0..3)];
            let orders = match random.u8(0..8) {
                0 if pids.remove(name).is_some() => {
                    fleet.on(name, Event::Exited(Exit::Signal(9)), now_ns)
                }
                1 | 2 => fleet.on(name, Event::Bound, now_ns),
                3 => fleet.want(name, now_ns),
                4 if random.bool() => fleet.unwant(name, now_ns),
                5 => {
                    let mut file = chain();
                    if random.bool() {
                        file.remove("front");
                    }
                    file.get_mut("disk").unwrap().program.words.push(random.bool().to_string());
                    fleet.load(file, now_ns).1
                }
                _ => fleet.tick(now_ns, now_ns),
            };
            obey(&mut pids, orders, &fleet);
        }
        let orders = fleet.unwant_all(now_ns);
        obey(&mut pids, orders, &fleet);
        for _ in 0..20 {
            now_ns += 2 * S;
            let orders = fleet.tick(now_ns, now_ns);
            obey(&mut pids, orders, &fleet);
            for name in std::mem::take(&mut pids).into_keys() {
                let orders = fleet.on(&name, Event::Exited(Exit::Signal(9)), now_ns);
                obey(&mut pids, orders, &fleet);
            }
        }
        assert!(fleet.is_at_rest() && pids.is_empty(), "seed {seed}: {:?}", states(&fleet));
    }
}
