//! One service under all kinds of ends.
#![allow(clippy::unwrap_used)]

use super::*;

const MS: Ns = 1_000_000;
const S: Ns = 1_000 * MS;

fn policy() -> Policy {
    Policy {
        restart: Restart::Always,
        on_request: false,
        backoff_ns: 10 * MS,
        backoff_max_ns: 35 * MS,
        stable_ns: 10 * S,
        restarts_max: 4,
        window_ns: 60 * S,
        start_limit_ns: 2 * S,
        stop_limit_ns: S,
        ping: None,
    }
}

fn ready_at(policy: Policy, now_ns: Ns) -> Machine {
    let mut machine = Machine::new(policy, now_ns);
    assert_eq!(machine.on(Event::Start, now_ns), [Action::Spawn]);
    assert!(machine.on(Event::Bound, now_ns).contains(&Action::BecameReady));
    machine
}

/// The pause after an end, until the spawn.
fn pause_ns(machine: &mut Machine, now_ns: Ns) -> Ns {
    let due_ns = machine.due_ns().unwrap();
    assert_eq!(machine.on(Event::Tick, due_ns - 1), []);
    assert_eq!(machine.on(Event::Tick, due_ns), []);
    assert_eq!(machine.on(Event::Start, due_ns), [Action::Spawn]);
    due_ns - now_ns
}

#[test]
fn the_pause_doubles_up_to_its_maximum_and_a_stable_run_resets_it() {
    let mut machine = ready_at(Policy { restarts_max: 9, ..policy() }, S);
    let mut pauses = Vec::new();
    for at_ns in [S, S, S, S] {
        machine.on(Event::Exited(Exit::Signal(9)), at_ns);
        pauses.push(pause_ns(&mut machine, at_ns) / MS);
        machine.on(Event::Bound, at_ns);
    }
    assert_eq!(pauses, [10, 20, 35, 35]);
    machine.on(Event::Exited(Exit::Signal(9)), 11 * S);
    assert_eq!(pause_ns(&mut machine, 11 * S) / MS, 10);
    assert_eq!(machine.restarts(), 5);
    assert_eq!(machine.reason(), Some("killed by signal 9 (SIGKILL)"));
}

#[test]
fn too_many_restarts_within_the_window_are_the_end_and_old_ones_do_not_count() {
    let mut machine = ready_at(policy(), S);
    for round in 0..20 {
        let now_ns = S + round * 20 * S;
        machine.on(Event::Exited(Exit::Code(1)), now_ns);
        assert_eq!(machine.state(), State::BackOff, "round {round}");
        pause_ns(&mut machine, now_ns);
        machine.on(Event::Bound, now_ns);
    }
    let now_ns = 1_000 * S;
    for _ in 0..4 {
        machine.on(Event::Exited(Exit::Code(1)), now_ns);
        pause_ns(&mut machine, now_ns);
    }
    let said = machine.on(Event::Exited(Exit::Code(1)), now_ns);
    assert_eq!((machine.state(), machine.due_ns()), (State::Failed, None));
    assert!(matches!(&said[..], [Action::Log(line)] if line.contains("given up after 4 restarts")));
    // A person starts it again.
    machine.on(Event::Restart("by request".into()), now_ns);
    assert_eq!(machine.on(Event::Start, now_ns), [Action::Spawn]);
}

#[test]
fn an_end_is_judged_by_the_configuration() {
    let ended = |restart, exit| {
        let mut machine = ready_at(Policy { restart, ..policy() }, S);
        machine.on(Event::Exited(exit), 2 * S);
        machine.state()
    };
    assert_eq!(ended(Restart::Always, Exit::Code(0)), State::BackOff);
    assert_eq!(ended(Restart::OnFailure, Exit::Code(0)), State::Ended);
    assert_eq!(ended(Restart::OnFailure, Exit::Signal(11)), State::BackOff);
    assert_eq!(ended(Restart::Never, Exit::Code(0)), State::Ended);
    assert_eq!(ended(Restart::Never, Exit::Code(3)), State::Failed);
}

#[test]
fn a_service_that_is_not_ready_in_time_is_killed_and_starts_again() {
    let mut machine = Machine::new(policy(), S);
    machine.on(Event::Start, S);
    assert_eq!(machine.on(Event::Tick, 3 * S - 1), []);
    assert!(machine.on(Event::Tick, 3 * S).contains(&Action::Kill));
    machine.on(Event::Exited(Exit::Signal(9)), 3 * S);
    assert_eq!(machine.state(), State::BackOff);
    assert_eq!(machine.reason(), Some("was not ready within 2 s"));
}

