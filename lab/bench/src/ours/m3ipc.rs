//! m3ipc among the other mechanisms: a VM of the run's own node, a server that
//! has a name there, and a client that waits for that name.
//!
//! ```text
//!        client                    server
//! IPC1   send, receive(server)     receive(any), send
//! IPC2   sendrec                   receive(any), send
//! IPC3   notify, receive(server)   receive(any), notify
//! ```
//! The stop message is a sendrec in all three.

use m3ipc::{Address, Endpoint, Node, Source, Timeout, Vm, VmConfig, WaitStrategy};

use super::keeper::{self, Keeper};
use super::{Memory, Ours, contact, idle, memory, straight};
use crate::error::Error;
use crate::job::{Report, Wait, Work};
use crate::mechanism::{ClientEnd, Family, Inherited, Mechanism, ServerEnd, Site, Transport};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::peer::Run;

/// m3ipc itself.
pub struct M3ipc;

impl Mechanism for M3ipc {
    fn name(&self) -> &'static str {
        "m3ipc"
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self) -> &'static [Wait] {
        &[Wait::Spin, Wait::Adaptive, Wait::Block]
    }

    fn bytes(&self, work: Work) -> usize {
        if work == Work::Ipc3 { 0 } else { MESSAGE_BYTES }
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, site: &Site) -> Result<Transport, Error> {
        one(self.open_many(site, 1)?)
    }

    fn open_many(&self, site: &Site, pairs: usize) -> Result<Vec<Transport>, Error> {
        let directory = keeper::directory(site)?;
        let open = OpenVm::new(&directory)?;
        let names = |pair: usize| open.names(&format!("server-{pair}"));
        let mut transports: Vec<Transport> = (0..pairs)
            .map(|pair| Transport { names: names(pair), ..Transport::default() })
            .collect();
        if let Some(last) = transports.last_mut() {
            last.keep.push(Box::new(open));
        }
        Ok(transports)
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let place = Place::new(&inherited)?;
        let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
        let server = place.server(&mut endpoint)?;
        endpoint.set_strategy(strategy(run.job().wait));
        match run.job().work {
            Work::Ipc1 => run.drive(Sender { endpoint, server }),
            Work::Ipc2 => run.drive(Caller { endpoint, server }),
            Work::Ipc3 => run.drive(Notifier { endpoint, server }),
        }
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let place = Place::new(&inherited)?;
        let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
        endpoint.name_attach(&place.name).map_err(told("take the server's name"))?;
        endpoint.set_strategy(strategy(run.job().wait));
        run.serve(Server { endpoint, client: m3ipc::NONE, notified: false })
    }

    fn ours(&self) -> Option<&dyn Ours> {
        Some(self)
    }
}

impl Ours for M3ipc {
    fn idle(&self, inherited: Inherited, run: &Run, clients: u32) -> Result<Report, Error> {
        idle::clients(&Place::new(&inherited)?, run, clients)
    }

    fn mesh(&self, inherited: Inherited, run: &Run, endpoints: u32) -> Result<Report, Error> {
        idle::mesh(&Place::new(&inherited)?, run, endpoints)
    }

    fn contact(&self, inherited: Inherited, run: &Run, times: u32) -> Result<Report, Error> {
        contact::times(&Place::new(&inherited)?, run, times)
    }

    fn straight(&self, inherited: Inherited, run: &Run, trips: u64) -> Result<Report, Error> {
        straight::trips(&Place::new(&inherited)?, run, trips)
    }

    fn memory(&self, site: &Site) -> Result<Memory, Error> {
        memory::measure(self, site)
    }

    fn keep(&self, inherited: &Inherited) -> Result<(), Error> {
        Keeper::keep(inherited)
    }
}

/// The only one of a list that was made with one.
pub fn one(transports: Vec<Transport>) -> Result<Transport, Error> {
    transports.into_iter().next().ok_or_else(|| Error::Usage("no transport was opened".into()))
}

/// Turns an error of m3ipc into ours, naming what was done.
pub fn told<E: std::error::Error>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Usage(format!("{what}: {error}"))
}

