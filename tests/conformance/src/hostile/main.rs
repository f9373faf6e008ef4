//! The processes of the hostile tests: `m3-tests-hostile USER ROLE ...`.
//!
//! USER 0 stays who it is; a role `apart-...` gets a user and a PID namespace of its own. Each role speaks by lines on its output and ends
//! with its input or its parent.

mod attack;
mod frames;
mod honest;
mod intruder;
mod party;
mod scripts;
mod seals;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [user, role, rest @ ..] = &words[..] else { return usage() };
    let Ok(user) = user.parse() else { return usage() };
    let dumpable = !role.ends_with("-hidden");
    let (role, apart) =
        role.strip_prefix("apart-").map_or((role.as_str(), false), |role| (role, true));
    if let Err(errno) = m3ipc_conformance::syscalls::become_user(user, dumpable) {
        eprintln!("m3-tests-hostile: cannot become user {user}: {errno}");
        return ExitCode::FAILURE;
    }
    let _ = m3ipc_sys::die_with_parent();
    if apart {
        if let Err(errno) = m3ipc_conformance::syscalls::move_apart() {
            eprintln!("m3-tests-hostile: no namespaces of its own: {errno}");
            return ExitCode::FAILURE;
        }
        let _ = m3ipc_sys::die_with_parent();
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (role, &rest[..]) {
        ("daemon", settings) => {
            let words = ["m3d"].iter().chain(settings);
            return m3ipc_daemon::run(&m3ipc_daemon::Args::parse_from(words));
        }
        ("pair", [directory, vm]) => honest::pair(directory, vm),
        ("named", [directory, vm, number]) => honest::named(directory, vm, number),
        ("party", [directory, vm, slot, bytes]) => party::run(directory, vm, slot, bytes),
        ("server", [directory, vm]) => honest::server(directory, vm),
        ("client", [directory, vm, server, plant]) => honest::client(directory, vm, server, plant),
        ("caller", [directory, vm]) => honest::caller(directory, vm),
        ("sitter" | "sitter-hidden", [directory, vm]) => honest::sitter(directory, vm),
        ("listener" | "listener-hidden", [directory, vm]) => honest::listener(directory, vm),
        ("attacker", [directory, vm, victim, round_ms]) => {
            attack::run(directory, vm, victim, round_ms)
        }
        ("intruder", [directory, vm, victim, listener, daemon]) => {
            intruder::run(directory, vm, victim, listener, daemon);
        }
        ("stranger", [directory, vm, victim]) => intruder::stranger(directory, vm, victim),
        ("tracer", [directory, vm]) => honest::tracer(directory, vm),
        ("seals", [directory, vm, victim, foreign @ ..]) => {
            seals::run(directory, vm, victim, foreign)
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: m3-tests-hostile USER ROLE ...; the tests start it");
    ExitCode::from(2)
}
