//! The connection to a node and its operations. The questions are in `node/queries.rs`.

mod queries;

use crate::control::{Control, IfAbsent, RequestLimit, unexpected};
use crate::error::{BindError, Fail, NodeError};
use crate::info::{NodeParams, Privileges, VmInfo};
use crate::timeout::Timeout;
use crate::trace::{Trace, TraceConfig};
use crate::vm::{Vm, VmConfig};
use m3ipc_abi::{Address, Code};
use m3ipc_wire::{Reply, Request};
use std::path::Path;

/// Why a request that waits for the end of others passed the limit of its connection.
const NOT_ENDED: &str = "the time limit passed before the members had ended; they may have the \
                         grace time of their VM; look with `m3 vm ls`, or give a longer limit";

/// A connection to a node.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let directory = node.directory();
/// use m3ipc::{Node, VmConfig};
///
/// let mut node = Node::attach_at(directory)?;
/// assert_eq!(node.directory(), directory);
/// let vm = node.vm_init(&VmConfig::new("shop"))?;
/// let server = vm.bind(1)?;
/// assert_eq!(node.endpoints(vm.id())?[0].address, server.address().0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Node {
    control: Control,
}

impl Node {
    /// Connects to the node of this process's [runtime directory](crate::runtime::directory). A
    /// daemon is started if none runs.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # // SAFETY: this process has no other thread.
    /// # unsafe { std::env::set_var("M3_RUNTIME_DIR", test.directory()) };
    /// let mut node = m3ipc::Node::attach()?;
    /// println!("the daemon is process {}", node.info()?.daemon_pid);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::NotRunning`] if no daemon can be started, [`NodeError::Version`].
    pub fn attach() -> Result<Self, NodeError> {
        Self::attach_at(&crate::runtime::directory())
    }

    /// Connects to the node of this runtime directory. A daemon is started if none runs. The
    /// example is at [`Node`].
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_at(directory: &Path) -> Result<Self, NodeError> {
        Ok(Self { control: Control::connect(directory, IfAbsent::Start)? })
    }

    /// Connects to the node of this runtime directory if its daemon runs.
    ///
    /// ```
    /// use m3ipc::{Node, NodeError};
    ///
    /// let absent = Node::find("/nonexistent".as_ref());
    /// assert!(matches!(absent, Err(NodeError::NotRunning(_))));
    /// ```
    ///
    /// # Errors
    /// [`NodeError::NotRunning`] if it does not.
    pub fn find(directory: &Path) -> Result<Self, NodeError> {
        Self::find_timeout(directory, Timeout::Never)
    }

    /// Connects as [`find`](Self::find) does, with one time limit for this call and for all later
    /// requests of the connection. The binds of its VMs end with the limit too. A VM or a node that
    /// this connection ends goes on ending after the limit.
    ///
    /// Without a limit, the daemon has 5 seconds for each answer. It may be stopped.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// use m3ipc::Node;
    /// use std::time::Duration;
    ///
    /// let mut node = Node::find_timeout(test.directory(), Duration::from_secs(1))?;
    /// println!("{} VMs", node.vms()?.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`find`](Self::find); [`NodeError::TimedOut`] with the pid of a daemon that does not
    /// answer.
    pub fn find_timeout(directory: &Path, limit: impl Into<Timeout>) -> Result<Self, NodeError> {
        let limit = RequestLimit::of(limit.into());
        Ok(Self { control: Control::connect_within(directory, IfAbsent::Fail, limit)? })
    }

