//! NNG: req and rep over `ipc://`. The library has threads on each side.

use std::time::Duration;

use ::nng::{Protocol, Socket};
use m3ipc_bench::Error;
use m3ipc_bench::ends::Exchange;
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;

use crate::library::Library;
use crate::{ServerFile, failed, fill, path};

/// Time for the library's threads to send the last answer; the close of a socket discards it.
const LAST_ANSWER: Duration = Duration::from_millis(50);

/// req and rep.
pub const LIBRARY: Library = Library {
    name: "nng",
    version: || env!("VERSION_NNG").into(),
    waits: &[Wait::Block],
    tells_death: false,
    client,
    server,
    tidy: || {},
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let socket = Socket::new(Protocol::Req0).map_err(failed("a req socket"))?;
    let address = format!("ipc://{}", path(name, "nng").display());
    socket.dial_async(&address).map_err(failed("dial"))?;
    run.drive(End { socket, file: None })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let socket = Socket::new(Protocol::Rep0).map_err(failed("a rep socket"))?;
    let file = ServerFile(path(name, "nng"));
    socket.listen(&format!("ipc://{}", file.0.display())).map_err(failed("listen"))?;
    run.serve(End { socket, file: Some(file) })
}

struct End {
    socket: Socket,
    file: Option<ServerFile>,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.file.is_some() {
            std::thread::sleep(LAST_ANSWER);
        }
    }
}

impl Exchange for End {
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        self.socket.send(message.bytes()).map_err(|(_, error)| failed("send")(error))
    }

    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        fill(message, &self.socket.recv().map_err(failed("receive"))?)
    }
}
