//! T6: kill -9 at every state of client, server and daemon. Each survivor gets exactly its code or
//! its answer, the records of the daemon are removed, and nothing is left of the dead.

mod case;
mod clients;
mod daemons;
mod late;
mod load;
mod planted;
mod servers;

use case::Score;

#[test]
fn every_state_survives_a_kill() {
    if !m3ipc_sys::HAS_PAUSE_POINTS {
        println!("T6 kill points: SKIPPED, this build has no pause points (a release)");
        return;
    }
    m3ipc_test_fixture::watchdog(540);
    let mut score = Score::default();
    clients::run(&mut score);
    servers::run(&mut score);
    daemons::run(&mut score);
    println!("{}", score.line());
    assert!(score.is_clean(), "\n{}", score.faults.join("\n"));
}
