//! Hostile members: `m3-tests-hostile USER ROLE ...`.
//!
//! USER 0 keeps the user. A role `apart-...` gets a user and a PID namespace of its own. Each role
//! speaks by lines, and ends with its input or with its parent.

mod area_member;
mod attack;
mod frames;
mod greedy;
mod intruder;
mod limited;
mod measured;
mod round;
mod scripts;
mod seals;
mod syscalls;

use m3ipc_test_fixture::enter_role;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [user, role, rest @ ..] = &words[..] else { return usage() };
    let role = match enter_role(user, role) {
        Ok(role) => role,
        Err(why) => {
            eprintln!("m3-tests-hostile: {why}");
            return ExitCode::FAILURE;
        }
    };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (role, &rest[..]) {
        ("attacker", [directory, vm, victim, round_ms]) => {
            attack::run(directory, vm, victim, round_ms)
        }
        ("intruder", [directory, vm, victim, listener, daemon]) => {
            intruder::run(directory, vm, victim, listener, daemon);
        }
        ("stranger", [directory, vm, victim]) => intruder::stranger(directory, vm, victim),
        ("unbinder", [directory, vm, address]) => intruder::unbind(directory, vm, address),
        ("seals", [directory, vm, victim, foreign @ ..]) => {
            seals::run(directory, vm, victim, foreign)
        }
        ("area-attacker", [directory, vm, slot, area, victim, keeper]) => {
            area_member::attack(directory, vm, slot, area, [victim, keeper])
        }
        ("stand-in-attacker", [directory, vm, slot, area, stand_in, other, pair]) => {
            area_member::attack_stand_in(directory, vm, [slot, area, stand_in, other, pair]);
        }
        ("area-hider", [directory, vm, slot, area, victim]) => {
            area_member::hide(directory, vm, slot, area, victim)
        }
        ("area-scribbler", [directory, vm, slot, area, victim]) => {
            area_member::scribble(directory, vm, slot, area, victim);
        }
        ("area-unmapped", [directory, vm, slot, victim]) => {
            area_member::give_unmapped(directory, vm, slot, victim);
        }
        ("area-writer", [directory, vm, slot, area]) => {
            area_member::write_everywhere(directory, vm, slot, area);
        }
        ("greedy", [directory, vm, attack, rest @ ..]) => {
            greedy::run(directory, vm, attack, rest);
        }
        ("flood", [directory, vm, attack, rest @ ..]) => {
            greedy::flood(directory, vm, attack, rest);
        }
        ("limited", [directory, vm, kind]) => limited::serve(directory, vm, kind),
        ("answerer", [directory, vm, cpu]) => measured::answer(directory, vm, cpu),
        ("caller", [directory, vm, cpu, to]) => measured::call(directory, vm, cpu, to),
        ("neighbour", []) => measured::be_busy(),
        ("binder", [directory, vm, cpu]) => measured::bind(directory, vm, cpu),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: m3-tests-hostile USER ROLE ...; the tests start it");
    ExitCode::from(2)
}
