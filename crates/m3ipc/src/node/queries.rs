//! Questions to a node: its state, its VMs, endpoints, areas and privileges.

use super::Node;
use crate::control::unexpected;
use crate::error::NodeError;
use crate::info::{
    AreaInfo, EndpointInfo, NodeInfo, OtherNodeInfo, OtherNodes, Privileges, UserUse, VmInfo,
};
use crate::vm::Vm;
use m3ipc_abi::Address;
use m3ipc_wire::{AreaReply, AreaRequest, NodesRequest, Reply, Request};

impl Node {
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

    /// What each user holds of the daemon, and its quotas. Root and the daemon's user see all
    /// users, others themselves.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// let users = node.usage()?;
    /// let connections = users[0].quotas.iter().find(|quota| quota.name == "connections");
    /// assert!(connections.is_some_and(|quota| quota.used > 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn usage(&mut self) -> Result<Vec<UserUse>, NodeError> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(uid) = from {
            match self.control.request(&Request::Usage { from: uid })? {
                (Reply::Usage { users, next }, _) => {
                    all.extend(users.into_iter().map(UserUse::of));
                    from = next.filter(|next| *next > uid);
                }
                _ => return Err(unexpected().into()),
            }
        }
        Ok(all)
    }

    /// The VM with this id. The example is at [`vm_named`](Self::vm_named).
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
    /// assert_eq!(node.vm(vm)?.name(), "test");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::Unknown`].
    pub fn vm_named(&mut self, name: &str) -> Result<Vm, NodeError> {
        self.vm_of(&Request::VmFind(name.to_owned()))
    }

    /// The VMs that the caller may see.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// assert_eq!(node.vms()?[0].name, "test");
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

    /// The endpoints of a VM and what each of them waits for.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// # let vm = test.vm().id();
    /// let server = node.vm(vm)?.bind(1)?;
    /// let endpoints = node.endpoints(vm)?;
    /// assert_eq!((endpoints[0].slot, endpoints[0].wait.state), (1, m3ipc::WaitState::Running));
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

    /// The other nodes, as the proxy of this one knows them.
    ///
    /// ```
    /// # let test = m3ipc::test::node();
    /// # let mut node = m3ipc::Node::attach_at(test.directory())?;
    /// let others = node.other_nodes()?;
    /// // No proxy runs here, so this node knows no other one.
    /// assert!(others.proxy_pid.is_none() && others.nodes.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn other_nodes(&mut self) -> Result<OtherNodes, NodeError> {
        match self.control.request(&Request::Nodes(NodesRequest::List))? {
            (Reply::OtherNodes { proxy_pid, list }, _) => {
                let nodes = list.into_iter().map(OtherNodeInfo::of).collect();
                Ok(OtherNodes { proxy_pid, nodes })
            }
            _ => Err(unexpected().into()),
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
    /// use m3ipc::{AreaAudience, AreaConfig};
    ///
    /// let mut server = node.vm(vm)?.bind(1)?;
    /// let area = server.create_area(&AreaConfig::vm(1 << 20))?;
    /// let info = &node.areas(vm)?[0];
    /// assert_eq!((info.base, &info.audience), (area.base(), &AreaAudience::Vm));
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
}