#[test]
fn an_unanswered_ping_is_a_hang_and_an_answered_one_is_not() {
    let ping = Some(Ping { every_ns: S, limit_ns: 3 * S });
    let mut machine = ready_at(Policy { ping, ..policy() }, S);
    assert_eq!(machine.on(Event::Tick, 2 * S), [Action::Ping]);
    assert!(machine.awaits_ping());
    machine.on(Event::PingTaken, 3 * S);
    assert_eq!((machine.awaits_ping(), machine.due_ns()), (false, Some(4 * S)));
    assert_eq!(machine.on(Event::Tick, 4 * S), [Action::Ping]);
    assert_eq!(machine.on(Event::Tick, 7 * S - 1), []);
    assert!(machine.on(Event::Tick, 7 * S).contains(&Action::Kill));
    machine.on(Event::Exited(Exit::Signal(9)), 7 * S);
    assert_eq!(machine.reason(), Some("hung: took no ping for 3 s"));
    assert!(machine.due_ns().is_some(), "it starts again");
}

#[test]
fn a_stop_is_sigterm_then_sigkill_and_no_restart() {
    let mut machine = ready_at(policy(), S);
    assert_eq!(machine.on(Event::Stop, 2 * S), [Action::Terminate]);
    assert!(machine.on(Event::Tick, 3 * S).contains(&Action::Kill));
    machine.on(Event::Exited(Exit::Signal(9)), 3 * S);
    assert_eq!((machine.state(), machine.due_ns()), (State::Stopped, None));
    assert_eq!(machine.restarts(), 0);
}

#[test]
fn a_stop_overrules_a_restart_that_is_under_way() {
    let mut machine = ready_at(policy(), S);
    assert!(machine.on(Event::Restart("new file".into()), S).contains(&Action::Terminate));
    assert!(machine.starts_again());
    machine.on(Event::Stop, S);
    machine.on(Event::Exited(Exit::Code(0)), S);
    assert_eq!(machine.state(), State::Stopped);
}

#[test]
fn a_request_starts_a_service_that_waits_for_it() {
    let mut machine = Machine::new(Policy { on_request: true, ..policy() }, S);
    assert_eq!(machine.on(Event::Start, S), [Action::HoldName]);
    assert_eq!(machine.on(Event::Requested, S), [Action::FreeName]);
    assert_eq!(machine.on(Event::Requested, S), []);
    assert_eq!(machine.on(Event::Start, S), [Action::Spawn]);
    assert_eq!(machine.restarts(), 0);
    machine.on(Event::Bound, S);
    machine.on(Event::Stop, S);
    machine.on(Event::Exited(Exit::Code(0)), S);
    assert_eq!(machine.on(Event::Start, S), [Action::HoldName]);
    assert_eq!(machine.on(Event::Stop, S), [Action::FreeName]);
}

#[test]
fn a_service_on_request_starts_again_without_a_request_until_it_is_stopped() {
    let mut machine = Machine::new(Policy { on_request: true, ..policy() }, S);
    for event in [Event::Start, Event::Requested, Event::Start, Event::Bound] {
        machine.on(event, S);
    }
    machine.on(Event::Exited(Exit::Signal(9)), S);
    pause_ns(&mut machine, S);
    machine.on(Event::Restart("new file".into()), 2 * S);
    machine.on(Event::Exited(Exit::Code(0)), 2 * S);
    assert!(machine.starts_again(), "{machine:?}");
    machine.on(Event::Stop, 2 * S);
    assert!(!machine.starts_again(), "{machine:?}");
    assert_eq!(machine.on(Event::Start, 2 * S), [Action::HoldName]);
}

#[test]
fn a_hang_or_a_lost_endpoint_after_a_stable_run_begins_a_new_row() {
    let ping = Some(Ping { every_ns: S, limit_ns: 3 * S });
    let policy = Policy { ping, stable_ns: 2 * S, ..policy() };
    let mut machine = ready_at(policy, S);
    for pause_ms in [10, 20] {
        machine.on(Event::Exited(Exit::Signal(9)), S);
        assert_eq!(pause_ns(&mut machine, S) / MS, pause_ms);
        machine.on(Event::Bound, S);
    }
    assert_eq!(machine.on(Event::Tick, 2 * S), [Action::Ping]);
    assert!(machine.on(Event::Tick, 5 * S).contains(&Action::Kill));
    machine.on(Event::Exited(Exit::Signal(9)), 5 * S);
    assert_eq!(pause_ns(&mut machine, 5 * S) / MS, 10);
    machine.on(Event::Bound, 6 * S);
    machine.on(Event::Lost, 9 * S);
    assert!(machine.on(Event::Tick, 11 * S).contains(&Action::Kill));
    machine.on(Event::Exited(Exit::Signal(9)), 11 * S);
    assert_eq!(pause_ns(&mut machine, 11 * S) / MS, 10);
}

