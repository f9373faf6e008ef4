//! The processes of the tests: `m3-users-role ROLE ...`. Each runs as the user of its process, and
//! prints one line for each result.

mod namespaces;
mod rights;

use clap::Parser;
use m3ipc::{Message, Node, NodeError, Source, VmConfig};
use m3ipc_wire::{FromDaemon, Reply, Request, VERSION};
use std::fmt::Display;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let _ = m3ipc_sys::die_with_parent();
    match &words[..] {
        ["apart", rest @ ..] => match namespaces::enter_user_namespace() {
            Ok(()) => act(rest),
            Err(errno) => {
                println!("SKIP no user namespace: {errno}");
                ExitCode::SUCCESS
            }
        },
        ["deeper", rest @ ..] => match namespaces::enter_pid_namespace() {
            Ok(()) => again(rest),
            Err(errno) => {
                println!("SKIP no PID namespace: {errno}");
                ExitCode::SUCCESS
            }
        },
        ["users" | "groups" | "capabilities" | "without" | "ambient", ..] => {
            match rights::enter(&words) {
                Ok(rest) => act(rest),
                Err(errno) => {
                    println!("failed: {errno}");
                    ExitCode::FAILURE
                }
            }
        }
        ["system", owner, mode, client, rest @ ..] => system(owner, mode, client, rest),
        other => act(other),
    }
}

/// Runs this program again, and prints what it prints.
fn again(words: &[&str]) -> ExitCode {
    let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
    println!("{}", m3ipc_users::printed(Command::new(program).args(words)));
    ExitCode::SUCCESS
}

