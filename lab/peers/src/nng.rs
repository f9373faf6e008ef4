//! NNG: req and rep over `ipc://`. The library has threads of its own on each side.

use std::time::Duration;

use ::nng::{Protocol, Socket};
use m3ipc_bench::Error;
use m3ipc_bench::job::Report;
use m3ipc_bench::mechanism::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use m3ipc_bench::payload::Message;
use m3ipc_bench::peer::Run;

use crate::{Meeting, failed, meeting, not_here};

/// How long a server that ends leaves the library's threads to bring its last answer out; closing a socket throws it away.
const LAST_ANSWER: Duration = Duration::from_millis(50);

/// req/rep.
pub struct Nng;

impl Mechanism for Nng {
    fn name(&self) -> &'static str {
        "nng"
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        Err(not_here())
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let socket = Socket::new(Protocol::Req0).map_err(failed("a req socket"))?;
        let place = Meeting::of(&meeting(&inherited)?, "nng");
        let address = format!("ipc://{}", place.0.display());
        std::mem::forget(place);
        socket.dial_async(&address).map_err(failed("dial"))?;
        run.drive(End { socket, place: None })
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let socket = Socket::new(Protocol::Rep0).map_err(failed("a rep socket"))?;
        let place = Meeting::of(&meeting(&inherited)?, "nng");
        socket.listen(&format!("ipc://{}", place.0.display())).map_err(failed("listen"))?;
        run.serve(End { socket, place: Some(place) })
    }
}

struct End {
    socket: Socket,
    place: Option<Meeting>,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.place.is_some() {
            std::thread::sleep(LAST_ANSWER);
        }
    }
}

impl End {
    fn put(&self, message: &Message) -> Result<(), Error> {
        self.socket.send(message.bytes()).map_err(|(_, error)| failed("send")(error))
    }

    fn take(&self, message: &mut Message) -> Result<(), Error> {
        let came = self.socket.recv().map_err(failed("receive"))?;
        if came.len() != message.bytes().len() {
            return Err(Error::Usage(format!("{} bytes came instead of 48", came.len())));
        }
        message.bytes_mut().copy_from_slice(&came);
        Ok(())
    }
}

impl ClientEnd for End {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.take(answer)
    }
}

impl ServerEnd for End {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.take(request)
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
