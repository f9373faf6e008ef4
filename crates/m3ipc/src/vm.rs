//! A VM of the node, and how endpoints are bound in it.

use crate::control::RequestLimit;
use crate::endpoint::{self, Endpoint, Interruption};
use crate::error::{BindError, NodeError};
use crate::info::{VmInfo, VmLife};
use crate::runtime;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, NONE};
use m3ipc_wire::{BackedSlot, BindKind, VmParams};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The parameters of a new VM.
///
/// ```
/// use m3ipc::VmConfig;
///
/// let config = VmConfig::new("shop")
///     .id(3)
///     .procs(64)
///     .tasks(8)
///     .mode(0o755)
///     .group(100)
///     .grace_ms(500)
///     .copy_granted(true)
///     .domain("web", 80);
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    params: VmParams,
}

impl VmConfig {
    /// A VM of this name with the limits of the node, for its owner and its group. The example is
    /// at [`VmConfig`].
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            params: VmParams {
                id: None,
                name: name.to_owned(),
                procs: None,
                tasks: None,
                mode: 0o750,
                gid: None,
                grace_ms: 1_000,
                copy_granted: false,
                domains: BTreeMap::new(),
                domain_users: BTreeMap::new(),
                life: VmLife::default().to_wire(),
            },
        }
    }

    /// Chooses the id. The default is the lowest free one. The example is at [`VmConfig`].
    #[must_use]
    pub fn id(mut self, id: i32) -> Self {
        self.params.id = Some(id);
        self
    }

    /// Sets the number of process slots. The example is at [`VmConfig`].
    #[must_use]
    pub fn procs(mut self, slots: i32) -> Self {
        self.params.procs = Some(slots);
        self
    }

    /// Sets the number of task slots. The example is at [`VmConfig`].
    #[must_use]
    pub fn tasks(mut self, slots: i32) -> Self {
        self.params.tasks = Some(slots);
        self
    }

    /// Sets the permission bits of owner, group and others: 4 see, 2 bind system slots, 1 join. The
    /// example is at [`VmConfig`].
    #[must_use]
    pub fn mode(mut self, mode: u16) -> Self {
        self.params.mode = mode;
        self
    }

    /// Sets the group. The example is at [`VmConfig`].
    #[must_use]
    pub fn group(mut self, gid: u32) -> Self {
        self.params.gid = Some(gid);
        self
    }

    /// Sets the time between SIGPIPE and SIGKILL at the end of the VM, in milliseconds. The example
    /// is at [`VmConfig`].
    #[must_use]
    pub fn grace_ms(mut self, ms: u32) -> Self {
        self.params.grace_ms = ms;
        self
    }

    /// Requires a lease or a grant for copies between members of one user too. Between users every
    /// copy requires one. The example is at [`VmConfig`].
    #[must_use]
    pub fn copy_granted(mut self, granted: bool) -> Self {
        self.params.copy_granted = granted;
        self
    }

    /// Names a domain of com-sockets. The name has 1 to 15 bytes and is no number.
    ///
    /// The daemon refuses more than 32 names, a number beyond its network, and two names for one
    /// number. The example is at [`VmConfig`].
    #[must_use]
    pub fn domain(mut self, name: &str, number: u32) -> Self {
        self.params.domains.insert(name.to_owned(), number);
        self
    }

    /// Names the user whose processes may join a named domain. Without this, a named domain is for
    /// the owner of the VM.
    ///
    /// ```
    /// let config = m3ipc::VmConfig::new("shop").domain("web", 80).domain_user("web", 1_001);
    /// ```
    #[must_use]
    pub fn domain_user(mut self, name: &str, uid: u32) -> Self {
        self.params.domain_users.insert(name.to_owned(), uid);
        self
    }

    /// Chooses when the VM ends without a request. The default is never: a VM outlives its creator,
    /// as a file does.
    ///
    /// A VM ends as by [`Node::vm_end`](crate::Node::vm_end): its members get SIGPIPE, then
    /// SIGKILL. A kill of the daemon changes nothing.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// use m3ipc::{VmConfig, VmLife};
    ///
    /// let vm = node.vm_init(&VmConfig::new("shop").life(VmLife::Members))?;
    /// let server = vm.bind(1)?;
    /// drop(server);
    /// assert!(node.vm_named("shop").is_err(), "its last member has left");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn life(mut self, life: VmLife) -> Self {
        self.params.life = life.to_wire();
        self
    }

    pub(crate) fn params(&self) -> &VmParams {
        &self.params
    }
}

