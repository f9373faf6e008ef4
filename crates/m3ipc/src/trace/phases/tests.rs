use super::*;
use m3ipc_abi::Address;
use m3ipc_link::{MessageKind, TraceWhat};
use proptest::prelude::*;

fn transfer() -> Transfer {
    Transfer {
        from: Address(29),
        to: Address(30),
        what: TraceWhat::Message(MessageKind::Request),
        sequence: 1,
        answers: 0,
        m_type: 0,
        bytes: 0,
        begun: 100,
        ready: 110,
        published: 113,
        wake: None,
        ran: None,
        looked: 150,
        found: 155,
        taken: 162,
        done: 170,
    }
}

#[test]
fn a_taker_that_is_awake_reads() {
    let phases = Phases::of(&transfer());
    let wanted = Phases {
        prepare: 10,
        deliver: 3,
        to_read: 37,
        find: 5,
        copy: 7,
        sender: 8,
        ..Phases::default()
    };
    assert_eq!(phases, wanted);
    assert_eq!((phases.switch(), phases.handle(), phases.total()), (37, 15, 70));
}

#[test]
fn a_taker_that_sleeps_is_woken_and_runs_first() {
    let phases = Phases::of(&Transfer { wake: Some((115, 130)), ran: Some(145), ..transfer() });
    assert_eq!((phases.to_wake, phases.to_run, phases.to_read), (2, 30, 5));
    assert_eq!(phases.total(), 70);
}

#[test]
fn who_was_awake_already_was_not_woken_for_it() {
    // The receiver ran before the message came, or found the message during the wake-up.
    for (wake, ran) in [(None, Some(90)), (Some((115, 130)), Some(90)), (Some((152, 160)), None)] {
        let phases = Phases::of(&Transfer { wake, ran, ..transfer() });
        assert_eq!((phases.to_wake, phases.to_run, phases.to_read), (0, 0, 37), "{wake:?} {ran:?}");
    }
}

#[test]
fn a_look_that_began_before_the_message_came_counts_from_then() {
    let phases = Phases::of(&Transfer { looked: 105, ..transfer() });
    assert_eq!((phases.to_read, phases.find, phases.total()), (0, 42, 70));
}

#[test]
fn a_stamp_that_came_late_takes_no_time_from_who_was_quicker() {
    let phases = Phases::of(&Transfer { published: 400, ..transfer() });
    assert_eq!((phases.deliver, phases.switch(), phases.total()), (45, 0, 70));
}

proptest! {
    /// Rising stamps must add up to the whole.
    #[test]
    fn phases_add_up(steps in prop::array::uniform9(0_u64..1_000), woken in any::<bool>()) {
        let mut now = 1_000;
        let mut next = |step: u64| { now += step; now };
        let [a, b, c, d, e, f, g, h, i] = steps;
        let begun = next(a);
        let (ready, published) = (next(b), next(c));
        let wake = woken.then_some((next(d), next(0)));
        let ran = woken.then_some(next(e));
        let transfer = Transfer {
            begun, ready, published, wake, ran,
            looked: next(f), found: next(g), taken: next(h), done: next(i),
            ..transfer()
        };
        prop_assert_eq!(Phases::of(&transfer).total(), transfer.done - begun);
    }
}
