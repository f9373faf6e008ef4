//! Typed calls without a runtime: `Endpoint::call` and `Endpoint::serve`, postcard on both sides.

use m3ipc::{Address, WaitStrategy};
use m3ipc_calls::{Codec, Postcard};

use crate::Failure;
use crate::calls::Echo;
use crate::figures::{check, measure};
use crate::stack::{Place, Role, tell_address};

const SERVER: i32 = 1;

pub fn play(place: &Place, role: Role) -> Result<(), Failure> {
    let vm = place.vm()?;
    let work = match role {
        Role::Serve => {
            let mut server = vm.bind(SERVER)?;
            server.set_strategy(WaitStrategy::Spin);
            tell_address("1");
            let answer = |bytes: &[u8]| {
                let request: Echo = Postcard::decode(bytes)?;
                Postcard::encode(&request)
            };
            // A request that is no Echo gets an empty answer, which the client refuses.
            server.serve(|call| answer(&call.bytes).unwrap_or_default())?;
            return Ok(());
        }
        Role::Call(work) => work,
    };
    let mut client = vm.bind_any()?;
    client.set_strategy(WaitStrategy::Spin);
    let figures = measure(work.length, || {
        let echo = Echo::new();
        let bytes = client.call(Address(SERVER), &Postcard::encode(&echo)?, None)?;
        let answer: Echo = Postcard::decode(&bytes)?;
        check(&answer.bytes, &echo.bytes)
    })?;
    figures.print();
    Ok(())
}
