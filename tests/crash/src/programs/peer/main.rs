//! A peer in a process of its own: `m3-tests-peer ROLE DIRECTORY VM ...`.
//!
//! Each role reports on its output what happens to it, a line each.

mod load;
mod role;
mod single;
mod soak;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [role, directory, rest @ ..] = words.as_slice() else { return usage() };
    let play: fn(&Path, &[&str]) = match *role {
        "call" => single::call,
        "serve" => single::serve,
        "leave" => single::leave,
        "call-short" => single::call_short,
        "watch" => single::watch,
        "unbind-other" => single::unbind_other,
        "intruder" => single::intruder,
        "make-vm" => single::make_vm,
        "load-client" => load::client,
        "load-server" => load::server,
        "soak" => soak::soak,
        "visitor" => load::visitor,
        _ => return usage(),
    };
    // No role outlives its test.
    let _ = m3ipc_sys::die_with_parent();
    play(Path::new(directory), rest);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: m3-tests-peer ROLE DIRECTORY VM ...; the tests start it");
    ExitCode::from(2)
}
