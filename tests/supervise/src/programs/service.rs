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
//! | `forks` | leaves a process outside of its group, writes its number to `left`, and ends |
//! | `forks-execs` | as `forks`: a process that executes itself again and again |
//! | `orphan` | as `serve`, and leaves an orphan that ends after a moment, and one that stays |
//!
//! A request `hang` makes it sleep for ever, a request `die` makes it abort. A request `exec` makes
//! it replace itself, `bind` close its endpoint and bind again, and `late` bind after a pause.
#![forbid(unsafe_code)]

use m3ipc::{Call, Endpoint, Node, Source, Timeout};
use std::error::Error;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

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
        ["forks"] => {
            Command::new("sh").args(["-c", "setsid sleep 1000 & echo $! > left"]).status()?;
            Ok(())
        }
        ["forks-execs"] => {
            // It is inside execve(2) for much of its time.
            let line = "setsid sh -c \"$0\" \"$0\" & echo $! > $M3_SERVICE";
            let execs = "exec sh -c \"$0\" \"$0\"";
            Command::new("sh").args(["-c", line, execs]).status()?;
            Ok(())
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
            how @ (b"exec" | b"bind" | b"late") => {
                own.answer_call(&received.message, b"done")?;
                if how == b"exec" {
                    let words = std::env::args_os().skip(1);
                    return Err(Command::new(std::env::current_exe()?).args(words).exec().into());
                }
                drop(own);
                if how == b"late" {
                    std::thread::sleep(Duration::from_millis(900));
                }
                own = named()?;
            }
            _ => {
                own.answer_call(&received.message, &std::process::id().to_ne_bytes())?;
            }
        }
    }
}
