//! Roles that exchange numbered messages until their input ends or they are killed.

use crate::role::{number, say, told_to_end, vm};
use m3ipc::{Address, Message, Source};
use std::path::Path;
use std::time::Duration;

fn numbered(m_type: i32, number: u64) -> Message {
    let mut message = Message::new(m_type);
    message.payload[..8].copy_from_slice(&number.to_ne_bytes());
    message
}

fn number_in(message: &Message) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&message.payload[..8]);
    u64::from_ne_bytes(bytes)
}

/// `load-client DIR VM TO FIRST PAUSE_US`: requests with numbers from FIRST on. The answer to each
/// is the next number.
pub fn client(directory: &Path, arguments: &[&str]) {
    let [vm_name, to, first, pause_us] = *arguments else {
        panic!("load-client VM TO FIRST PAUSE_US")
    };
    let mut me = vm(directory, vm_name).bind_any().expect("a bind");
    say(&format!("bound {}", me.address().0));
    let to = Address(number(to));
    let pause = Duration::from_micros(number(pause_us).unsigned_abs().into());
    let mut next: u64 = first.parse().expect("a number");
    while !told_to_end() {
        let number = next;
        next += 1;
        match me.sendrec(to, &numbered(1, number)) {
            Ok(answer) if number_in(&answer) == number + 1 && answer.source == to => {
                say(&format!("a {number}"));
            }
            Ok(answer) => say(&format!("wrong answer {} to {number}", number_in(&answer))),
            Err(error) => {
                say(&format!("c {number} {}", error.code().number()));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        std::thread::sleep(pause);
    }
    say("done");
}

/// `load-server DIR VM SLOT`: takes requests, says so, answers.
pub fn server(directory: &Path, arguments: &[&str]) {
    let [vm_name, slot] = *arguments else { panic!("load-server VM SLOT") };
    let mut me = vm(directory, vm_name).bind(number(slot)).expect("a bind");
    let _ = me.name_attach(&format!("server {slot}"));
    say(&format!("bound {}", me.address().0));
    loop {
        match me.receive(Source::Any) {
            Ok(request) => {
                let number = number_in(&request);
                say(&format!("t {number}"));
                // A client that was killed meanwhile needs no answer.
                let _ = me.reply(request.source, &numbered(2, number + 1));
            }
            Err(error) => say(&format!("server: {error}")),
        }
    }
}

/// `visitor DIR VM TO FIRST COUNT`: binds, makes COUNT calls, leaves.
pub fn visitor(directory: &Path, arguments: &[&str]) {
    let [vm_name, to, first, count] = *arguments else { panic!("visitor VM TO FIRST COUNT") };
    let bound = vm(directory, vm_name).bind_any();
    let mut me = match bound {
        Ok(me) => me,
        Err(error) => return say(&format!("no bind: {error}")),
    };
    let first: u64 = first.parse().expect("a number");
    for number in first..first + u64::try_from(self::number(count)).unwrap_or(0) {
        match me.sendrec(Address(self::number(to)), &numbered(1, number)) {
            Ok(answer) if number_in(&answer) == number + 1 => say(&format!("a {number}")),
            Ok(answer) => say(&format!("wrong answer {} to {number}", number_in(&answer))),
            Err(error) => say(&format!("c {number} {}", error.code().number())),
        }
    }
    drop(me);
    say("done");
}
