//! The client is killed in every state of a call.

use crate::case::{Case, Score, links_of, resources_at_rest};
use m3ipc_crash::{CrashFixture, Peer};
use m3ipc_test_fixture::resources::ProcessResources;
use m3ipc_test_fixture::signals;

/// States of a client, and the time that its server takes for a request, in milliseconds.
const STATES: [(&str, &str); 10] = [
    ("client.pages_mapped", "0"),
    ("client.before_contact", "0"),
    ("client.contact_requested", "0"),
    ("client.link_mapped", "0"),
    ("client.posted", "0"),
    ("client.woken", "0"),
    ("sleeping", "50"),
    ("client.taken", "300"),
    ("client.answer_seen", "0"),
    ("client.before_unbind", "0"),
];

pub fn run(score: &mut Score) {
    let fixture = CrashFixture::new("clients");
    let rest = resources_at_rest(&fixture);
    for (state, delay_ms) in STATES {
        for verb in ["sendrec", "send"] {
            // A send has no answer and does not wait for one.
            let has = verb == "sendrec" || !["client.taken", "client.answer_seen"].contains(&state);
            if has {
                score.attempt(&format!("{state} {verb} to a server that takes any"), || {
                    served_by_any(&fixture, &rest, state, verb, delay_ms);
                });
            }
        }
        // A server that awaits exactly this client makes the contact itself when the client binds.
        if ![
            "client.pages_mapped",
            "client.before_contact",
            "client.contact_requested",
            "client.link_mapped",
        ]
        .contains(&state)
        {
            score.attempt(&format!("{state} to a server that awaits it alone"), || {
                awaited(&fixture, &rest, state, delay_ms);
            });
        }
    }
}

fn served_by_any(
    fixture: &CrashFixture,
    rest: &ProcessResources,
    state: &str,
    verb: &str,
    delay_ms: &str,
) {
    let case = Case::new(fixture, "any");
    let mut server = case.peer("serve", &["1", "any", delay_ms]);
    let address = server.bound();
    let mut client = case.paused(state, "call", &["30", "1", verb, "1"]);
    let mut watcher = None;
    if state != "client.pages_mapped" {
        let bound = client.bound();
        watcher = Some(case.watcher("40", bound));
        // A send sleeps only if its receiver does not come at once.
        let held = state == "sleeping" && verb == "send";
        if held {
            signals::stop(server.pid());
        }
        client.go();
        if held {
            client.await_paused();
            signals::resume(server.pid());
        }
    }
    client.await_paused();
    let dead = client.pid();
    client.kill();
    if let Some(mut watcher) = watcher {
        watcher.expect("gone");
    }
    case.until_gone(&[dead]);
    assert!(!server.has_ended(), "the server lives: {:?}", server.said());
    case.still_serves("31", address);
    check_takes(&mut server, 2);
    // The survivor unmaps the links to the dead, also while it sleeps.
    fixture.until("the server lets go of the links of the dead", || links_of(&server) == 0);
    server.kill();
    case.end(rest);
}

/// Checks that the server took each request at most once, and saw no error.
fn check_takes(server: &mut Peer, at_most: usize) {
    let said = server.said();
    let takes = said.iter().filter(|line| line.starts_with("took")).count();
    assert!(takes <= at_most, "a request was taken twice: {said:?}");
    assert!(
        !said.iter().any(|line| line.starts_with("code")),
        "the server was told of an error: {said:?}"
    );
}

fn awaited(fixture: &CrashFixture, rest: &ProcessResources, state: &str, delay_ms: &str) {
    let case = Case::new(fixture, "one");
    let mut client = case.paused(state, "call", &["30", "1", "sendrec", "1"]);
    let bound = client.bound();
    let mut server = case.peer("serve", &["1", &bound.to_string(), delay_ms]);
    server.bound();
    case.until_waiting(server.pid());
    client.go();
    client.await_paused();
    client.kill();
    let said = server.rest();
    let takes = said.iter().filter(|line| line.starts_with("took")).count();
    assert!(takes <= 1, "a request was taken twice: {said:?}");
    assert_eq!(said.last().map(String::as_str), Some("code -108"), "{}: {said:?}", server.ending());
    case.end(rest);
}
