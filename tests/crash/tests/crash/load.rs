//! Hundreds of random kills under load: eight pairs, numbered messages.

use m3ipc::VmConfig;
use m3ipc_crash::{CallLog, CrashFixture, Peer};
use m3ipc_test_fixture::Rng;
use std::time::Duration;

const PAIRS: usize = 8;
/// The numbers that one client process may use.
const NUMBERS_PER_CLIENT: u64 = 1_000_000;
/// No server there; server died with the request; server died before it took the request.
const CODES: [i32; 3] = [-105, -108, -109];

fn kills() -> u32 {
    std::env::var("M3_CRASH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

struct Pairs<'a> {
    fixture: &'a CrashFixture,
    workers: Vec<Peer>,
    clients_started: u64,
    log: CallLog,
    unknown: Vec<String>,
}

impl<'a> Pairs<'a> {
    fn new(fixture: &'a CrashFixture) -> Self {
        let mut pairs = Self {
            fixture,
            workers: Vec::new(),
            clients_started: 0,
            log: CallLog::default(),
            unknown: Vec::new(),
        };
        for at in 0..2 * PAIRS {
            let worker = pairs.worker(at);
            pairs.workers.push(worker);
        }
        pairs
    }

    /// Even numbers are servers, and the odd number after each is its client.
    fn worker(&mut self, at: usize) -> Peer {
        let slot = (at / 2 + 1).to_string();
        let mut peer = if at.is_multiple_of(2) {
            self.fixture.peer("load-server", &["load", &slot])
        } else {
            self.clients_started += 1;
            let first = (self.clients_started * NUMBERS_PER_CLIENT).to_string();
            self.fixture.peer("load-client", &["load", &slot, &first, "300"])
        };
        peer.bound();
        peer
    }

    fn collect(&mut self, at: usize) {
        for line in self.workers[at].said() {
            self.note(line);
        }
    }

    fn note(&mut self, line: String) {
        if !self.log.note(&line) && line != "done" {
            self.unknown.push(line);
        }
    }

    fn kill(&mut self, at: usize) {
        self.workers[at].kill();
        for line in self.workers[at].rest() {
            self.note(line);
        }
        self.workers[at] = self.worker(at);
    }

    /// Ends the clients: each still gets its answer or its code.
    fn end(mut self) -> (CallLog, Vec<String>) {
        for at in (1..2 * PAIRS).step_by(2) {
            self.workers[at].finish();
            for line in self.workers[at].rest() {
                self.note(line);
            }
            assert!(self.workers[at].succeeded(), "a client succeeds");
        }
        for at in (0..2 * PAIRS).step_by(2) {
            self.workers[at].kill();
            for line in self.workers[at].rest() {
                self.note(line);
            }
        }
        (self.log, self.unknown)
    }
}

#[test]
fn random_kills_under_load_lose_and_double_nothing() {
    m3ipc_test_fixture::watchdog(300);
    let fixture = CrashFixture::new("load");
    fixture.node().vm_init(&VmConfig::new("load")).expect("a VM");
    let mut rng = Rng::new();
    println!("seed {}", rng.seed());
    let mut pairs = Pairs::new(&fixture);
    for _ in 0..kills() {
        std::thread::sleep(Duration::from_millis(rng.below(30)));
        pairs.kill(rng.index(2 * PAIRS));
        (0..2 * PAIRS).for_each(|at| pairs.collect(at));
    }
    let (log, unknown) = pairs.end();
    let verdict = log.verdict(&CODES);
    println!(
        "T6 random kills: {} kills, {} answered, {} told a code, lost {}, doubled {}, hung 0, \
         seed {}",
        kills(),
        verdict.answered,
        verdict.refused,
        verdict.lost,
        verdict.doubled,
        rng.seed()
    );
    assert_eq!(unknown, [""; 0]);
    assert_eq!((verdict.lost, verdict.doubled), (0, 0), "{:?}", verdict.wrong);
    assert!(verdict.answered > 1_000, "the load was too small");
    fixture.until("all records are removed", || {
        fixture.info().links == 0 && fixture.info().endpoints == 0
    });
}
