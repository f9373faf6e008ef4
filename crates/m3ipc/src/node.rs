//! Nodes and VMs: where endpoints live.

use crate::control::{Absent, Control, unexpected};
use crate::endpoint::{self, Endpoint};
use crate::error::{BindError, Fail, NodeError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code};
use m3ipc_wire::{
    BindKind, EndpointInfo, NodeInfo, NodeParams, Privileges, Reply, Request, VmInfo, VmParams,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A connection to the node.
#[derive(Debug)]
pub struct Node {
    control: Control,
}

/// What a new VM is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    params: VmParams,
}

impl VmConfig {
    /// A VM of this name, with the node's limits, for its owner and its group.
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
            },
        }
    }

    /// With this id; else the lowest free one.
    #[must_use]
    pub fn id(mut self, id: i32) -> Self {
        self.params.id = Some(id);
        self
    }

    /// With so many process slots.
    #[must_use]
    pub fn procs(mut self, slots: i32) -> Self {
        self.params.procs = Some(slots);
        self
    }

    /// With so many task slots.
    #[must_use]
    pub fn tasks(mut self, slots: i32) -> Self {
        self.params.tasks = Some(slots);
        self
    }

    /// With these permission bits of owner, group and others: 4 see, 2 bind system slots, 1 join.
    #[must_use]
    pub fn mode(mut self, mode: u16) -> Self {
        self.params.mode = mode;
        self
    }

    /// Of this group.
    #[must_use]
    pub fn group(mut self, gid: u32) -> Self {
        self.params.gid = Some(gid);
        self
    }

    /// With so long between SIGPIPE and SIGKILL at its end, in milliseconds.
    #[must_use]
    pub fn grace_ms(mut self, ms: u32) -> Self {
        self.params.grace_ms = ms;
        self
    }

    /// Whether copies need a lease or a grant also between members of one user. Between different users they always do.
    #[must_use]
    pub fn copy_granted(mut self, granted: bool) -> Self {
        self.params.copy_granted = granted;
        self
    }

    /// With a name for a domain of com-sockets: of 1 to 15 bytes, and no number. Only who asks for it, by name or number, gets
    /// that domain. The daemon refuses more than 32, a number beyond its network, and two names for one.
    #[must_use]
    pub fn domain(mut self, name: &str, number: u32) -> Self {
        self.params.domains.insert(name.to_owned(), number);
        self
    }
}

