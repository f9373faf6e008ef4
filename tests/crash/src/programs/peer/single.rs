//! Roles that do one thing and report its outcome.

use crate::role::{number, say, told_to_end, told_to_go, vm};
use m3ipc::{Address, Message, Node, Source, Timeout, VmConfig, WaitStrategy};
use std::path::Path;
use std::time::Duration;

/// `call DIR VM SLOT TO VERB COUNT`: binds, waits for a line, then calls.
pub fn call(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot, to, verb, count] = *arguments else { panic!("call VM SLOT TO VERB COUNT") };
    let vm = vm(directory, vm_name);
    let mut me = match vm.bind(number(slot)) {
        Ok(me) => me,
        Err(error) => return say(&format!("code {}", error.code().number())),
    };
    me.set_strategy(WaitStrategy::Block);
    say(&format!("bound {}", me.address().0));
    told_to_go();
    let to = Address(number(to));
    for n in 1..=number(count) {
        let message = Message::new(n);
        let code = match verb {
            "send" => me.send(to, &message).map(|()| 0).map_err(|error| error.code()),
            "receive" => me.receive(to).map(|got| got.m_type).map_err(|error| error.code()),
            _ => me.sendrec(to, &message).map(|got| got.m_type).map_err(|error| error.code()),
        };
        match code {
            Ok(answer) => say(&format!("answer {answer}")),
            Err(code) => say(&format!("code {}", code.number())),
        }
    }
    drop(me);
    say("done");
}

/// `serve DIR VM SLOT SOURCE DELAY_MS`: takes requests of any or of one member, and answers each.
pub fn serve(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot, source, delay_ms] = *arguments else {
        panic!("serve VM SLOT SOURCE DELAY_MS")
    };
    let vm = vm(directory, vm_name);
    let mut me = vm.bind(number(slot)).expect("a bind");
    me.set_strategy(WaitStrategy::Block);
    say(&format!("bound {}", me.address().0));
    let source = match source {
        "any" => Source::Any,
        address => Source::From(Address(number(address))),
    };
    loop {
        match me.receive(source) {
            Ok(request) => {
                say(&format!("took {} {}", request.source.0, request.m_type));
                std::thread::sleep(Duration::from_millis(number(delay_ms).unsigned_abs().into()));
                let answered = me.reply(request.source, &Message::new(request.m_type + 1));
                let code = answered.err().map_or(0, |error| error.code().number());
                say(&format!("answered {code}"));
            }
            Err(error) => {
                say(&format!("code {}", error.code().number()));
                if source != Source::Any {
                    return;
                }
            }
        }
    }
}

/// `call-short DIR VM SLOT FIRST SECOND`: calls FIRST with a short limit, then SECOND, then FIRST
/// again.
pub fn call_short(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot, first, second] = *arguments else {
        panic!("call-short VM SLOT FIRST SECOND")
    };
    let mut me = vm(directory, vm_name).bind(number(slot)).expect("a bind");
    say(&format!("bound {}", me.address().0));
    let (first, second) = (Address(number(first)), Address(number(second)));
    let limits = [
        (first, Timeout::After(Duration::from_millis(50))),
        (second, Timeout::Never),
        (first, Timeout::Never),
    ];
    for (to, limit) in limits {
        told_to_go();
        match me.sendrec_timeout(to, &Message::new(1), limit) {
            Ok(answer) => say(&format!("answer {}", answer.m_type)),
            Err(error) => say(&format!("code {}", error.code().number())),
        }
    }
}

/// `leave DIR VM SLOT`: binds, leaves at a line, and binds to any slot at the next line.
pub fn leave(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot] = *arguments else { panic!("leave VM SLOT") };
    let vm = vm(directory, vm_name);
    let me = vm.bind(number(slot)).expect("a bind");
    say(&format!("bound {}", me.address().0));
    told_to_go();
    drop(me);
    say("left");
    told_to_go();
    let me = vm.bind_any().expect("a second bind");
    say(&format!("bound {}", me.address().0));
    told_to_go();
}

/// `watch DIR VM SLOT ADDRESS`: waits until that endpoint is gone.
pub fn watch(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot, address] = *arguments else { panic!("watch VM SLOT ADDRESS") };
    let mut me = vm(directory, vm_name).bind(number(slot)).expect("a bind");
    say(&format!("bound {}", me.address().0));
    match me.wait_unbind(Address(number(address)), Timeout::Never) {
        Ok(()) => say("gone"),
        Err(error) => say(&format!("code {}", error.code().number())),
    }
}

/// `unbind-other DIR VM SLOT ADDRESS`: binds, waits for a line, and unbinds that endpoint.
pub fn unbind_other(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot, address] = *arguments else { panic!("unbind-other VM SLOT ADDRESS") };
    let mut me = vm(directory, vm_name).bind(number(slot)).expect("a bind");
    say(&format!("bound {}", me.address().0));
    told_to_go();
    match me.unbind_other(Address(number(address))) {
        Ok(()) => say("unbound"),
        Err(error) => say(&format!("code {}", error.code().number())),
    }
}

/// `intruder DIR VM SLOT`: tries again and again to take the slot of another, until its input ends.
pub fn intruder(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot] = *arguments else { panic!("intruder VM SLOT") };
    let vm = vm(directory, vm_name);
    let (mut tries, mut refused) = (0, 0);
    say("ready");
    while !told_to_end() {
        tries += 1;
        match vm.bind(number(slot)) {
            Ok(_stolen) => return say("stolen"),
            Err(error) if error.code().number() == -337 => refused += 1,
            Err(_no_daemon) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    say(&format!("tried {tries} refused {refused}"));
}

/// `make-vm DIR NAME`: makes a VM.
pub fn make_vm(directory: &Path, arguments: &[&str]) {
    let [name] = *arguments else { panic!("make-vm NAME") };
    let made = Node::attach_at(directory).and_then(|mut node| node.vm_init(&VmConfig::new(name)));
    match made {
        Ok(vm) => say(&format!("vm {}", vm.id())),
        Err(error) => say(&format!("code {}", error.code().number())),
    }
}
