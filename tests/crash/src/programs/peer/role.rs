//! What the roles share: lines from and to the test, and the VM that the arguments name.

use m3ipc::{Node, Vm};
use std::io::{BufRead, Write};
use std::path::Path;

/// Writes a line at once.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

/// Waits for a line; `false` at the end of input.
pub fn told_to_go() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0)
}

/// Whether the test has closed the input and the role should end.
pub fn told_to_end() -> bool {
    use std::os::fd::AsFd;
    m3ipc_sys::wait_readable(&[std::io::stdin().as_fd()], 0) == Ok(true)
}

/// The VM of this name; starts a daemon in place of a killed one.
pub fn vm(directory: &Path, vm: &str) -> Vm {
    // The daemon may be killed at any moment; then the next attempt finds another.
    for _ in 0..100 {
        if let Ok(found) = Node::attach_at(directory).and_then(|mut node| node.vm_named(vm)) {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the VM {vm} of the test is not found");
}

pub fn number(word: &str) -> i32 {
    word.parse().expect("a number in the arguments")
}