impl Node {
    /// The node of this process's [runtime directory](crate::runtime::directory); its daemon is
    /// started where none runs.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn attach() -> Result<Self, NodeError> {
        Self::attach_at(&crate::runtime::directory())
    }

    /// The node of this runtime directory; its daemon is started where none runs.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn attach_at(directory: &Path) -> Result<Self, NodeError> {
        Ok(Self { control: Control::connect(directory, Absent::Start)? })
    }

    /// The node of this runtime directory, if its daemon runs.
    ///
    /// # Errors
    /// [`NodeError`] with -318 where it does not.
    pub fn find(directory: &Path) -> Result<Self, NodeError> {
        Ok(Self { control: Control::connect(directory, Absent::Fail)? })
    }

    /// Initialises the node (drvs_init): starts its daemon where none runs.
    ///
    /// # Errors
    /// [`NodeError`] with -317 where it is initialised already, -301, -338, -339.
    pub fn init(params: &NodeParams) -> Result<Self, NodeError> {
        let directory = crate::runtime::directory();
        let mut control = Control::connect(&directory, Absent::StartUninitialised)?;
        control.request(&Request::NodeInit(params.clone()))?;
        Ok(Self { control })
    }

    /// The runtime directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.control.directory()
    }

    /// Ends every VM, then the node (drvs_end).
    ///
    /// # Errors
    /// [`NodeError`] with -335 for others than root and the daemon's user.
    pub fn end(mut self) -> Result<(), NodeError> {
        self.control.request(&Request::NodeEnd)?;
        Ok(())
    }

    /// What the node is.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn info(&mut self) -> Result<NodeInfo, NodeError> {
        match self.control.request(&Request::NodeInfo)? {
            (Reply::Node(info), _) => Ok(info),
            _ => Err(unexpected().into()),
        }
    }

    /// Begins a VM (vm_init).
    ///
    /// # Errors
    /// [`NodeError`] with -302, -342, -343, -338.
    pub fn vm_init(&mut self, config: &VmConfig) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmInit(config.params.clone()))
    }

    /// The VM with this id.
    ///
    /// # Errors
    /// [`NodeError`] with -302 or -303.
    pub fn vm(&mut self, id: i32) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmInfo(id))
    }

    /// The VM with this name.
    ///
    /// # Errors
    /// [`NodeError`] with -316.
    pub fn vm_named(&mut self, name: &str) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmFind(name.to_owned()))
    }

    fn vm_of(&mut self, request: &Request) -> Result<Vm, NodeError> {
        match self.control.request(request)? {
            (Reply::Vm(info), _) => Ok(Vm { info, directory: self.directory().to_owned() }),
            _ => Err(unexpected().into()),
        }
    }

    /// The VMs that the caller may see.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn vms(&mut self) -> Result<Vec<VmInfo>, NodeError> {
        match self.control.request(&Request::VmList)? {
            (Reply::Vms(list), _) => Ok(list),
            _ => Err(unexpected().into()),
        }
    }

    /// Ends a VM (vm_end): its members get SIGPIPE, then SIGKILL; returns when all have gone.
    ///
    /// # Errors
    /// [`NodeError`] with -302, -303, -335.
    pub fn vm_end(&mut self, id: i32) -> Result<(), NodeError> {
        self.control.request(&Request::VmEnd(id))?;
        Ok(())
    }

    /// The endpoints of a VM, with what each waits for.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn endpoints(&mut self, vm: i32) -> Result<Vec<EndpointInfo>, NodeError> {
        let mut all = Vec::new();
        let mut from = i32::MIN;
        loop {
            match self.control.request(&Request::Endpoints { vm, from })? {
                (Reply::Endpoints { list, next }, _) => {
                    all.extend(list);
                    match next {
                        Some(next) => from = next,
                        None => return Ok(all),
                    }
                }
                _ => return Err(unexpected().into()),
            }
        }
    }

    /// The areas of a VM.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn areas(&mut self, vm: i32) -> Result<Vec<m3ipc_wire::AreaInfo>, NodeError> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let request = Request::Area(m3ipc_wire::AreaRequest::List { vm, after });
            let (Reply::Area(m3ipc_wire::AreaReply::Areas { list, next }), _) =
                self.control.request(&request)?
            else {
                return Err(unexpected().into());
            };
            all.extend(list);
            match next {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
    }

    /// Binds another process (lclbind).
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_other(&mut self, vm: i32, pid: i32, slot: i32) -> Result<Address, BindError> {
        let bound = self.number(&Request::BindOther { vm, pid, slot });
        bound.map(Address).map_err(|fail| BindError::of(fail, Address(slot)))
    }

    /// The endpoint in one slot, with what it waits for; `None` where the slot is free.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn endpoint(&mut self, vm: i32, slot: i32) -> Result<Option<EndpointInfo>, NodeError> {
        match self.control.request(&Request::Endpoints { vm, from: slot })? {
            (Reply::Endpoints { list, .. }, _) => {
                Ok(list.into_iter().next().filter(|endpoint| endpoint.slot == slot))
            }
            _ => Err(unexpected().into()),
        }
    }

    /// Unbinds an endpoint, and waits until it has left.
    ///
    /// # Errors
    /// [`NodeError`] with -310, -306, -335.
    pub fn unbind(&mut self, vm: i32, address: Address) -> Result<(), NodeError> {
        self.unbind_timeout(vm, address, Timeout::Never)
    }

    /// Unbinds an endpoint, and waits until it has left, no longer than that. It is to leave in any case.
    ///
    /// # Errors
    /// As [`unbind`](Self::unbind); -61 where the limit passed, -4 where a signal was handled.
    pub fn unbind_timeout(
        &mut self,
        vm: i32,
        address: Address,
        limit: Timeout,
    ) -> Result<(), NodeError> {
        let request = Request::Unbind { vm, address: address.0 };
        self.control.request_until(&request, limit.deadline().at_ns)?;
        Ok(())
    }

    /// Ends an endpoint's receive from ANY, or is remembered for its next one.
    ///
    /// # Errors
    /// [`NodeError`] with -320 or -324 where it is only remembered, and others.
    pub fn wakeup(&mut self, vm: i32, address: Address) -> Result<(), NodeError> {
        self.number(&Request::Wakeup { vm, address: address.0 })?;
        Ok(())
    }

    /// What an endpoint may do (getpriv).
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn privileges(&mut self, vm: i32, address: Address) -> Result<Privileges, NodeError> {
        match self.control.request(&Request::GetPrivileges { vm, address: address.0 })? {
            (Reply::Privileges(privileges), _) => Ok(privileges),
            _ => Err(unexpected().into()),
        }
    }

    /// Sets what an endpoint may do (setpriv), for the VM's owner and root.
    ///
    /// # Errors
    /// [`NodeError`] with -335.
    pub fn set_privileges(
        &mut self,
        vm: i32,
        address: Address,
        privileges: Privileges,
    ) -> Result<(), NodeError> {
        let request = Request::SetPrivileges { vm, address: address.0, privileges };
        self.number(&request)?;
        Ok(())
    }

    /// The address of a process, in whatever VM it is bound, for the process itself.
    ///
    /// # Errors
    /// [`NodeError`] with -310.
    pub fn own_address(&mut self) -> Result<Address, NodeError> {
        Ok(self.number(&Request::GetEndpoint(0)).map(Address)?)
    }

    fn number(&mut self, request: &Request) -> Result<i32, Fail> {
        match self.control.request(request)?.0 {
            Reply::Number(number) => Ok(number),
            Reply::Done => Ok(0),
            _ => Err(unexpected()),
        }
    }
}

