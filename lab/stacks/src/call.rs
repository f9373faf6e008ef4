//! Calls of 100 bytes without a runtime, by the strategy `spin`: a plain record, a typed call in
//! postcard, and bytes without types.

use m3ipc::{Address, Endpoint, Source, WaitStrategy};
use m3ipc_calls::{Codec, Postcard};

use crate::Failure;
use crate::calls::Echo;
use crate::figures::{check, measure};
use crate::stack::{CALL_BYTES, Place, Role, Work, tell_address};

const SERVER: Address = Address(1);

/// A plain record: 25 numbers of 4 bytes.
type Record = [u32; CALL_BYTES / 4];

/// Plays the server, or returns the client and its work.
fn begin(
    place: &Place,
    role: Role,
    serve: impl FnOnce(Endpoint) -> Result<(), Failure>,
) -> Result<Option<(Endpoint, Work)>, Failure> {
    let vm = place.vm()?;
    match role {
        Role::Serve => {
            let mut server = vm.bind(SERVER.0)?;
            server.set_strategy(WaitStrategy::Spin);
            tell_address("1");
            serve(server)?;
            Ok(None)
        }
        Role::Call(work) => {
            let mut client = vm.bind_any()?;
            client.set_strategy(WaitStrategy::Spin);
            Ok(Some((client, work)))
        }
    }
}

/// Plain records by `bytemuck`.
pub fn play_record(place: &Place, role: Role) -> Result<(), Failure> {
    let serve = |mut server: Endpoint| loop {
        let (request, record) = server.receive_record::<Record>(Source::Any, None)?;
        // A client that gave up meanwhile needs no answer.
        let _ = server.reply_record(request.message.source, 0, &record);
    };
    let Some((mut client, work)) = begin(place, role, serve)? else { return Ok(()) };
    let mut record: Record = [7; CALL_BYTES / 4];
    let figures = measure(work.length, || {
        record[0] = record[0].wrapping_add(1);
        let answer: Record = client.sendrec_record(SERVER, 1, &record, None)?;
        if answer == record { Ok(()) } else { Err("the answer is not the request".into()) }
    })?;
    figures.print();
    Ok(())
}

/// Serde with postcard. The server borrows the text of the request.
pub fn play(place: &Place, role: Role) -> Result<(), Failure> {
    let serve = |mut server: Endpoint| {
        // A request that is no Echo gets an empty answer, which the client refuses.
        Ok(server.serve(|call| match Postcard::decode::<(u32, &str)>(call.bytes) {
            Ok(echo) => Postcard::encode(&echo).unwrap_or_default(),
            Err(_) => Vec::new(),
        })?)
    };
    let Some((mut client, work)) = begin(place, role, serve)? else { return Ok(()) };
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    let echo = Echo::new();
    let figures = measure(work.length, || {
        Postcard::encode_into(&echo, &mut request)?;
        client.call_into(SERVER, &request, &mut answer, None)?;
        let answer: Echo = Postcard::decode(&answer)?;
        check(answer.text.as_bytes(), echo.text.as_bytes())
    })?;
    figures.print();
    Ok(())
}

/// Bytes without types.
pub fn play_bytes(place: &Place, role: Role) -> Result<(), Failure> {
    let serve = |mut server: Endpoint| Ok(server.serve(|call| call.bytes.to_vec())?);
    let Some((mut client, work)) = begin(place, role, serve)? else { return Ok(()) };
    let bytes = [7; CALL_BYTES];
    let figures = measure(work.length, || check(&client.call(SERVER, &bytes, None)?, &bytes))?;
    figures.print();
    Ok(())
}
