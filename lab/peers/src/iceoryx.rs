//! iceoryx2: request and response over shared memory. A side polls, or waits for an event.
//!
//! Services are as narrow as in its own benchmark: one client, one server, one request at a time.

use iceoryx2::active_request::ActiveRequest;
use iceoryx2::node::Node;
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::client::Client;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::server::Server;
use iceoryx2::service::port_factory::request_response::PortFactory;
use iceoryx2::prelude::{LogLevel, NodeBuilder, ipc, set_log_level};
use m3ipc_bench::Error;
use m3ipc_bench::ends::{ClientEnd, ServerEnd};
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;

use crate::failed;
use crate::library::Library;

type Words = [u64; 6];
type Shared = ipc::Service;
type Service = PortFactory<Shared, Words, (), Words, ()>;

/// Request and response.
pub const LIBRARY: Library = Library {
    name: "iceoryx2",
    version: || env!("VERSION_ICEORYX2").into(),
    waits: &[Wait::Spin, Wait::Yield, Wait::Block],
    tells_death: false,
    client,
    server,
    tidy,
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let (node, service) = open(name)?;
    let client = service.client_builder().create().map_err(failed("a client"))?;
    let events = Events::new(&node, name, run.job().wait, ("ask", "tell"))?;
    run.drive(Asking { client, events, wait: run.job().wait, _node: node })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let (node, service) = open(name)?;
    let server = service.server_builder().create().map_err(failed("a server"))?;
    let events = Events::new(&node, name, run.job().wait, ("tell", "ask"))?;
    run.serve(Answering { active: None, server, events, wait: run.job().wait, _node: node })
}

fn open(name: &str) -> Result<(Node<Shared>, Service), Error> {
    set_log_level(LogLevel::Fatal);
    let node = NodeBuilder::new().create::<Shared>().map_err(failed("a node"))?;
    let service = node
        .service_builder(&name.try_into().map_err(failed("a name"))?)
        .request_response::<Words, Words>()
        .max_clients(1)
        .max_servers(1)
        .max_active_requests_per_client(1)
        .open_or_create()
        .map_err(failed("open the service"))?;
    Ok((node, service))
}

/// The events of a side that sleeps: one to send, one to wait for.
struct Events(Option<(Notifier<Shared>, Listener<Shared>)>);

impl Events {
    fn new(
        node: &Node<Shared>,
        name: &str,
        wait: Wait,
        (sent, awaited): (&str, &str),
    ) -> Result<Self, Error> {
        if wait != Wait::Block {
            return Ok(Self(None));
        }
        let event = |which: &str| {
            let name = format!("{name}/{which}");
            node.service_builder(&name.as_str().try_into().map_err(failed("a name"))?)
                .event()
                .open_or_create()
                .map_err(failed("open an event"))
        };
        let notifier = event(sent)?.notifier_builder().create().map_err(failed("a notifier"))?;
        let listener = event(awaited)?.listener_builder().create().map_err(failed("a listener"))?;
        Ok(Self(Some((notifier, listener))))
    }

    fn send(&self) -> Result<(), Error> {
        match &self.0 {
            Some((notifier, _)) => notifier.notify().map(drop).map_err(failed("notify")),
            None => Ok(()),
        }
    }

    /// Waits as this side waits, once.
    fn pause(&mut self, wait: Wait) -> Result<(), Error> {
        match (&mut self.0, wait) {
            (Some((_, listener)), _) => {
                listener.blocking_wait(|_| ()).map(drop).map_err(failed("wait"))
            }
            (None, Wait::Yield) => {
                std::thread::yield_now();
                Ok(())
            }
            (None, _) => {
                std::hint::spin_loop();
                Ok(())
            }
        }
    }
}

/// Removes dead nodes, as the next user of the library would.
fn tidy() {
    set_log_level(LogLevel::Fatal);
    if let Ok(node) = NodeBuilder::new().create::<Shared>() {
        node.try_cleanup_dead_nodes();
    }
}

struct Asking {
    client: Client<Shared, Words, (), Words, ()>,
    events: Events,
    wait: Wait,
    _node: Node<Shared>,
}

impl ClientEnd for Asking {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let pending: PendingResponse<Shared, Words, (), Words, ()> =
            self.client.send_copy(request.words).map_err(failed("send"))?;
        self.events.send()?;
        loop {
            if let Some(response) = pending.receive().map_err(failed("receive"))? {
                answer.words = *response.payload();
                return Ok(());
            }
            self.events.pause(self.wait)?;
        }
    }
}

struct Answering {
    active: Option<ActiveRequest<Shared, Words, (), Words, ()>>,
    server: Server<Shared, Words, (), Words, ()>,
    events: Events,
    wait: Wait,
    _node: Node<Shared>,
}

impl ServerEnd for Answering {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        loop {
            if let Some(active) = self.server.receive().map_err(failed("receive"))? {
                request.words = *active.payload();
                self.active = Some(active);
                return Ok(());
            }
            self.events.pause(self.wait)?;
        }
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let active = self.active.take();
        let active = active.ok_or_else(|| Error::Usage("an answer without a request".into()))?;
        active.send_copy(answer.words).map_err(failed("answer"))?;
        self.events.send()
    }
}
