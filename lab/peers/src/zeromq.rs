//! ZeroMQ: REQ and REP over `ipc://`. The library has a thread for input and output on each side.

use m3ipc_bench::Error;
use m3ipc_bench::ends::Exchange;
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::{MESSAGE_BYTES, Message};
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;

use crate::library::Library;
use crate::{ServerFile, failed, path};

/// REQ and REP.
pub const LIBRARY: Library = Library {
    name: "zeromq",
    version,
    waits: &[Wait::Block],
    tells_death: false,
    client,
    server,
    tidy: || {},
};

/// The linked version, and that of the crate.
fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch} (crate zmq {})", env!("VERSION_ZMQ"))
}

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let socket = zmq::Context::new().socket(zmq::REQ).map_err(failed("a REQ socket"))?;
    socket.set_linger(0).map_err(failed("no linger"))?;
    // The server may bind after this side connects; the default interval is a tenth of a second.
    socket.set_reconnect_ivl(1).map_err(failed("quick retries"))?;
    let address = format!("ipc://{}", path(name, "zmq").display());
    socket.connect(&address).map_err(failed("connect"))?;
    run.drive(End { socket, _file: None })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let socket = zmq::Context::new().socket(zmq::REP).map_err(failed("a REP socket"))?;
    let file = ServerFile(path(name, "zmq"));
    socket.bind(&format!("ipc://{}", file.0.display())).map_err(failed("bind"))?;
    run.serve(End { socket, _file: Some(file) })
}

struct End {
    socket: zmq::Socket,
    _file: Option<ServerFile>,
}

impl Exchange for End {
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        self.socket.send(message.bytes(), 0).map_err(failed("send"))
    }

    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        match self.socket.recv_into(message.bytes_mut(), 0).map_err(failed("receive"))? {
            MESSAGE_BYTES => Ok(()),
            other => Err(Error::Usage(format!("{other} bytes came instead of {MESSAGE_BYTES}"))),
        }
    }
}
