//! The server is killed in every state of an answer.

use crate::case::{Case, Score, links_of, resources_at_rest};
use m3ipc_crash::CrashFixture;
use m3ipc_test_fixture::resources::ProcessResources;

/// States of a server, the verb of the caller, and its outcome.
const STATES: [(&str, &str, &str); 10] = [
    ("sleeping", "sendrec", "code -109"),
    ("sleeping", "send", "code -109"),
    ("sleeping", "receive", "code -108"),
    ("server.before_take", "sendrec", "code -109"),
    ("server.before_take", "send", "code -109"),
    ("server.taken", "sendrec", "code -108"),
    ("server.taken", "send", "answer 0"),
    ("server.before_answer", "sendrec", "code -108"),
    ("server.answered", "sendrec", "answer 2"),
    ("server.woken", "sendrec", "answer 2"),
];

pub fn run(score: &mut Score) {
    let fixture = CrashFixture::new("servers");
    let rest = resources_at_rest(&fixture);
    for (state, verb, told) in STATES {
        score.attempt(&format!("{state}: its caller by {verb} is told {told}"), || {
            caller_is_told(&fixture, &rest, state, verb, told);
        });
    }
    score.attempt("server.taken: the next in the queue", || queue_is_told(&fixture, &rest));
}

fn caller_is_told(
    fixture: &CrashFixture,
    rest: &ProcessResources,
    state: &str,
    verb: &str,
    told: &str,
) {
    let case = Case::new(fixture, "server");
    let mut server = case.paused(state, "serve", &["1", "any", "0"]);
    let address = server.bound();
    let mut client = case.peer("call", &["30", "1", verb, "1"]);
    client.bound();
    let mut watcher = case.watcher("40", address);
    if state == "sleeping" {
        server.await_paused();
        client.go();
        case.until_waiting(client.pid());
    } else {
        client.go();
        server.await_paused();
    }
    let dead = server.pid();
    server.kill();
    client.expect(told);
    client.expect("done");
    watcher.expect("gone");
    case.until_gone(&[dead]);
    // The same slot serves again, and the same address.
    let mut server = case.peer("serve", &["1", "any", "0"]);
    case.still_serves("31", server.bound());
    fixture.until("the links of the dead are gone", || links_of(&server) == 0);
    server.kill();
    drop((client, watcher));
    case.end(rest);
}

fn queue_is_told(fixture: &CrashFixture, rest: &ProcessResources) {
    let case = Case::new(fixture, "queue");
    let mut server = case.paused("server.taken", "serve", &["1", "any", "0"]);
    server.bound();
    let mut taken = case.peer("call", &["30", "1", "sendrec", "1"]);
    taken.bound();
    taken.go();
    server.await_paused();
    let mut queued = Vec::new();
    for (slot, verb) in [("31", "sendrec"), ("32", "send"), ("33", "sendrec")] {
        let mut client = case.peer("call", &[slot, "1", verb, "1"]);
        client.bound();
        client.go();
        case.until_waiting(client.pid());
        queued.push(client);
    }
    server.kill();
    taken.expect("code -108");
    for client in &mut queued {
        client.expect("code -109");
        client.expect("done");
    }
    drop((taken, queued));
    case.end(rest);
}
