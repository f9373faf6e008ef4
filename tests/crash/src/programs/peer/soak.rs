//! One of many processes: binds, calls the others, ends in one of four ways.

use crate::role::{number, vm};
use m3ipc::{Address, Code, Delivered, Endpoint, Message, Node, Source};
use m3ipc_test_fixture::Rng;
use std::path::Path;
use std::time::Duration;

/// Exit code: a call ended with a code that no call may have.
const EXIT_WRONG: i32 = 3;

/// `soak DIR VM SEED ACTIONS`: this number of actions, then one of four ends.
pub fn soak(directory: &Path, arguments: &[&str]) {
    let [vm_name, seed, actions] = *arguments else { panic!("soak VM SEED ACTIONS") };
    let mut rng = Rng::of(seed.parse().expect("a number"));
    let vm = vm(directory, vm_name);
    let Ok(mut me) = vm.bind_any() else { return };
    let _ = me.name_attach(&format!("soak {}", me.address().0));
    let mut others = endpoints(directory, vm.id());
    for at in 0..number(actions) {
        if at % 8 == 7 {
            others = endpoints(directory, vm.id());
        }
        let other = others.get(rng.index(others.len())).copied();
        if let Some(code) = act(&mut me, other, &mut rng)
            && matches!(code, Code::PeerBroke | Code::Unknown | Code::Version | Code::NotConn)
        {
            eprintln!("soak {seed}: a call ended with {}", code.number());
            std::process::exit(EXIT_WRONG);
        }
    }
    match rng.below(4) {
        0 => drop(me),
        1 => std::process::exit(0),
        2 => {
            let own = m3ipc_sys::open_process(m3ipc_sys::process_id()).expect("one's own process");
            let _ = m3ipc_sys::signal(own, m3ipc_sys::Signal::KILL);
        }
        // In the middle of a call.
        _ => {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                std::process::exit(0);
            });
            let _ = me.receive(Source::Any);
        }
    }
}

fn endpoints(directory: &Path, vm: i32) -> Vec<Address> {
    let listed = Node::find(directory).and_then(|mut node| node.endpoints(vm)).unwrap_or_default();
    listed.iter().map(|endpoint| Address(endpoint.address)).collect()
}

/// One action; the code where it failed.
fn act(me: &mut Endpoint, other: Option<Address>, rng: &mut Rng) -> Option<Code> {
    let limit = Duration::from_millis(1 + rng.below(30));
    let message = Message::new(1);
    let Some(other) = other.filter(|other| *other != me.address() && rng.below(2) == 0) else {
        return serve(me, limit);
    };
    match rng.below(8) {
        0 | 1 => me.notify(other).err().map(|error| error.code()),
        2 => me.try_send(other, &message).err().map(|error| error.code()),
        3 => me.send_timeout(other, &message, limit).err().map(|error| error.code()),
        4 => me.receive_timeout(other, limit).err().map(|error| error.code()),
        5 => me.wait_unbind(other, m3ipc::Timeout::After(limit)).err().map(|error| error.code()),
        _ => me.sendrec_timeout(other, &message, limit).err().map(|error| error.code()),
    }
}

fn serve(me: &mut Endpoint, limit: Duration) -> Option<Code> {
    match me.receive_timeout(Source::Any, limit) {
        Ok(message) if !message.is_notification() => {
            // A plain send awaits no answer, so an error is no fault.
            me.reply(message.source, &message)
                .and_then(Delivered::into_result)
                .err()
                .map(|error| error.code())
        }
        Ok(_notification) => None,
        Err(error) => Some(error.code()),
    }
}
