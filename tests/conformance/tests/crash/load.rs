//! Hundreds of random kills under load: eight pairs, numbered messages.

use m3ipc::VmConfig;
use m3ipc_conformance::crash::{Dice, Ground, Peer, Tally};
use std::time::Duration;

const PAIRS: usize = 8;
/// Numbers that one life of a client may use.
const NUMBERS_A_LIFE: u64 = 1_000_000;
/// Nobody there, taken and lost, not taken and lost.
const CODES: [i32; 3] = [-105, -108, -109];

fn kills() -> u32 {
    std::env::var("M3_CRASH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

struct Pairs<'a> {
    ground: &'a Ground,
    workers: Vec<Peer>,
    lives: u64,
    tally: Tally,
    strange: Vec<String>,
}

impl<'a> Pairs<'a> {
    fn new(ground: &'a Ground) -> Self {
        let mut pairs = Self {
            ground,
            workers: Vec::new(),
            lives: 0,
            tally: Tally::default(),
            strange: Vec::new(),
        };
        for at in 0..2 * PAIRS {
            let worker = pairs.worker(at);
            pairs.workers.push(worker);
        }
        pairs
    }

    /// Even ones are servers, and the odd one after each is its client.
    fn worker(&mut self, at: usize) -> Peer {
        let slot = (at / 2 + 1).to_string();
        let mut peer = if at.is_multiple_of(2) {
            self.ground.peer("load-server", &["load", &slot])
        } else {
            self.lives += 1;
            let first = (self.lives * NUMBERS_A_LIFE).to_string();
            self.ground.peer("load-client", &["load", &slot, &first, "300"])
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
        if !self.tally.note(&line) && line != "done" {
            self.strange.push(line);
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
    fn end(mut self) -> (Tally, Vec<String>) {
        for at in (1..2 * PAIRS).step_by(2) {
            self.workers[at].finish();
            for line in self.workers[at].rest() {
                self.note(line);
            }
            assert!(self.workers[at].ended_well(), "a client ends well");
        }
        for at in (0..2 * PAIRS).step_by(2) {
            self.workers[at].kill();
            for line in self.workers[at].rest() {
                self.note(line);
            }
        }
        (self.tally, self.strange)
    }
}

#[test]
fn random_kills_under_load_lose_and_double_nothing() {
    m3ipc_conformance::watchdog(300);
    let ground = Ground::new("load");
    ground.node().vm_init(&VmConfig::new("load")).expect("a VM");
    let mut dice = Dice::new();
    println!("seed {}", dice.seed());
    let mut pairs = Pairs::new(&ground);
    for _ in 0..kills() {
        std::thread::sleep(Duration::from_millis(dice.below(30)));
        pairs.kill(dice.index(2 * PAIRS));
        (0..2 * PAIRS).for_each(|at| pairs.collect(at));
    }
    let (tally, strange) = pairs.end();
    let verdict = tally.verdict(&CODES);
    println!(
        "T6 random kills: {} kills, {} answered, {} told a code, lost {}, doubled {}, hung 0, seed {}",
        kills(),
        verdict.answered,
        verdict.refused,
        verdict.lost,
        verdict.doubled,
        dice.seed()
    );
    assert_eq!(strange, [""; 0]);
    assert_eq!((verdict.lost, verdict.doubled), (0, 0), "{:?}", verdict.wrong);
    assert!(verdict.answered > 1_000, "there was a load");
    ground.until("the books balance", || ground.info().links == 0 && ground.info().endpoints == 0);
}
