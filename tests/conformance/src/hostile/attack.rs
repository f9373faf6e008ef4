//! The attacker: binds by raw frames, gets a link to the victim, and breaks every rule there is.
//!
//! Each round has a fresh endpoint and a fresh link, since a victim that sees
//! a broken rule looks at that link no more.

use crate::scripts::{self, Script};
use m3ipc_conformance::raw::{Ground, Raw, Reach};
use std::path::Path;

/// What an attacker holds in one round.
pub struct Round<'a> {
    pub directory: &'a Path,
    pub vm: i32,
    pub victim: i32,
    pub raw: Raw,
    pub ground: Ground,
    pub reach: Reach,
    pub until_ns: u64,
    pub dice: Dice,
}

impl Round<'_> {
    /// Whether the round still lasts.
    pub fn lasts(&self) -> bool {
        m3ipc_sys::monotonic_ns() < self.until_ns
    }
}

/// Numbers by chance, the same for the same seed.
#[derive(Clone, Copy)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }
}

/// The id of a VM by its name.
pub fn vm_id(directory: &Path, name: &str) -> i32 {
    let mut node = m3ipc::Node::find(directory).expect("the node runs");
    node.vm_named(name).expect("the VM may be seen").id()
}

/// All scripts, one after the other, again until the input ends.
pub fn run(directory: &str, vm: &str, victim: &str, round_ms: &str) {
    let directory = Path::new(directory);
    let vm = vm_id(directory, vm);
    let victim = victim.parse().expect("an address");
    let round_ns = round_ms.parse::<u64>().expect("milliseconds") * 1_000_000;
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    println!("scripts {}", scripts::ALL.len());
    // One line of input, one tour through all scripts.
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let mut rounds = 0;
        for (name, script) in scripts::ALL {
            if line != "all" && line != *name {
                continue;
            }
            seed = Dice::new(seed).next();
            rounds += u32::from(one(directory, vm, victim, round_ns, seed, *script));
        }
        println!("rounds {rounds}");
    }
}

fn one(directory: &Path, vm: i32, victim: i32, round_ns: u64, seed: u64, script: Script) -> bool {
    let begin = || {
        let mut raw = Raw::greeted(directory)?;
        let ground = raw.bind(vm, None)?;
        let reach = raw.contact(victim)?;
        Some((raw, ground, reach))
    };
    let Some((raw, ground, reach)) = begin() else {
        eprintln!("the attacker cannot reach its victim");
        return false;
    };
    let until_ns = m3ipc_sys::monotonic_ns() + round_ns;
    let mut round =
        Round { directory, vm, victim, raw, ground, reach, until_ns, dice: Dice::new(seed) };
    script(&mut round);
    true
}
