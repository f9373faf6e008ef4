//! ZeroMQ: REQ and REP over `ipc://`. The library has a thread of its own for input and output on each side.

use m3ipc_bench::Error;
use m3ipc_bench::job::Report;
use m3ipc_bench::mechanism::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use m3ipc_bench::payload::Message;
use m3ipc_bench::peer::Run;

use crate::{Meeting, failed, meeting, not_here};

/// The version that is linked, and that of the crate.
pub fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch} (crate zmq {})", env!("VERSION_ZMQ"))
}

/// REQ/REP.
pub struct ZeroMq;

impl Mechanism for ZeroMq {
    fn name(&self) -> &'static str {
        "zeromq"
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        Err(not_here())
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let socket = zmq::Context::new().socket(zmq::REQ).map_err(failed("a REQ socket"))?;
        socket.set_linger(0).map_err(failed("no linger"))?;
        // The server may bind after this side connects; a retry should not take the default tenth of a second.
        socket.set_reconnect_ivl(1).map_err(failed("quick retries"))?;
        let place = Meeting::of(&meeting(&inherited)?, "zmq");
        let address = format!("ipc://{}", place.0.display());
        std::mem::forget(place);
        socket.connect(&address).map_err(failed("connect"))?;
        run.drive(End { socket, _place: None })
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let socket = zmq::Context::new().socket(zmq::REP).map_err(failed("a REP socket"))?;
        let place = Meeting::of(&meeting(&inherited)?, "zmq");
        socket.bind(&format!("ipc://{}", place.0.display())).map_err(failed("bind"))?;
        run.serve(End { socket, _place: Some(place) })
    }
}

struct End {
    socket: zmq::Socket,
    _place: Option<Meeting>,
}

impl End {
    fn take(&self, message: &mut Message) -> Result<(), Error> {
        match self.socket.recv_into(message.bytes_mut(), 0).map_err(failed("receive"))? {
            48 => Ok(()),
            other => Err(Error::Usage(format!("{other} bytes came instead of 48"))),
        }
    }
}

impl ClientEnd for End {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.socket.send(request.bytes(), 0).map_err(failed("send"))?;
        self.take(answer)
    }
}

impl ServerEnd for End {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.take(request)
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.socket.send(answer.bytes(), 0).map_err(failed("send"))
    }
}