fn act(words: &[&str]) -> ExitCode {
    match words {
        ["daemon", settings @ ..] => {
            return m3ipc_daemon::run(&m3ipc_daemon::Args::parse_from(
                ["m3d"].iter().chain(settings),
            ));
        }
        ["supervise", directory, file] => {
            let words = ["m3-supervise", "run", file, "--runtime-dir", directory];
            return m3ipc_supervise::command::run(words.into_iter().map(Into::into));
        }
        ["find", directory] => say(&Node::find(directory.as_ref())),
        ["attach"] => say(&Node::attach()),
        ["attach-at", directory] => say(&Node::attach_at(directory.as_ref())),
        ["rights"] => println!("{}", m3ipc_sys::extra_rights().unwrap_or("none")),
        ["domain", directory, vm] => {
            match m3ipc_sockets::Domain::enter(directory.as_ref(), vm.parse().unwrap_or(0), None) {
                Ok(_domain) => println!("ok"),
                Err(error) => println!("{} {error}", error.errno()),
            }
        }
        ["hello", directory] => hello(directory.as_ref()),
        ["member", directory, vm] => match member(directory.as_ref(), vm) {
            Ok(()) => {}
            Err(error) => println!("failed: {error}"),
        },
        ["create", directory, vm] => on_node(directory, |node| {
            node.vm_init(&VmConfig::new(vm).grace_ms(50)).map(|vm| vm.id())
        }),
        ["open", directory, vm] => on_node(directory, |node| {
            node.vm_open_or_create(&VmConfig::new(vm).grace_ms(50)).map(|vm| vm.id())
        }),
        ["end", directory, vm] => on_node(directory, |node| {
            let id = node.vm_named(vm)?.id();
            node.vm_end(id).map(|()| 0)
        }),
        ["down", directory] => on_node_of(directory, |node| node.end().map(|()| 0)),
        ["join", directory, vm] => on_node(directory, |node| {
            let vm = node.vm_named(vm)?;
            Ok(vm.bind_any().map_or_else(|error| error.code().number(), |me| me.address().0))
        }),
        ["unbind", directory, vm, address] => on_node(directory, |node| {
            let address = m3ipc::Address(address.parse().unwrap_or(0));
            node.unbind(vm.parse().unwrap_or(0), address).map(|()| 0)
        }),
        ["trace", directory, vm] => on_node(directory, |node| {
            node.trace(vm.parse().unwrap_or(0), m3ipc::trace::TraceConfig::default())
                .map(|_trace| 0)
        }),
        ["bind-other", directory, vm, pid] => bind_other(directory, vm, pid.parse().unwrap_or(0)),
        ["bind-child", directory, vm, rest @ ..] => bind_child(directory, vm, rest),
        ["wait-bind"] => wait_bind(),
        ["sleep"] => loop {
            println!("asleep");
            std::thread::sleep(Duration::from_secs(1000));
        },
        ["exec-after", mark, program] => {
            println!("waiting");
            m3ipc_users::until("the mark is there", || Path::new(mark).exists());
            println!("failed: {}", Command::new(program).arg("sleep").exec());
        }
        ["logs"] => return logs(),
        ["directory"] => println!("{}", m3ipc::runtime::directory().display()),
        ["listen", directory] => listen(directory.as_ref()),
        _ => {
            println!("no such role: {words:?}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn bind_other(directory: &str, vm: &str, pid: i32) {
    on_node(directory, |node| {
        let id = node.vm_named(vm)?.id();
        let bound = node.bind_other(id, pid, 30);
        Ok(bound.map_or_else(|error| error.code().number(), |address| address.0))
    });
}

/// Starts a role as a child and binds it. Prints what the child prints, then the result.
fn bind_child(directory: &str, vm: &str, words: &[&str]) {
    let Ok(program) = std::env::current_exe() else { return };
    let mut child = m3ipc_users::Running::start(Command::new(program).args(words));
    println!("{}", child.line());
    println!("{}", child.pid());
    bind_other(directory, vm, child.pid());
    while !child.has_ended() {
        let line = child.line();
        if !line.is_empty() {
            println!("{line}");
        }
    }
}

/// Waits in wait4bind at the node of `M3_RUNTIME_DIR`.
fn wait_bind() {
    println!("waiting");
    match m3ipc::Endpoint::wait_for_bind(None) {
        Ok(endpoint) => println!("{}", endpoint.address().0),
        Err(error) => println!("{} {}", error.code().number(), error.why()),
    }
}

/// Prints the number that an operation gives, or the code of its error.
fn on_node(directory: &str, operation: impl FnOnce(&mut Node) -> Result<i32, NodeError>) {
    on_node_of(directory, |mut node| operation(&mut node));
}

fn on_node_of(directory: &str, operation: impl FnOnce(Node) -> Result<i32, NodeError>) {
    match Node::find(directory.as_ref()).and_then(operation) {
        Ok(number) => println!("{number}"),
        Err(error) => println!("{} {}", error.code().number(), error.why()),
    }
}

/// A member that listens at a com-socket, attaches the areas of its requests, copies what each
/// request leases, and answers.
fn member(directory: &Path, vm: &str) -> Result<(), Box<dyn std::error::Error>> {
    let vm = Node::find(directory)?.vm_named(vm)?;
    let mut me = vm.bind(1)?;
    let domain = m3ipc_sockets::Domain::join(directory, &vm)?;
    let listener = domain.listen(80, 1)?;
    println!("{}", domain.address());
    let _stream = listener.accept()?;
    let mut areas = Vec::new();
    loop {
        let request = me.receive(Source::Any)?;
        let bytes = request.payload;
        let area = u32::from_ne_bytes(bytes[..4].try_into()?);
        let leased = u64::from_ne_bytes(bytes[8..16].try_into()?);
        areas.push(me.attach_area(area)?);
        me.copy_from(request.source, leased, &mut [0; 4096])?;
        me.reply(request.source, &Message::new(0))?;
    }
}

fn say(found: &Result<Node, NodeError>) {
    match found {
        Ok(_node) => println!("ok"),
        Err(error) => println!("{} {}", error.code().number(), error.why()),
    }
}

/// Greets a daemon without any check of it.
fn hello(directory: &Path) {
    let asked = || -> Result<String, m3ipc_sys::Errno> {
        let socket = m3ipc_sys::connect(&m3ipc::runtime::socket(directory))?;
        let frame = m3ipc_wire::encode(&Request::Hello { version: VERSION });
        // A daemon that refuses may have closed the socket by now. Its reason is still there.
        let _ = m3ipc_sys::send_packet(&socket, &frame, &[], true);
        let mut buffer = vec![0; m3ipc_wire::REPLY_MAX_BYTES];
        let mut receive = || m3ipc_sys::receive_packet(&socket, &mut buffer, true, true);
        // The kernel reports the close of the socket once, and then the frame from before it.
        let packet = match receive() {
            Err(m3ipc_sys::Errno::CONNRESET) => receive()?,
            other => other?,
        };
        Ok(match m3ipc_wire::decode::<FromDaemon>(&buffer[..packet.bytes]) {
            Ok(FromDaemon::Reply(Reply::Welcome { .. })) => "ok".to_owned(),
            Ok(FromDaemon::Reply(Reply::Refused(refusal))) => {
                format!("{} {}", refusal.code, refusal.why)
            }
            other => format!("{other:?}"),
        })
    };
    print_either(asked());
}

fn print_either(result: Result<String, impl Display>) {
    match result {
        Ok(text) => println!("{text}"),
        Err(error) => println!("failed: {error}"),
    }
}

/// A false daemon: tells of each client that sends it a word.
fn listen(directory: &Path) {
    let path = m3ipc::runtime::socket(directory);
    let listener = match m3ipc_sys::listen(&path, 0o666) {
        Ok(listener) => listener,
        Err(errno) => return println!("failed: {errno}"),
    };
    println!("listening");
    loop {
        use std::os::fd::AsFd;
        let _ = m3ipc_sys::wait_readable(&[listener.as_fd()], u64::MAX);
        let Ok(client) = m3ipc_sys::accept(&listener) else { continue };
        let _ = m3ipc_sys::wait_readable(&[client.as_fd()], u64::MAX);
        match m3ipc_sys::receive_packet(&client, &mut [0; 256], false, false) {
            Ok(packet) if packet.bytes > 0 => println!("heard a client"),
            _ => println!("a client left"),
        }
    }
}

/// A system's daemon in the background: whether its log lies in the folder of logs, and in the
/// runtime directory.
fn logs() -> ExitCode {
    if let Err(errno) = namespaces::hide_run() {
        println!("SKIP no mount namespace: {errno}");
        return ExitCode::SUCCESS;
    }
    let directory = Path::new(m3ipc::runtime::SYSTEM_DIRECTORY);
    let (made, Ok(program)) = (std::fs::create_dir(directory), std::env::current_exe()) else {
        return ExitCode::FAILURE;
    };
    print_either(made.map(|()| "made".to_owned()));
    // The starter of a daemon in the background sets this variable.
    let mut daemon = m3ipc_users::role_of(&program, 0, &["daemon", "--system"]);
    daemon.env("M3_DETACHED", "1").stderr(Stdio::null());
    let _daemon = m3ipc_users::Running::start(&mut daemon);
    m3ipc_users::until("the daemon listens", || m3ipc::runtime::socket(directory).exists());
    let logs = [Path::new(m3ipc::runtime::SYSTEM_LOGS), directory].map(|it| it.join("m3d.log"));
    println!("{:?}", logs.map(|log| log.exists()));
    ExitCode::SUCCESS
}

/// The system's node in a file system where /run belongs to this test: the daemon of `owner` in
/// /run/m3, and what a client of another user says. `mode` is that of /run.
fn system(owner: &str, mode: &str, client: &str, words: &[&str]) -> ExitCode {
    if let Err(errno) = namespaces::hide_run() {
        println!("SKIP no mount namespace: {errno}");
        return ExitCode::SUCCESS;
    }
    let (Ok(owner), Ok(client)) = (owner.parse::<u32>(), client.parse::<u32>()) else {
        return ExitCode::FAILURE;
    };
    let directory = Path::new(m3ipc::runtime::SYSTEM_DIRECTORY);
    let mode = u32::from_str_radix(mode, 8).unwrap_or(0o755);
    let made = std::fs::create_dir(directory)
        .and_then(|()| m3ipc_users::try_set_mode(directory, 0o755))
        .and_then(|()| chown(directory, Some(owner), Some(owner)));
    let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
    if let Err(cause) = made {
        println!("failed: {cause}");
        return ExitCode::FAILURE;
    }
    let daemon = ["daemon", "--system", "--log-level", "error"];
    let _daemon = m3ipc_users::Running::start(&mut m3ipc_users::role_of(&program, owner, &daemon));
    m3ipc_users::until("the daemon listens", || m3ipc::runtime::socket(directory).exists());
    m3ipc_users::set_mode(Path::new("/run"), mode);
    println!("{}", m3ipc_users::printed(&mut m3ipc_users::role_of(&program, client, words)));
    ExitCode::SUCCESS
}
