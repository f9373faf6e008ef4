//! Tachyon: its RpcBus, a ring each way; the server listens on a socket for the one client.
//!
//! `spin` tells the other side that no wake-up is needed. `block` polls once, then sleeps: its
//! sources keep a window in which a wake-up is lost, and a timer of 200 ms ends such a sleep.

use m3ipc_bench::Error;
use m3ipc_bench::ends::{ClientEnd, ServerEnd};
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::{MESSAGE_BYTES, Message};
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;
use tachyon_ipc::{RpcBus, TachyonError};

use crate::library::Library;
use crate::{ServerFile, await_file, failed, fill, path};

/// Bytes of each ring.
const RING_BYTES: usize = 1 << 16;
/// Polls before a sleep.
const SPINS: u32 = 10_000;
/// The type of all messages.
const TYPE: u32 = 1;

/// The RpcBus.
pub const LIBRARY: Library = Library {
    name: "tachyon",
    version: || env!("VERSION_TACHYON").into(),
    waits: &[Wait::Spin, Wait::Block],
    tells_death: false,
    client,
    server,
    tidy: || {},
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let file = path(name, "tachyon");
    await_file(&file);
    // The file appears before the server listens.
    let bus = loop {
        match RpcBus::connect(&file.to_string_lossy()) {
            Ok(bus) => break bus,
            Err(TachyonError::NetworkError) => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(error) => return Err(failed("connect")(error)),
        }
    };
    run.drive(End::new(bus, run))
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let file = ServerFile(path(name, "tachyon"));
    let listened = RpcBus::listen(&file.0.to_string_lossy(), RING_BYTES, RING_BYTES);
    run.serve(End::new(listened.map_err(failed("listen"))?, run))
}

struct End {
    bus: RpcBus,
    spins: u32,
    request: u64,
}

impl End {
    fn new(bus: RpcBus, run: &Run) -> Self {
        let polls = run.job().wait == Wait::Spin;
        bus.set_polling_mode(polls);
        Self { bus, spins: if polls { SPINS } else { 1 }, request: 0 }
    }
}

impl ClientEnd for End {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let mut slot = self.bus.acquire_call(MESSAGE_BYTES).map_err(failed("acquire a call"))?;
        slot.as_mut_slice()[..MESSAGE_BYTES].copy_from_slice(request.bytes());
        let number = slot.commit(MESSAGE_BYTES, TYPE).map_err(failed("call"))?;
        let came = self.bus.wait(number, self.spins).map_err(failed("wait for the answer"))?;
        fill(answer, came.data())?;
        came.commit().map_err(failed("release the answer"))
    }
}

impl ServerEnd for End {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let came = loop {
            match self.bus.serve(self.spins) {
                Ok(came) => break came,
                Err(TachyonError::Interrupted) => {}
                Err(error) => return Err(failed("serve")(error)),
            }
        };
        self.request = came.correlation_id;
        fill(request, came.data())?;
        came.commit().map_err(failed("release the request"))
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let slot = self.bus.acquire_reply(self.request, MESSAGE_BYTES);
        let mut slot = slot.map_err(failed("acquire a reply"))?;
        slot.as_mut_slice()[..MESSAGE_BYTES].copy_from_slice(answer.bytes());
        slot.commit(MESSAGE_BYTES, TYPE).map(drop).map_err(failed("reply"))
    }
}