/// A VM of the node.
#[derive(Clone, Debug)]
pub struct Vm {
    info: VmInfo,
    directory: PathBuf,
}

impl Vm {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.info.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// What was known of it when it was looked up.
    #[must_use]
    pub fn info(&self) -> &VmInfo {
        &self.info
    }

    /// The number of the domain of com-sockets that its configuration gives this name.
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<u32> {
        self.info.domains.get(name).copied()
    }

    /// Binds the calling process to this slot.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(&self, slot: i32) -> Result<Endpoint, BindError> {
        self.bind_as(Some(slot), BindKind::Process)
    }

    /// Binds the calling process to the lowest free user slot.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_any(&self) -> Result<Endpoint, BindError> {
        self.bind_as(None, BindKind::Process)
    }

    /// Binds the calling thread (tbind), of a process that is bound, to this slot or any.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_thread(&self, slot: Option<i32>) -> Result<Endpoint, BindError> {
        self.bind_as(slot, BindKind::Thread(m3ipc_sys::thread_id()))
    }

    fn bind_as(&self, slot: Option<i32>, kind: BindKind) -> Result<Endpoint, BindError> {
        let bound = endpoint::bind(&self.directory, self.info.id, slot, kind);
        bound.map_err(|fail| BindError::of(fail, Address(slot.unwrap_or(m3ipc_abi::NONE.0))))
    }
}

impl Endpoint {
    /// Binds the calling process to this slot of a VM that is known by its id alone.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(vm: i32, slot: i32) -> Result<Self, BindError> {
        let bound = endpoint::bind(&crate::runtime::directory(), vm, Some(slot), BindKind::Process);
        bound.map_err(|fail| BindError::of(fail, Address(slot)))
    }

    /// Binds the calling thread (tbind) to this slot of the VM of its process.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_thread(vm: i32, slot: i32) -> Result<Self, BindError> {
        let kind = BindKind::Thread(m3ipc_sys::thread_id());
        let bound = endpoint::bind(&crate::runtime::directory(), vm, Some(slot), kind);
        bound.map_err(|fail| BindError::of(fail, Address(slot)))
    }

    /// Waits until another process binds this one (wait4bind after lclbind).
    ///
    /// # Errors
    /// [`NodeError`] with -61 where the limit passed.
    pub fn wait_for_bind(limit: Timeout) -> Result<Self, NodeError> {
        let claimed = endpoint::claim(&crate::runtime::directory(), limit);
        claimed.map_err(|fail| match fail.code {
            Code::NotConn => Fail::from(Code::DrvsInit).into(),
            _ => fail.into(),
        })
    }
}
