//! A partner in a process of its own, directed by its arguments.
//!
//! `m3-tests-partner DIRECTORY VM SLOT STEP...`: binds (unless SLOT is `-`), says `bound ADDRESS`,
//! takes the steps in order, says the code of each, and leaves when its input ends.
//!
//! `m3-tests-partner init NAME=NUMBER...`: drvs_init with these parameters; says the node id or the
//! code, and leaves.
//!
//! | step | what it does |
//! |---|---|
//! | `send:N` `sendrec:N` `receive:N` `receive:any` `notify:N` | the call, without a limit |
//! | `unbind:N` `name:TEXT` | the call |
//! | `arm` | opens the descriptor and polls once; says the code |
//! | `fork` | a child by fork sends to slot 1; says the code |
//! | `exec` | the process becomes `cat`, which stays until its input ends |
//! | `linger` | leaves a child by fork behind; says its number |
//! | `pipe` | SIGPIPE ends the process, as it does by default |
//! | `claim` | waits until another process binds this one, says `bound` then |

mod roles;

use m3ipc::{Address, Endpoint, Message, Node, NodeParams, Source, Timeout};
use m3ipc_abi::Code;
use m3ipc_test_fixture::signals;
use std::io::Read;
use std::path::Path;

fn main() {
    let _ = m3ipc_sys::die_with_parent();
    signals::handle();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let ["init", params @ ..] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return init(params);
    }
    let [directory, vm, slot, steps @ ..] = &arguments[..] else {
        eprintln!("usage: m3-tests-partner DIRECTORY VM SLOT STEP...");
        std::process::exit(2);
    };
    let mut endpoint = slot.parse().ok().and_then(|slot| bind(Path::new(directory), vm, slot));
    for step in steps {
        let (name, argument) = step.split_once(':').unwrap_or((step, ""));
        match name {
            "exec" => roles::become_cat(),
            "pipe" => roles::end_by_pipe(),
            "linger" => roles::leave_child(),
            "claim" => endpoint = roles::claim(),
            _ => roles::say(take_step(endpoint.as_mut(), name, argument)),
        }
    }
    // Stays until its input ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn init(arguments: &[&str]) {
    let mut params = NodeParams::default();
    for argument in arguments {
        let (name, number) = argument.split_once('=').expect("NAME=NUMBER");
        let number = Some(number.parse().expect("a number"));
        match name {
            "nodeid" => params.nodeid = number,
            "vms" => params.vms = number,
            "nodes" => params.nodes = number,
            "procs" => params.procs = number,
            "tasks" => params.tasks = number,
            _ => panic!("no parameter {name}"),
        }
    }
    let told = Node::init(&params).and_then(|mut node| node.info());
    roles::say(told.map(|info| info.nodeid).map_err(|error| error.code()));
}

fn bind(directory: &Path, vm: &str, slot: i32) -> Option<Endpoint> {
    let mut node = Node::find(directory).expect("the daemon of the test runs");
    let vm = node.vm_named(vm).expect("the VM of the test");
    match vm.bind(slot) {
        Ok(endpoint) => {
            println!("bound {}", endpoint.address().0);
            Some(endpoint)
        }
        Err(error) => {
            println!("refused {}", error.code().number());
            None
        }
    }
}

fn take_step(endpoint: Option<&mut Endpoint>, name: &str, argument: &str) -> Result<i32, Code> {
    let Some(me) = endpoint else { return Err(Code::NotBind) };
    let peer = Address(argument.parse().unwrap_or_default());
    let message = Message::new(7);
    match name {
        "send" => me.send(peer, &message).map(|()| 0).map_err(|error| error.code()),
        "sendrec" => {
            me.sendrec(peer, &message).map(|answer| answer.m_type).map_err(|error| error.code())
        }
        "receive" => {
            let source = if argument == "any" { Source::Any } else { Source::From(peer) };
            let received = me.receive_timeout(source, Timeout::Never);
            received.map(|message| message.m_type).map_err(|error| error.code())
        }
        "notify" => me.notify(peer).map(|()| 0).map_err(|error| error.code()),
        "unbind" => me.unbind_other(peer).map(|()| 0).map_err(|error| error.code()),
        "name" => me.name_attach(argument).map(|()| 0).map_err(|error| error.code()),
        "arm" => {
            me.fd().map_err(|error| error.code())?;
            me.try_receive(Source::Any).map(|message| message.m_type).map_err(|error| error.code())
        }
        "fork" => roles::in_child(|| me.send(Address(1), &message).map_err(|error| error.code())),
        _ => panic!("no step {name}"),
    }
}