    /// Initialises the node (`drvs_init`). A daemon is started if none runs.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # // SAFETY: this process has no other thread.
    /// # unsafe { std::env::set_var("M3_RUNTIME_DIR", test.directory()) };
    /// use m3ipc::{Node, NodeError, NodeParams};
    ///
    /// let params = NodeParams { vms: Some(8), ..NodeParams::default() };
    /// match Node::init(&params) {
    ///     Ok(node) => println!("initialised in {}", node.directory().display()),
    ///     Err(NodeError::AlreadyInitialised(reason)) => println!("{reason}"),
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::AlreadyInitialised`]; [`NodeError::OutOfRange`] and [`NodeError::BadValue`] for
    /// bad parameters.
    pub fn init(params: &NodeParams) -> Result<Self, NodeError> {
        let directory = crate::runtime::directory();
        let mut control = Control::connect(&directory, IfAbsent::StartUninitialised)?;
        control.request(&Request::NodeInit(params.to_wire()))?;
        Ok(Self { control })
    }

    /// The runtime directory. The example is at [`Node`].
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.control.directory()
    }

    /// Ends every VM, then the node (`drvs_end`).
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// use m3ipc::{Node, NodeError};
    ///
    /// Node::find(test.directory())?.end()?;
    /// # while Node::find(test.directory()).is_ok() {}
    /// assert!(matches!(Node::find(test.directory()), Err(NodeError::NotRunning(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Denied`] for every user but root and the user of the daemon.
    pub fn end(mut self) -> Result<(), NodeError> {
        self.request_and_wait(&Request::NodeEnd)?;
        Ok(())
    }

    /// Creates a VM (`vm_init`).
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// use m3ipc::VmConfig;
    ///
    /// assert_eq!(node.vm_init(&VmConfig::new("shop"))?.name(), "shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`NodeError::InUse`] if the id or the name is in use.
    /// - [`NodeError::OutOfRange`] and [`NodeError::BadValue`] for bad parameters.
    pub fn vm_init(&mut self, config: &VmConfig) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmInit(config.params().clone()))
    }

    /// Gives the VM of this name, or creates it. Programs that start in any order, and again after
    /// a crash, so share one VM.
    ///
    /// A VM that exists needs the same parameters; those that the configuration leaves to the
    /// daemon (id, slots, group) fit every VM. The call waits until a VM of this name that is
    /// ending has ended, and then creates the VM.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// use m3ipc::{NodeError, VmConfig};
    ///
    /// let shop = VmConfig::new("shop");
    /// let created = node.vm_open_or_create(&shop)?;
    /// let opened = node.vm_open_or_create(&shop)?;
    /// assert_eq!(created.id(), opened.id());
    ///
    /// let other = node.vm_open_or_create(&shop.mode(0o777));
    /// assert!(matches!(other, Err(NodeError::InUse(_))), "the mode of the VM is 750");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`NodeError::InUse`] if the VM has another parameter, which the reason names, or if
    ///   another VM has the id.
    /// - [`NodeError::Denied`] if the VM belongs to another user, also for root.
    /// - As [`vm_init`](Self::vm_init).
    pub fn vm_open_or_create(&mut self, config: &VmConfig) -> Result<Vm, NodeError> {
        // The members of a VM that is ending have the VM's grace time.
        let request = Request::VmOpen(config.params().clone());
        let reply = self.request_and_wait(&request)?;
        self.vm_in(reply)
    }

    /// Sends a request whose reply waits for other processes. Waits while the daemon runs, or until
    /// the limit of the connection.
    fn request_and_wait(&mut self, request: &Request) -> Result<Reply, Fail> {
        let answered = match self.control.limit().at_ns() {
            None => self.control.request_while_running(request),
            Some(at_ns) => self.control.request_through(request, at_ns).map_err(|fail| {
                let is_late = fail.code == Code::TimedOut && !fail.has_details();
                if is_late { Fail::new(Code::TimedOut, NOT_ENDED) } else { fail }
            }),
        };
        answered.map(|(reply, _)| reply)
    }

    fn vm_of(&mut self, request: &Request) -> Result<Vm, NodeError> {
        let (reply, _) = self.control.request(request)?;
        self.vm_in(reply)
    }

    fn vm_in(&self, reply: Reply) -> Result<Vm, NodeError> {
        match reply {
            Reply::Vm(info) => {
                Ok(Vm::new(VmInfo::of(info), self.directory(), self.control.limit()))
            }
            _ => Err(unexpected().into()),
        }
    }

    /// Ends a VM (`vm_end`). Its members get SIGPIPE, then SIGKILL. Returns after the last of them
    /// has ended.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// node.vm_end(vm)?;
    /// assert!(node.vms()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::OutOfRange`], [`NodeError::Unknown`]; [`NodeError::Denied`] for every user but
    /// root and the owner.
    pub fn vm_end(&mut self, id: i32) -> Result<(), NodeError> {
        self.request_and_wait(&Request::VmEnd(id))?;
        Ok(())
    }

    /// Binds another process (`lclbind`). The process has the rights of the caller's user alone, or
    /// of any one user if the caller is root. It agrees: it is a child of the caller, or it waits
    /// in [`Endpoint::wait_for_bind`](crate::Endpoint::wait_for_bind).
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// # // SAFETY: this process has no other thread.
    /// # unsafe { std::env::set_var("M3_RUNTIME_DIR", test.directory()) };
    /// # let pid = i32::try_from(std::process::id())?;
    /// use m3ipc::Endpoint;
    ///
    /// let address = node.bind_other(vm, pid, 5)?;
    /// // The process with this number takes its endpoint:
    /// let endpoint = Endpoint::wait_for_bind(None)?;
    /// assert_eq!(endpoint.address(), address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_other(&mut self, vm: i32, pid: i32, slot: i32) -> Result<Address, BindError> {
        let bound = self.number(&Request::BindOther { vm, pid, slot });
        bound.map(Address).map_err(|fail| BindError::of(fail, Address(slot)))
    }

    /// Unbinds an endpoint and waits until it has left.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// use m3ipc::{ReceiveError, Source};
    ///
    /// let mut server = test.vm().bind(1)?;
    /// let address = server.address();
    /// let thread = std::thread::spawn(move || server.receive(Source::Any));
    /// node.unbind(vm, address)?;
    /// assert!(matches!(thread.join().unwrap(), Err(ReceiveError::Unbound(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`] if no such endpoint is bound, [`NodeError::Denied`].
    pub fn unbind(&mut self, vm: i32, address: Address) -> Result<(), NodeError> {
        self.unbind_timeout(vm, address, Timeout::Never)
    }

    /// Unbinds an endpoint and waits until it has left, within a time limit. The endpoint leaves
    /// even if the limit passes.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// use m3ipc::NodeError;
    /// use std::time::Duration;
    ///
    /// // The server works and does not leave in time.
    /// let mut server = test.vm().bind(1)?;
    /// let left = node.unbind_timeout(vm, server.address(), Duration::from_millis(1));
    /// assert!(matches!(left, Err(NodeError::TimedOut(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`unbind`](Self::unbind); [`NodeError::TimedOut`], [`NodeError::Interrupted`].
    pub fn unbind_timeout(
        &mut self,
        vm: i32,
        address: Address,
        limit: impl Into<Timeout>,
    ) -> Result<(), NodeError> {
        let request = Request::Unbind { vm, address: address.0 };
        match limit.into() {
            Timeout::Never => {
                self.request_and_wait(&request)?;
            }
            limit => {
                let own_ns = limit.deadline().at_ns;
                let until_ns = self.control.limit().at_ns().map_or(own_ns, |at| at.min(own_ns));
                self.control.request_until(&request, until_ns, &mut crate::control::stop)?;
            }
        }
        Ok(())
    }

    /// Ends an endpoint's receive from ANY. An endpoint in another state remembers the wakeup for
    /// its next receive from ANY.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// use m3ipc::{NodeError, ReceiveError, Source};
    ///
    /// let mut server = test.vm().bind(1)?;
    /// // The server does not receive now.
    /// let woken = node.wakeup(vm, server.address());
    /// assert!(matches!(woken, Err(NodeError::Remembered(_))));
    /// assert!(matches!(server.receive(Source::Any), Err(ReceiveError::Woken(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Remembered`] if the endpoint remembers it, and others.
    pub fn wakeup(&mut self, vm: i32, address: Address) -> Result<(), NodeError> {
        self.number(&Request::Wakeup { vm, address: address.0 })?;
        Ok(())
    }

    /// Notifies an endpoint in the name of another one, or of a task (`hdw_notify`). Only root and
    /// the owner of the VM may; the caller need not be a member.
    ///
    /// The bits of arguments that the receiver has not taken yet join.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// use m3ipc::{HARDWARE, Source};
    ///
    /// let mut driver = test.vm().bind(1)?;
    /// node.notify_for(vm, HARDWARE, driver.address(), 1 << 4)?;
    /// let interrupt = driver.receive(Source::Any)?;
    /// assert_eq!((interrupt.source, interrupt.word(1)), (HARDWARE, 1 << 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Denied`], [`NodeError::Unknown`] and [`NodeError::OutOfRange`]; a dead
    /// destination is [`NodeError::System`] with -109.
    pub fn notify_for(
        &mut self,
        vm: i32,
        source: Address,
        to: Address,
        argument: u64,
    ) -> Result<(), NodeError> {
        let (source, destination) = (source.0, to.0);
        self.number(&Request::NotifyFor { vm, source, destination, bits: argument })?;
        Ok(())
    }

    /// Sets the privileges of an endpoint (`setpriv`). Only root and the owner of the VM may.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// use m3ipc::{Message, Privileges, SendError};
    ///
    /// let (mut server, mut client) = test.pair();
    /// let privileges = node.privileges(vm, client.address())?;
    /// let none = Privileges { ipc_to: Some(Vec::new()), ..privileges };
    /// node.set_privileges(vm, client.address(), none)?;
    /// let sent = client.try_send(server.address(), &Message::new(7));
    /// assert!(matches!(sent, Err(SendError::PartnerDenied(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Denied`], [`NodeError::Unknown`].
    pub fn set_privileges(
        &mut self,
        vm: i32,
        address: Address,
        privileges: Privileges,
    ) -> Result<(), NodeError> {
        let privileges = privileges.into_wire();
        self.number(&Request::SetPrivileges { vm, address: address.0, privileges })?;
        Ok(())
    }

    /// Traces a VM. Only root and the owner of the VM may. A VM has one tracer. The example is at
    /// [`Trace`].
    ///
    /// # Errors
    /// [`NodeError::Denied`]; [`NodeError::Busy`] if the VM has a tracer; [`NodeError::Unknown`].
    pub fn trace(&mut self, vm: i32, config: TraceConfig) -> Result<Trace, NodeError> {
        Ok(Trace::begin(self.directory(), vm, config)?)
    }

    fn number(&mut self, request: &Request) -> Result<i32, Fail> {
        match self.control.request(request)?.0 {
            Reply::Number(number) => Ok(number),
            Reply::Done => Ok(0),
            _ => Err(unexpected()),
        }
    }
}
