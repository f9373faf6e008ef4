//! The two ends of messages.
//!
//! ```text
//!        client                    server
//! IPC1   send, receive(server)     receive(any), send
//! IPC2   sendrec                   receive(any), send
//! IPC3   notify, receive(server)   receive(any), notify
//! ```
//! The stop message is a sendrec in all three.

use m3ipc::{Address, Endpoint, ReceiveError, SendError, SendRecError, Source};

use crate::ends::{ClientEnd, ServerEnd};
use crate::error::Error;
use crate::job::{Report, Test};
use crate::payload::Message;
use crate::run::Run;
use crate::subjects::message::{inward, outward};
use crate::subjects::node::VmPeer;

/// Runs the client.
pub fn client(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    let mut endpoint = peer.bind_with(run.job().wait)?;
    let server = peer.find_server(&mut endpoint)?;
    match run.load().test {
        Test::Ipc1 => run.drive(Sender { endpoint, server }),
        Test::Ipc3 => run.drive(Notifier { endpoint, server }),
        _ => run.drive(Caller { endpoint, server }),
    }
}

/// Runs the server.
pub fn server(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    let mut endpoint = peer.bind_with(run.job().wait)?;
    peer.attach_name(&mut endpoint)?;
    run.serve(Server { endpoint, client: m3ipc::NONE, notified: false })
}

#[cold]
fn ended(error: impl std::error::Error, died: bool) -> Error {
    if died { Error::PeerGone } else { Error::Usage(error.to_string()) }
}

fn call(
    endpoint: &mut Endpoint,
    server: Address,
    request: &Message,
) -> Result<m3ipc::Message, Error> {
    endpoint.sendrec(server, &outward(request)).map_err(|error| {
        use SendRecError::{DiedAfter, DiedBefore, Nobody};
        let died = matches!(error, DiedBefore(_) | DiedAfter(_) | Nobody(_));
        ended(error, died)
    })
}

fn receive(endpoint: &mut Endpoint, source: Source) -> Result<m3ipc::Message, Error> {
    endpoint.receive(source).map_err(|error| {
        let died = matches!(error, ReceiveError::Died(_));
        ended(error, died)
    })
}

fn send(endpoint: &mut Endpoint, to: Address, message: &Message) -> Result<(), Error> {
    endpoint.send(to, &outward(message)).map_err(|error| {
        let died = matches!(error, SendError::Died(_));
        ended(error, died)
    })
}

struct Caller {
    endpoint: Endpoint,
    server: Address,
}

impl ClientEnd for Caller {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        inward(&call(&mut self.endpoint, self.server, request)?, answer);
        Ok(())
    }
}

struct Sender {
    endpoint: Endpoint,
    server: Address,
}

impl ClientEnd for Sender {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        send(&mut self.endpoint, self.server, request)?;
        inward(&receive(&mut self.endpoint, Source::From(self.server))?, answer);
        Ok(())
    }
}

struct Notifier {
    endpoint: Endpoint,
    server: Address,
}

impl ClientEnd for Notifier {
    #[inline]
    fn trip(&mut self, _: &Message, _: &mut Message) -> Result<(), Error> {
        self.endpoint.notify(self.server).map_err(Error::of("notify"))?;
        receive(&mut self.endpoint, Source::From(self.server)).map(drop)
    }

    fn stop(&mut self) -> Result<(), Error> {
        call(&mut self.endpoint, self.server, &Message::stop()).map(drop)
    }
}

struct Server {
    endpoint: Endpoint,
    client: Address,
    notified: bool,
}

impl ServerEnd for Server {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let message = receive(&mut self.endpoint, Source::Any)?;
        self.client = message.source;
        self.notified = message.is_notification();
        if !self.notified {
            inward(&message, request);
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        if self.notified {
            return self.endpoint.notify(self.client).map_err(Error::of("notify"));
        }
        send(&mut self.endpoint, self.client, answer)
    }
}