#[test]
fn a_process_that_cannot_start_counts_as_a_failure() {
    let mut machine = Machine::new(policy(), S);
    machine.on(Event::Start, S);
    machine.on(Event::NotSpawned("no memory".into()), S);
    assert_eq!(machine.state(), State::BackOff);
    assert_eq!(machine.reason(), Some("did not start: no memory"));
}

/// Random events keep the invariants: one process at a time, and each end is answered.
#[test]
fn no_sequence_of_events_starts_a_second_process_or_forgets_one() {
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let ping = random.bool().then_some(Ping { every_ns: 20 * MS, limit_ns: 30 * MS });
        let on_request = random.bool();
        let mut machine = Machine::new(Policy { ping, on_request, ..policy() }, 0);
        let (mut now_ns, mut runs, mut holds) = (S, false, false);
        for step in 0..200 {
            now_ns += random.u64(0..50 * MS);
            let event = match random.u8(0..9) {
                0 => Event::Start,
                1 => Event::Bound,
                2 => Event::PingTaken,
                3 => Event::Restart("random".into()),
                4 if random.u8(0..4) == 0 => Event::Stop,
                5 if runs => Event::Exited(Exit::Code(random.i32(0..2))),
                6 => Event::Requested,
                _ => Event::Tick,
            };
            runs &= !matches!(event, Event::Exited(_));
            let context = format!("seed {seed}, step {step}, {event:?}, {machine:?}");
            for action in machine.on(event, now_ns) {
                match action {
                    Action::Spawn => assert!(!std::mem::replace(&mut runs, true), "{context}"),
                    Action::Terminate | Action::Kill => assert!(runs, "{context}"),
                    Action::HoldName => assert!(!std::mem::replace(&mut holds, true), "{context}"),
                    Action::FreeName => assert!(std::mem::replace(&mut holds, false), "{context}"),
                    _ => {}
                }
            }
            assert_eq!(machine.state().has_process(), runs, "{context}");
            assert_eq!(machine.state() == State::OnRequest, holds, "{context}");
            let waits = matches!(machine.state(), State::Starting | State::BackOff);
            assert!(!waits || machine.due_ns().is_some(), "{context}");
        }
    }
}

#[test]
fn a_service_whose_endpoint_ended_is_looked_up_again_within_the_start_limit() {
    let ping = Some(Ping { every_ns: 100 * MS, limit_ns: 300 * MS });
    let mut machine = ready_at(Policy { ping, ..policy() }, S);
    assert_eq!(machine.on(Event::Tick, S + 100 * MS), [Action::Ping]);
    assert!(!machine.is_ping_late(S + 399 * MS) && machine.is_ping_late(S + 400 * MS));
    assert!(matches!(machine.on(Event::Lost, S + 400 * MS)[..], [Action::Log(_)]));
    assert_eq!((machine.state(), machine.awaits_ping()), (State::Starting, false));
    assert_eq!(machine.on(Event::Lost, S + 400 * MS), [], "once");
    assert!(machine.on(Event::Bound, S + 500 * MS).contains(&Action::BecameReady));
    assert_eq!(machine.restarts(), 0);
    machine.on(Event::Lost, 2 * S);
    assert!(machine.on(Event::Tick, 4 * S).contains(&Action::Kill), "it never came back");
}

#[test]
fn a_service_that_forks_away_does_not_start_again_and_an_unknown_end_is_a_failure() {
    for restart in [Restart::Always, Restart::OnFailure, Restart::Never] {
        let mut machine = Machine::new(Policy { restart, ..policy() }, S);
        machine.on(Event::Start, S);
        machine.on(Event::Exited(Exit::ForkedAway(77)), S);
        assert_eq!(machine.state(), State::Failed);
        assert!(machine.reason().is_some_and(|why| why.contains("process 77")), "{machine:?}");
    }
    let mut machine = ready_at(Policy { restart: Restart::OnFailure, ..policy() }, S);
    machine.on(Event::Exited(Exit::Unknown), S);
    assert_eq!(machine.state(), State::BackOff);
    assert_eq!(machine.reason(), Some("ended; its exit code is unknown"));
}
