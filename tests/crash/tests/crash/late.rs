//! A caller gives up a contact because its peer does not appear in time. The caller goes on, and
//! the late contact is valid.

use crate::case::Case;
use m3ipc_crash::{CrashFixture, Peer};
use m3ipc_sys::{HAS_PAUSE_POINTS, Signal};

/// A server that is bound and has not mapped its pages, another server, and a client that gave up
/// its call to the first.
fn setup(case: &Case<'_>) -> (Peer, Peer, Peer) {
    let late = case.paused("client.pages_mapped", "serve", &["20", "any", "0"]);
    late.await_paused();
    let mut other = case.peer("serve", &["1", "any", "0"]);
    other.bound();
    let mut client = case.peer("call-short", &["30", "20", "1"]);
    client.bound();
    client.go();
    client.expect("code -61");
    (late, other, client)
}

fn go_on(late: &mut Peer) {
    let process = m3ipc_sys::open_process(late.pid()).expect("it lives");
    m3ipc_sys::signal(process, Signal::CONT).expect("its own parent may");
    late.bound();
}

#[test]
fn a_contact_given_up_costs_nothing() {
    if !HAS_PAUSE_POINTS {
        return println!("SKIPPED: this build has no pause points");
    }
    m3ipc_test_fixture::watchdog(120);
    let fixture = CrashFixture::new("late");
    let case = Case::new(&fixture, "given-up");
    let (mut late, _other, mut client) = setup(&case);
    client.go();
    client.expect("answer 2");
    go_on(&mut late);
    client.go();
    client.expect("answer 2");
}

#[test]
fn a_late_contact_is_valid() {
    if !HAS_PAUSE_POINTS {
        return println!("SKIPPED: this build has no pause points");
    }
    m3ipc_test_fixture::watchdog(120);
    let fixture = CrashFixture::new("later");
    let case = Case::new(&fixture, "late");
    let (mut late, _other, mut client) = setup(&case);
    go_on(&mut late);
    // The contact is made, and the client has not read the answer.
    fixture.until("the link is made", || fixture.info().links == 1);
    client.go();
    client.expect("answer 2");
    client.go();
    client.expect("answer 2");
}
