//! The connection to a node and its operations.

use crate::control::{Control, IfAbsent, unexpected};
use crate::error::{BindError, Fail, NodeError};
use crate::info::{AreaInfo, EndpointInfo, NodeInfo, NodeParams, Privileges, VmInfo};
use crate::timeout::Timeout;
use crate::trace::{Trace, TraceConfig};
use crate::vm::{Vm, VmConfig};
use m3ipc_abi::Address;
use m3ipc_wire::{AreaReply, AreaRequest, Reply, Request};
use std::path::Path;

/// A connection to a node.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let directory = node.directory();
/// use m3ipc::{Node, VmConfig};
///
/// let mut node = Node::attach_at(directory)?;
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
    /// # Errors
    /// [`NodeError::NotRunning`] if no daemon can be started, [`NodeError::Version`].
    pub fn attach() -> Result<Self, NodeError> {
        Self::attach_at(&crate::runtime::directory())
    }

    /// Connects to the node of this runtime directory. A daemon is started if none runs.
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
        Ok(Self { control: Control::connect(directory, IfAbsent::Fail)? })
    }

    /// Initialises the node (`drvs_init`). A daemon is started if none runs.
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

    /// The runtime directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.control.directory()
    }

    /// Ends every VM, then the node (`drvs_end`).
    ///
    /// # Errors
    /// [`NodeError::Denied`] for every user but root and the user of the daemon.
    pub fn end(mut self) -> Result<(), NodeError> {
        self.control.request(&Request::NodeEnd)?;
        Ok(())
    }

    /// The state of the node.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert_eq!(node.info()?.endpoints, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn info(&mut self) -> Result<NodeInfo, NodeError> {
        match self.control.request(&Request::NodeInfo)? {
            (Reply::Node(info), _) => Ok(NodeInfo::of(info)),
            _ => Err(unexpected().into()),
        }
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

    /// The VM with this id.
    ///
    /// # Errors
    /// [`NodeError::OutOfRange`] or [`NodeError::Unknown`].
    pub fn vm(&mut self, id: i32) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmInfo(id))
    }

    /// The VM with this name.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert_eq!(node.vm_named("test")?.id(), vm);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`].
    pub fn vm_named(&mut self, name: &str) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmFind(name.to_owned()))
    }

    fn vm_of(&mut self, request: &Request) -> Result<Vm, NodeError> {
        match self.control.request(request)? {
            (Reply::Vm(info), _) => Ok(Vm::new(VmInfo::of(info), self.directory())),
            _ => Err(unexpected().into()),
        }
    }

    /// The VMs that the caller may see.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert_eq!(node.vms()?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn vms(&mut self) -> Result<Vec<VmInfo>, NodeError> {
        match self.control.request(&Request::VmList)? {
            (Reply::Vms(list), _) => Ok(list.into_iter().map(VmInfo::of).collect()),
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
        self.control.request(&Request::VmEnd(id))?;
        Ok(())
    }

    /// The endpoints of a VM and what each of them waits for.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert!(node.endpoints(vm)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`].
    pub fn endpoints(&mut self, vm: i32) -> Result<Vec<EndpointInfo>, NodeError> {
        let mut all = Vec::new();
        let mut from = i32::MIN;
        loop {
            let (Reply::Endpoints { list, next }, _) =
                self.control.request(&Request::Endpoints { vm, from })?
            else {
                return Err(unexpected().into());
            };
            all.extend(list.into_iter().map(EndpointInfo::of));
            match next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }

    /// The endpoint in one slot; `None` if the slot is free.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert_eq!(node.endpoint(vm, 1)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`].
    pub fn endpoint(&mut self, vm: i32, slot: i32) -> Result<Option<EndpointInfo>, NodeError> {
        match self.control.request(&Request::Endpoints { vm, from: slot })? {
            (Reply::Endpoints { list, .. }, _) => {
                let first = list.into_iter().next().filter(|endpoint| endpoint.slot == slot);
                Ok(first.map(EndpointInfo::of))
            }
            _ => Err(unexpected().into()),
        }
    }

    /// The areas of a VM.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert!(node.areas(vm)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`].
    pub fn areas(&mut self, vm: i32) -> Result<Vec<AreaInfo>, NodeError> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let request = Request::Area(AreaRequest::List { vm, after });
            let (Reply::Area(AreaReply::Areas { list, next }), _) =
                self.control.request(&request)?
            else {
                return Err(unexpected().into());
            };
            all.extend(list.into_iter().map(AreaInfo::of));
            match next {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
    }

    /// Binds another process (`lclbind`).
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_other(&mut self, vm: i32, pid: i32, slot: i32) -> Result<Address, BindError> {
        let bound = self.number(&Request::BindOther { vm, pid, slot });
        bound.map(Address).map_err(|fail| BindError::of(fail, Address(slot)))
    }

    /// Unbinds an endpoint and waits until it has left.
    ///
    /// # Errors
    /// [`NodeError::Unknown`] if no such endpoint is bound, [`NodeError::Denied`].
    pub fn unbind(&mut self, vm: i32, address: Address) -> Result<(), NodeError> {
        self.unbind_timeout(vm, address, Timeout::Never)
    }

    /// Unbinds an endpoint and waits until it has left, within a time limit. The endpoint leaves
    /// even if the limit passes.
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
        self.control.request_until(&request, limit.into().deadline().at_ns)?;
        Ok(())
    }

    /// Ends an endpoint's receive from ANY. An endpoint in another state remembers the wakeup for
    /// its next receive from ANY.
    ///
    /// # Errors
    /// [`NodeError::Remembered`] if the endpoint remembers it, and others.
    pub fn wakeup(&mut self, vm: i32, address: Address) -> Result<(), NodeError> {
        self.number(&Request::Wakeup { vm, address: address.0 })?;
        Ok(())
    }

    /// The privileges of an endpoint (`getpriv`).
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// let server = test.vm().bind(1)?;
    /// assert_eq!(node.privileges(vm, server.address())?.ipc_to, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`].
    pub fn privileges(&mut self, vm: i32, address: Address) -> Result<Privileges, NodeError> {
        match self.control.request(&Request::GetPrivileges { vm, address: address.0 })? {
            (Reply::Privileges(privileges), _) => Ok(Privileges::of(privileges)),
            _ => Err(unexpected().into()),
        }
    }

    /// Sets the privileges of an endpoint (`setpriv`). Only root and the owner of the VM may.
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

    /// The address of the calling process, in whichever VM it is bound.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// let server = test.vm().bind(1)?;
    /// assert_eq!(node.own_address()?, server.address());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`] if the process is not bound.
    pub fn own_address(&mut self) -> Result<Address, NodeError> {
        Ok(self.number(&Request::GetEndpoint(0)).map(Address)?)
    }

    /// Traces a VM. Only root and the owner of the VM may. A VM has one tracer.
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
