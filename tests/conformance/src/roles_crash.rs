//! Roles of the crash tests. Each says on its output, a line each, what happens to it.

mod load;
mod single;
mod soak;

use m3ipc::{Node, Vm};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

/// Plays the role that the arguments name, if it is one of these.
pub fn run(arguments: &[String]) -> Option<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [role, directory, rest @ ..] = words.as_slice() else { return None };
    let play: fn(&Path, &[&str]) = match *role {
        "call" => single::call,
        "serve" => single::serve,
        "leave" => single::leave,
        "hurry" => single::hurry,
        "watch" => single::watch,
        "stranger" => single::stranger,
        "make-vm" => single::make_vm,
        "load-client" => load::client,
        "load-server" => load::server,
        "soak" => soak::soak,
        "visitor" => load::visitor,
        _ => return None,
    };
    // No role outlives its test.
    let _ = m3ipc_sys::die_with_parent();
    play(Path::new(directory), rest);
    Some(ExitCode::SUCCESS)
}

/// Says a line, whole and at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

/// Waits for a line; `false` at the end of input.
fn told_to_go() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0)
}

/// Whether the test has closed the input: what this role does is to end.
fn told_to_end() -> bool {
    use std::os::fd::AsFd;
    m3ipc_sys::wait_readable(&[std::io::stdin().as_fd()], 0) == Ok(true)
}

/// The VM of this name; its daemon is started where a killed one left it.
fn vm(directory: &Path, vm: &str) -> Vm {
    // The daemon may be killed at any moment: then there is another at the next try.
    for _ in 0..100 {
        if let Ok(found) = Node::attach_at(directory).and_then(|mut node| node.vm_named(vm)) {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the VM {vm} of the test is not found");
}

fn number(word: &str) -> i32 {
    word.parse().expect("a number in the arguments")
}
