//! The floor: a call and its reply of 48 bytes, awake, without types and without a runtime.

use m3ipc::{Address, Message, Source, WaitStrategy};

use crate::Failure;
use crate::figures::measure;
use crate::stack::{Place, Role, tell_address};

const SERVER: i32 = 1;

pub fn play(place: &Place, role: Role) -> Result<(), Failure> {
    let vm = place.vm()?;
    let work = match role {
        Role::Serve => {
            let mut server = vm.bind(SERVER)?;
            server.set_strategy(WaitStrategy::Spin);
            tell_address("1");
            loop {
                let request = server.receive(Source::Any)?;
                // A client that is gone needs no answer.
                let _ = server.reply(request.source, &Message::new(request.m_type + 1));
            }
        }
        Role::Call(work) => work,
    };
    let mut client = vm.bind_any()?;
    client.set_strategy(WaitStrategy::Spin);
    let mut number = 0;
    let figures = measure(work.length, || {
        number += 1;
        let answer = client.sendrec(Address(SERVER), &Message::new(number))?;
        if answer.m_type == number + 1 { Ok(()) } else { Err("a wrong answer".into()) }
    })?;
    figures.print();
    Ok(())
}
