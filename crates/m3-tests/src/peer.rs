//! A peer in a process of its own, told what to do by its arguments.

fn main() {
    eprintln!("usage: m3-tests-peer ROLE DIRECTORY VM ...");
    std::process::exit(2);
}
