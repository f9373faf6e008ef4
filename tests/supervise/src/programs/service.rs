//! A service of the tests. Its first argument says how it behaves:
//!
//! | argument | behaviour |
//! |---|---|
//! | `serve` | binds its name, and answers each request with its process number |
//! | `slot` | takes the endpoint that was bound for it, and does the same |
//! | `count` | as `serve`, and appends a line to the file `told` for each notification |
//! | `deaf` | as `serve`, and ignores SIGTERM |
//! | `exit N` | exits with code N |
//! | `never` | runs and binds nothing |
//! | `orphan` | as `serve`, and leaves an orphan that ends after a moment, and one that stays |
//!
//! A request `hang` makes it sleep for ever, a request `die` makes it abort.
#![forbid(unsafe_code)]

use m3ipc::{Call, Endpoint, Node, Source, Timeout};
use std::error::Error;
use std::io::Write;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["exit", code] => std::process::exit(code.parse()?),
        ["never"] => loop {
            std::thread::park();
        },
        ["slot"] => serve(Endpoint::wait_for_bind(Timeout::from_ms(10_000))?, false),
        ["deaf"] => {
            let _blocked = m3ipc_sys::SignalSet::block(&[m3ipc_sys::Signal::TERM])?;
            serve(named()?, false)
        }
        ["orphan"] => {
            // The shell ends first. One orphan stays in the group, the other one ends by itself.
            let line = "sleep 1000 & sleep 0.1 & echo $! > short; exit 0";
            Command::new("sh").args(["-c", line]).status()?;
            serve(named()?, false)
        }
        ["count"] => serve(named()?, true),
        _ => serve(named()?, false),
    }
}

fn named() -> Result<Endpoint, Box<dyn Error>> {
    let vm = Node::attach()?.vm_named(&std::env::var("M3_VM_NAME")?)?;
    let mut own = vm.bind_any()?;
    own.name_attach(&std::env::var("M3_NAME")?)?;
    Ok(own)
}

fn serve(mut own: Endpoint, counts: bool) -> Result<(), Box<dyn Error>> {
    loop {
        let (received, bytes) = own.receive_bytes(Source::Any, Timeout::Never)?;
        if received.is_notification && counts {
            let mut told = std::fs::OpenOptions::new().append(true).create(true).open("told")?;
            writeln!(told, "{}", received.message.source.0)?;
        }
        if !received.is_request {
            continue;
        }
        match Call::bytes_of(&received.message, &bytes) {
            b"hang" => loop {
                std::thread::park();
            },
            b"die" => std::process::abort(),
            _ => own.answer_call(&received.message, &std::process::id().to_ne_bytes())?,
        }
    }
}
