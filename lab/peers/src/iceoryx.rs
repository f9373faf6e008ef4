//! iceoryx2: request and response over shared memory; a side that looks for them, or one that waits for an event.
//!
//! Services are as narrow as their own benchmark makes them: one client, one server, one request at a time.

use iceoryx2::active_request::ActiveRequest;
use iceoryx2::node::Node;
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::client::Client;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::server::Server;
use iceoryx2::prelude::{LogLevel, NodeBuilder, ipc, set_log_level};
use m3ipc_bench::Error;
use m3ipc_bench::job::{Report, Wait};
use m3ipc_bench::mechanism::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use m3ipc_bench::payload::Message;
use m3ipc_bench::peer::Run;

use crate::{failed, meeting, not_here};

type Words = [u64; 6];
type Shared = ipc::Service;

/// Request/response.
pub struct Iceoryx;

impl Mechanism for Iceoryx {
    fn name(&self) -> &'static str {
        "iceoryx2"
    }

    fn waits(&self) -> &'static [Wait] {
        &[Wait::Spin, Wait::Yield, Wait::Block]
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        Err(not_here())
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let (name, node) = begin(&inherited)?;
        let service = node
            .service_builder(&name.as_str().try_into().map_err(failed("a name"))?)
            .request_response::<Words, Words>()
            .max_clients(1)
            .max_servers(1)
            .max_active_requests_per_client(1)
            .open_or_create()
            .map_err(failed("open the service"))?;
        let client = service.client_builder().create().map_err(failed("a client"))?;
        let bells = Bells::new(&node, &name, run.job().wait, ("ask", "tell"))?;
        run.drive(Asking { client, bells, wait: run.job().wait, _node: node })
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let (name, node) = begin(&inherited)?;
        let service = node
            .service_builder(&name.as_str().try_into().map_err(failed("a name"))?)
            .request_response::<Words, Words>()
            .max_clients(1)
            .max_servers(1)
            .max_active_requests_per_client(1)
            .open_or_create()
            .map_err(failed("open the service"))?;
        let server = service.server_builder().create().map_err(failed("a server"))?;
        let bells = Bells::new(&node, &name, run.job().wait, ("tell", "ask"))?;
        run.serve(Answering { active: None, server, bells, wait: run.job().wait, _node: node })
    }
}

fn begin(inherited: &Inherited) -> Result<(String, Node<Shared>), Error> {
    set_log_level(LogLevel::Fatal);
    let node = NodeBuilder::new().create::<Shared>().map_err(failed("a node"))?;
    Ok((meeting(inherited)?, node))
}

/// The events of a side that sleeps: one to ring, one to wait for.
struct Bells(Option<(Notifier<Shared>, Listener<Shared>)>);

impl Bells {
    fn new(node: &Node<Shared>, name: &str, wait: Wait, (ring, hear): (&str, &str)) -> Result<Self, Error> {
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
        let notifier = event(ring)?.notifier_builder().create().map_err(failed("a notifier"))?;
        let listener = event(hear)?.listener_builder().create().map_err(failed("a listener"))?;
        Ok(Self(Some((notifier, listener))))
    }

    fn ring(&self) -> Result<(), Error> {
        match &self.0 {
            Some((notifier, _)) => notifier.notify().map(drop).map_err(failed("notify")),
            None => Ok(()),
        }
    }

    /// Waits as this side waits, once.
    fn pause(&mut self, wait: Wait) -> Result<(), Error> {
        match (&mut self.0, wait) {
            (Some((_, listener)), _) => listener.blocking_wait(|_| ()).map(drop).map_err(failed("wait")),
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

/// Cleans up behind dead nodes, as the next user of the library would.
pub fn tidy() {
    set_log_level(LogLevel::Fatal);
    if let Ok(node) = NodeBuilder::new().create::<Shared>() {
        node.try_cleanup_dead_nodes();
    }
}

struct Asking {
    client: Client<Shared, Words, (), Words, ()>,
    bells: Bells,
    wait: Wait,
    _node: Node<Shared>,
}

impl ClientEnd for Asking {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let pending: PendingResponse<Shared, Words, (), Words, ()> =
            self.client.send_copy(request.words).map_err(failed("send"))?;
        self.bells.ring()?;
        loop {
            if let Some(response) = pending.receive().map_err(failed("receive"))? {
                answer.words = *response.payload();
                return Ok(());
            }
            self.bells.pause(self.wait)?;
        }
    }
}

struct Answering {
    active: Option<ActiveRequest<Shared, Words, (), Words, ()>>,
    server: Server<Shared, Words, (), Words, ()>,
    bells: Bells,
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
            self.bells.pause(self.wait)?;
        }
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let active = self.active.take().ok_or_else(|| Error::Usage("an answer without a request".into()))?;
        active.send_copy(answer.words).map_err(failed("answer"))?;
        self.bells.ring()
    }
}
