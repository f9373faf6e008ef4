//! The attacker: binds by raw frames, gets a link to the victim, and breaks every rule.
//!
//! Each round has a fresh endpoint and a fresh link: a victim that sees a broken rule does not look
//! at that link again.

use crate::round::{Round, vm_id};
use crate::scripts::{self, Script};
use m3ipc_test_fixture::Rng;
use m3ipc_test_fixture::raw::RawMember;
use std::path::Path;

/// All scripts, one after the other, again until the input ends.
pub fn run(directory: &str, vm: &str, victim: &str, round_ms: &str) {
    let directory = Path::new(directory);
    let vm = vm_id(directory, vm);
    let victim = victim.parse().expect("an address");
    let round_ns = round_ms.parse::<u64>().expect("milliseconds") * 1_000_000;
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    println!("scripts {}", scripts::ALL.len());
    // Each line of input asks for one pass through all scripts.
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let mut rounds = 0;
        for (name, script) in scripts::ALL {
            if line != "all" && line != *name {
                continue;
            }
            seed = Rng::of(seed).number();
            rounds += u32::from(one(directory, vm, victim, round_ns, seed, *script));
        }
        println!("rounds {rounds}");
    }
}

fn one(directory: &Path, vm: i32, victim: i32, round_ns: u64, seed: u64, script: Script) -> bool {
    let begin = || {
        let mut raw = RawMember::greeted(directory)?;
        let own = raw.bind(vm, None)?;
        let peer = raw.contact(victim)?;
        Some((raw, own, peer))
    };
    let Some((raw, own, peer)) = begin() else {
        eprintln!("the attacker cannot peer its victim");
        return false;
    };
    let until_ns = m3ipc_sys::monotonic_ns() + round_ns;
    let mut round = Round { directory, vm, victim, raw, own, peer, until_ns, rng: Rng::of(seed) };
    script(&mut round);
    true
}