fn strategy(wait: Wait) -> WaitStrategy {
    match wait {
        Wait::Spin => WaitStrategy::Spin,
        Wait::Block => WaitStrategy::Block,
        Wait::Adaptive | Wait::Yield => WaitStrategy::Adaptive,
    }
}

/// A VM for one measurement; it ends with it.
pub struct OpenVm {
    node: Node,
    vm: Vm,
    directory: std::path::PathBuf,
}

impl OpenVm {
    /// One in the node of this run.
    pub fn at(site: &Site) -> Result<Self, Error> {
        Self::new(&keeper::directory(site)?)
    }

    /// What a peer is told that is, or looks for, a server of this name.
    pub fn names(&self, server: &str) -> Vec<String> {
        vec![self.directory.to_string_lossy().into_owned(), self.vm.id().to_string(), server.into()]
    }

    /// Where it is: the runtime directory, and its id.
    pub fn place(&self) -> (&std::path::Path, i32) {
        (&self.directory, self.vm.id())
    }

    fn new(directory: &std::path::Path) -> Result<Self, Error> {
        let mut node = Node::find(directory).map_err(told("reach the node of this run"))?;
        let number = keeper::next_number();
        let config = VmConfig::new(&format!("bench-{number}")).procs(keeper::PROCS).grace_ms(0);
        let vm = node.vm_init(&config).map_err(told("make a VM"))?;
        Ok(Self { node, vm, directory: directory.into() })
    }
}

impl Drop for OpenVm {
    fn drop(&mut self) {
        // Its members have been ended before; where it stays the node's end takes it along.
        let _ = self.node.vm_end(self.vm.id());
    }
}

/// What a peer was told: a VM, and the name of the server there.
pub struct Place {
    /// The node.
    pub directory: std::path::PathBuf,
    /// The VM.
    pub vm: Vm,
    /// The server's name.
    pub name: String,
}

impl Place {
    /// What the names say.
    pub fn new(inherited: &Inherited) -> Result<Self, Error> {
        let [directory, vm, name] = inherited.names.as_slice() else {
            return Err(Error::Usage("a peer of m3ipc is told directory, VM and server".into()));
        };
        let id = vm.parse().map_err(|_| Error::Usage(format!("{vm:?} is no VM id")))?;
        let mut node =
            Node::find(directory.as_ref()).map_err(told("reach the node of this run"))?;
        let vm = node.vm(id).map_err(told("find the VM"))?;
        Ok(Self { directory: directory.into(), vm, name: name.clone() })
    }

    /// The server's address, once it has its name.
    pub fn server(&self, endpoint: &mut Endpoint) -> Result<Address, Error> {
        endpoint.wait_name(&self.name, Timeout::Never).map_err(told("wait for the server"))
    }
}

/// A message of the benchmark as one of m3ipc: its last word's low half is the type.
#[inline]
pub fn outward(message: &Message) -> m3ipc::Message {
    let [words @ .., last] = &message.words;
    let mut out = m3ipc::Message::new((last & 0x7fff_ffff) as i32);
    out.payload = bytemuck::cast(*words);
    out
}

/// The other way.
#[inline]
pub fn inward(message: &m3ipc::Message, to: &mut Message) {
    let [words @ .., last] = &mut to.words;
    *words = bytemuck::cast(message.payload);
    *last = u64::from(message.m_type.cast_unsigned());
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
        use m3ipc::SendRecError as E;
        let died = matches!(error, E::DiedBefore(_) | E::DiedAfter(_) | E::Nobody(_));
        ended(error, died)
    })
}

fn receive(endpoint: &mut Endpoint, source: Source) -> Result<m3ipc::Message, Error> {
    endpoint.receive(source).map_err(|error| {
        let died = matches!(error, m3ipc::ReceiveError::Died(_));
        ended(error, died)
    })
}

fn send(endpoint: &mut Endpoint, to: Address, message: &Message) -> Result<(), Error> {
    endpoint.send(to, &outward(message)).map_err(|error| {
        let died = matches!(error, m3ipc::SendError::Died(_));
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
        self.endpoint.notify(self.server).map_err(told("notify"))?;
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
            return self.endpoint.notify(self.client).map_err(told("notify"));
        }
        send(&mut self.endpoint, self.client, answer)
    }
}