/// Why a VM is not what its name promises. The example is at [`Vm::check_own`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignVm {
    /// Another user made it.
    #[error(
        "user {uid} made VM {name}, and this is user {own}; end that VM with `m3 vm end {name}`, \
         run this as user {uid}, or choose another name",
        own = m3ipc_sys::user_id()
    )]
    Owner {
        /// The VM.
        name: String,
        /// Its owner.
        uid: u32,
    },
    /// Its mode allows more.
    #[error(
        "VM {name} has mode {mode:o}, which allows more than {wanted:o}; end that VM with `m3 vm \
         end {name}`, or configure its mode"
    )]
    Mode {
        /// The VM.
        name: String,
        /// Its mode.
        mode: u16,
        /// The mode that it may have.
        wanted: u16,
    },
}

/// A VM of the node.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let vm = node.vm();
/// let server = vm.bind(1)?;
/// assert_eq!((server.vm(), server.vm_name()), (vm.id(), vm.name()));
/// println!("{} process slots", vm.info().procs);
/// assert_eq!(vm.domain("web"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Vm {
    info: VmInfo,
    directory: PathBuf,
    /// The limit of the node's requests, which bounds a bind.
    limit: RequestLimit,
}

impl Vm {
    pub(crate) fn new(info: VmInfo, directory: &Path, limit: RequestLimit) -> Self {
        Self { info, directory: directory.to_owned(), limit }
    }

    /// Its id. The example is at [`Vm`].
    #[must_use]
    pub fn id(&self) -> i32 {
        self.info.id
    }

    /// Its name. The example is at [`Vm`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Checks that this user made the VM, and that its mode allows nothing beyond `mode`. A program
    /// with rights that others want, and with a VM of a fixed name, asks that before it joins:
    /// anybody may have made a VM of that name.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// node.vm().check_own(0o777)?;
    /// assert!(node.vm().check_own(0).is_err(), "its owner may join it");
    /// # Ok::<(), m3ipc::ForeignVm>(())
    /// ```
    ///
    /// # Errors
    /// [`ForeignVm`].
    pub fn check_own(&self, mode: u16) -> Result<(), ForeignVm> {
        let VmInfo { name, uid, mode: found, .. } = &self.info;
        if *uid != m3ipc_sys::user_id() {
            return Err(ForeignVm::Owner { name: name.clone(), uid: *uid });
        }
        if found & !mode != 0 {
            return Err(ForeignVm::Mode { name: name.clone(), mode: *found, wanted: mode });
        }
        Ok(())
    }

    /// Its state at the time of the look-up. The example is at [`Vm`].
    #[must_use]
    pub fn info(&self) -> &VmInfo {
        &self.info
    }

    /// The number of the domain of com-sockets with this name. The example is at [`Vm`].
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<u32> {
        self.info.domains.get(name).copied()
    }

    /// Binds the calling process to a slot. The example is at [`Vm`].
    ///
    /// # Errors
    /// [`BindError::Taken`] if another endpoint has the slot or the process is bound already, and
    /// others.
    pub fn bind(&self, slot: i32) -> Result<Endpoint, BindError> {
        self.bind_as(Some(slot), BindKind::Process)
    }

    /// Binds the calling process to the lowest free user slot.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// let endpoint = node.vm().bind_any()?;
    /// assert!(endpoint.address().slot() >= 0, "tasks have the slots below 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError::System`] with the reason if every user slot is taken or the process is bound
    /// already; others as [`bind`](Self::bind).
    pub fn bind_any(&self) -> Result<Endpoint, BindError> {
        self.bind_as(None, BindKind::Process)
    }

