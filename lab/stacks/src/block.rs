//! A block of 100 MB goes to the server and back; half of that time is one way.
//!
//! The server touches a byte of it. No byte is copied, or the run fails.

use m3ipc::{Address, AreaConfig, BlockLifetime, Message, Source, Timeout};

use crate::Failure;
use crate::figures::measure;
use crate::stack::{Place, Role, tell_address};

const SERVER: i32 = 1;
const BYTES: u64 = 100_000_000;

pub fn play(place: &Place, role: Role) -> Result<(), Failure> {
    let vm = place.vm()?;
    let work = match role {
        Role::Serve => {
            let mut server = vm.bind(SERVER)?;
            tell_address("1");
            loop {
                let request = server.receive(Source::Any)?;
                let Some(mut block) = server.take_block()? else { continue };
                block.set(0, 7)?;
                server.reply_block(request.source, &request, block)?;
            }
        }
        Role::Call(work) => work,
    };
    let mut client = vm.bind_any()?;
    let area = client.create_area(&AreaConfig::vm(BYTES + (1 << 20)))?;
    let mut held = Some(client.allocate(&area, BYTES, BlockLifetime::Short)?);
    let mut figures = measure(work.length, || {
        let block = held.take().ok_or("the block did not come back")?;
        client.sendrec_block(Address(SERVER), &Message::new(1), block, Timeout::Never)?;
        held = client.take_block()?;
        Ok(())
    })?;
    if client.copied_total() != 0 {
        return Err("bytes of a block were copied".into());
    }
    (figures.p50_ns, figures.p99_ns) = (figures.p50_ns / 2.0, figures.p99_ns / 2.0);
    figures.print();
    Ok(())
}