    /// Binds one more endpoint of the calling process, to this slot or to any. The process must be
    /// bound in this VM. The endpoint belongs to no thread, and ends with the process's first
    /// endpoint.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let vm = node.vm();
    /// use m3ipc::{Message, Source};
    ///
    /// let mut client = vm.bind(1)?;
    /// let mut server = vm.bind_additional(None)?;
    /// let to = server.address();
    /// let thread = std::thread::spawn(move || {
    ///     let request = server.receive(Source::Any)?;
    ///     server.reply(request.source, &Message::new(0))?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(server)
    /// });
    /// client.sendrec(to, &Message::new(7))?;
    /// let server = thread.join().unwrap().unwrap();
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError::ProcessUnbound`], and as [`bind`](Self::bind).
    pub fn bind_additional(&self, slot: Option<i32>) -> Result<Endpoint, BindError> {
        self.bind_as(slot, BindKind::Additional)
    }

    /// Binds the calling thread (`tbind`) to this slot or to any. Its process must be bound. The
    /// endpoint ends with the thread.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let vm = node.vm();
    /// let first = vm.bind(1)?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         let worker = vm.bind_thread(Some(2)).unwrap();
    ///         assert_eq!(worker.address().slot(), 2);
    ///     });
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError::ProcessUnbound`], and as [`bind`](Self::bind).
    pub fn bind_thread(&self, slot: Option<i32>) -> Result<Endpoint, BindError> {
        self.bind_as(slot, BindKind::Thread(m3ipc_sys::thread_id()))
    }

    /// Binds the calling process as the backup of a slot: waits until the slot is at this node.
    ///
    /// The registry of the nodes names the backup of a slot. Its program waits here while the
    /// other node has the slot, and takes the place of an endpoint there when that node has ended:
    /// the new endpoint has the same address. Root may take it, and the user of a node that
    /// serves one user alone. The program of the home may wait in the same way, until the backup
    /// has ended. A wait goes on while no proxy runs on this node.
    ///
    /// ```no_run
    /// # let vm = m3ipc::Node::attach()?.vm_named("shop")?;
    /// use m3ipc::Source;
    ///
    /// let mut server = vm.bind_backup(5, None)?;
    /// let request = server.receive(Source::Any)?;
    /// # let _ = request;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError::System`] with [`Code::TimedOut`](crate::Code::TimedOut) after the limit, and
    /// with -308 and the name of the node if this node has no backup of the slot; others as
    /// [`bind`](Self::bind), at once for a caller that is bound already or may not bind the slot.
    pub fn bind_backup(&self, slot: i32, limit: impl Into<Timeout>) -> Result<Endpoint, BindError> {
        let place = BackedSlot { vm: self.id(), slot };
        bind_backup_at(&self.directory, place, BindKind::Process, limit, Interruption::default())
    }

    /// Binds one more endpoint of the calling process as the backup of a slot, as
    /// [`bind_backup`](Self::bind_backup) binds the process. The process must be bound in this VM,
    /// as for [`bind_additional`](Self::bind_additional). So a program can wait for several slots,
    /// and an endpoint that moves away leaves the others of its process alone.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let vm = node.vm();
    /// use std::time::Duration;
    ///
    /// let first = vm.bind(1)?;
    /// // No proxy runs here, so nobody knows whether the slot is at this node.
    /// let late = vm.bind_additional_backup(5, Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(late.code(), m3ipc::Code::TimedOut);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError::ProcessUnbound`], and as [`bind_backup`](Self::bind_backup).
    pub fn bind_additional_backup(
        &self,
        slot: i32,
        limit: impl Into<Timeout>,
    ) -> Result<Endpoint, BindError> {
        let place = BackedSlot { vm: self.id(), slot };
        bind_backup_at(&self.directory, place, BindKind::Additional, limit, Interruption::default())
    }

    /// The same with a hook that decides which signals end the wait. The hook stays with the
    /// endpoint: see [`Endpoint::interrupt_by`].
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let vm = node.vm();
    /// let first = vm.bind(1)?;
    /// let ends = || true; // what a signal handler would say
    /// let ended = vm.bind_additional_backup_by(5, None, ends).unwrap_err();
    /// assert_eq!(ended.code(), m3ipc::Code::Intr);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`bind_additional_backup`](Self::bind_additional_backup).
    pub fn bind_additional_backup_by(
        &self,
        slot: i32,
        limit: impl Into<Timeout>,
        interrupted: impl FnMut() -> bool + Send + Sync + 'static,
    ) -> Result<Endpoint, BindError> {
        let (place, hook) = (BackedSlot { vm: self.id(), slot }, Interruption::by(interrupted));
        bind_backup_at(&self.directory, place, BindKind::Additional, limit, hook)
    }

    /// Binds the calling process to a slot that few programs ask for: the last free one of this
    /// node, and not `besides`. For a process whose endpoints are all additional ones, such as that
    /// of a language whose objects end in any order.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let vm = node.vm();
    /// let last = vm.info().procs - 1;
    /// let first = vm.bind_anchor(Some(last))?;
    /// assert_eq!(first.address().slot(), last - 1);
    /// assert_eq!(vm.bind_additional(Some(last))?.address().slot(), last);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`bind_any`](Self::bind_any).
    pub fn bind_anchor(&self, besides: Option<i32>) -> Result<Endpoint, BindError> {
        self.bind_as(besides, BindKind::Anchor)
    }

    fn bind_as(&self, slot: Option<i32>, kind: BindKind) -> Result<Endpoint, BindError> {
        bind_at(&self.directory, self.id(), slot, kind, self.limit)
    }
}

fn bind_at(
    directory: &Path,
    vm: i32,
    slot: Option<i32>,
    kind: BindKind,
    limit: RequestLimit,
) -> Result<Endpoint, BindError> {
    let bound = endpoint::bind(directory, vm, slot, kind, limit);
    bound.map_err(|fail| match slot {
        Some(slot) => BindError::of(fail, Address(slot)),
        // No slot is at fault, so the reason of the daemon says more.
        None => match fail.code {
            Code::SlotUsed => BindError::System { code: fail.code, why: fail.why() },
            _ => BindError::of(fail, NONE),
        },
    })
}

fn bind_backup_at(
    directory: &Path,
    place: BackedSlot,
    kind: BindKind,
    limit: impl Into<Timeout>,
    interruption: Interruption,
) -> Result<Endpoint, BindError> {
    let bound = endpoint::bind_backup(directory, place, kind, limit.into(), interruption);
    bound.map_err(|fail| BindError::of(fail, Address(place.slot)))
}

impl Endpoint {
    /// Binds the calling process to a slot of a VM that is known by its id alone.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # // SAFETY: this process has no other thread.
    /// # unsafe { std::env::set_var("M3_RUNTIME_DIR", test.directory()) };
    /// # let vm = test.vm().id();
    /// use m3ipc::Endpoint;
    ///
    /// let first = Endpoint::bind(vm, 1)?;
    /// let worker = Endpoint::bind_thread(vm, 2)?;
    /// assert_eq!((first.address().slot(), worker.address().slot()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Vm::bind`].
    pub fn bind(vm: i32, slot: i32) -> Result<Self, BindError> {
        let directory = runtime::directory();
        bind_at(&directory, vm, Some(slot), BindKind::Process, RequestLimit::ANSWER)
    }

    /// Binds the calling thread (`tbind`) to a slot in the VM of its process. The example is at
    /// [`bind`](Self::bind).
    ///
    /// # Errors
    /// As [`Vm::bind_thread`].
    pub fn bind_thread(vm: i32, slot: i32) -> Result<Self, BindError> {
        let kind = BindKind::Thread(m3ipc_sys::thread_id());
        bind_at(&runtime::directory(), vm, Some(slot), kind, RequestLimit::ANSWER)
    }

    /// Binds the calling process as the backup of a slot, as [`Vm::bind_backup`], in a VM that is
    /// known by its id alone.
    ///
    /// ```no_run
    /// let server = m3ipc::Endpoint::bind_backup(3, 5, None)?;
    /// # let _ = server;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Vm::bind_backup`].
    pub fn bind_backup(vm: i32, slot: i32, limit: impl Into<Timeout>) -> Result<Self, BindError> {
        let (directory, place) = (runtime::directory(), BackedSlot { vm, slot });
        bind_backup_at(&directory, place, BindKind::Process, limit, Interruption::default())
    }

    /// Waits until another process binds this one (`wait4bind` after `lclbind`). The example is at
    /// [`Node::bind_other`](crate::Node::bind_other).
    ///
    /// # Errors
    /// [`NodeError::TimedOut`], and others.
    pub fn wait_for_bind(limit: impl Into<Timeout>) -> Result<Self, NodeError> {
        endpoint::claim(&runtime::directory(), limit.into()).map_err(NodeError::of_absent)
    }
}
