//! Nodes and VMs.

use crate::anchor;
use crate::endpoint::Endpoint;
use crate::error::{Fault, busy, closed};
use crate::fork::Birth;
use crate::interpreter::detach;
use crate::signals::Signals;
use crate::timeout::of_seconds;
use m3ipc::{NodeError, VmConfig, VmLife};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Mutex;

/// A connection to the node daemon, which is started if none runs.
///
/// >>> node = Node()
/// >>> vm = node.open_vm("shop", life="creator")
/// >>> "shop" in node.vms()
/// True
#[pyclass(frozen, module = "m3ipc")]
pub struct Node {
    node: Mutex<Option<m3ipc::Node>>,
    directory: PathBuf,
    birth: Birth,
}

impl Node {
    /// Makes a step on the connection without the interpreter lock. A connection that ended with
    /// its daemon is replaced, and the step repeated: each step may be repeated.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        step: impl Fn(&mut m3ipc::Node) -> Result<R, NodeError> + Send + Sync,
    ) -> PyResult<R> {
        self.birth.check("node")?;
        let made = detach(py, || {
            let mut node = self.node.try_lock().map_err(|_| busy("node"))?;
            let node = node.as_mut().ok_or_else(|| closed("node"))?;
            let made = step(node).or_else(|error| match error {
                NodeError::DaemonGone(_) => {
                    *node = m3ipc::Node::attach_at(&self.directory)?;
                    step(node)
                }
                other => Err(other),
            });
            Ok::<_, Fault>(made?)
        });
        Ok(made?)
    }
}

fn life_of(name: &str) -> PyResult<VmLife> {
    match name {
        "creator" => Ok(VmLife::Creator),
        "members" => Ok(VmLife::Members),
        "until-ended" => Ok(VmLife::UntilEnded),
        other => Err(PyValueError::new_err(format!(
            "life is \"creator\", \"members\" or \"until-ended\", not {other:?}"
        ))),
    }
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (directory=None))]
    fn new(py: Python<'_>, directory: Option<PathBuf>) -> PyResult<Self> {
        let attached = detach(py, || match &directory {
            Some(directory) => m3ipc::Node::attach_at(directory),
            None => m3ipc::Node::attach(),
        });
        let node = attached.map_err(Fault::from)?;
        let directory = node.directory().to_owned();
        Ok(Self { node: Mutex::new(Some(node)), directory, birth: Birth::now() })
    }

    /// The runtime directory of the daemon.
    #[getter]
    fn directory(&self) -> String {
        self.directory.to_string_lossy().into_owned()
    }

    /// The VM of this name, which is created if it does not exist.
    ///
    /// With the life "creator" it ends with this process, however the process ends.
    #[pyo3(signature = (name, *, life="until-ended", mode=None, grace=None))]
    fn open_vm(
        &self,
        py: Python<'_>,
        name: &str,
        life: &str,
        mode: Option<u16>,
        grace: Option<f64>,
    ) -> PyResult<Vm> {
        let mut config = VmConfig::new(name).life(life_of(life)?);
        if let Some(mode) = mode {
            config = config.mode(mode);
        }
        if let Some(seconds) = grace {
            let limit = core::time::Duration::try_from_secs_f64(seconds)
                .map_err(|_| PyValueError::new_err("grace is a number of seconds"))?;
            config = config.grace_ms(u32::try_from(limit.as_millis()).unwrap_or(u32::MAX));
        }
        Ok(Vm { vm: self.with(py, |node| node.vm_open_or_create(&config))? })
    }

    /// The VM of this name. `NotFound` if it does not exist.
    fn vm(&self, py: Python<'_>, name: &str) -> PyResult<Vm> {
        Ok(Vm { vm: self.with(py, |node| node.vm_named(name))? })
    }

    /// The names of all VMs.
    fn vms(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let vms = self.with(py, |node| node.vms())?;
        Ok(vms.into_iter().map(|vm| vm.name).collect())
    }

    /// Ends a VM and its members. Returns after the last of them has ended.
    fn end_vm(&self, py: Python<'_>, vm: &Vm) -> PyResult<()> {
        let id = vm.vm.id();
        self.with(py, |node| node.vm_end(id))
    }

    /// Ends all VMs and the daemon.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check("node")?;
        let ended = detach(py, || {
            let node = self.node.try_lock().map_err(|_| busy("node"))?.take();
            Ok::<_, Fault>(node.ok_or_else(|| closed("node"))?.end()?)
        });
        Ok(ended?)
    }

    fn __repr__(&self) -> String {
        format!("<m3ipc.Node {}>", self.directory.display())
    }
}

/// Gives a new endpoint its limit, and then its name, by which others find it.
fn prepare(
    endpoint: &mut m3ipc::Endpoint,
    name: Option<&str>,
    receive_limit: Option<usize>,
) -> Result<(), Fault> {
    if let Some(bytes) = receive_limit {
        endpoint.set_receive_limit(bytes);
    }
    name.map_or(Ok(()), |name| Ok(endpoint.name_attach(name)?))
}

/// A VM: the processes that may exchange messages. A process is a member of one VM.
#[pyclass(frozen, module = "m3ipc")]
pub struct Vm {
    vm: m3ipc::Vm,
}

#[pymethods]
impl Vm {
    /// Its number.
    #[getter]
    fn id(&self) -> i32 {
        self.vm.id()
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.vm.name()
    }

    /// A new endpoint of this process, in a slot and with a name if the caller says so.
    ///
    /// One thread at a time uses an endpoint. Several endpoints of a process are independent.
    /// `receive_limit` holds before the name is there (`Endpoint.receive_limit`).
    #[pyo3(signature = (slot=None, *, name=None, receive_limit=None))]
    fn bind(
        &self,
        py: Python<'_>,
        slot: Option<i32>,
        name: Option<&str>,
        receive_limit: Option<usize>,
    ) -> PyResult<Endpoint> {
        let bound = detach(py, || {
            let (mut endpoint, anchor) = anchor::bind(&self.vm, slot)?;
            prepare(&mut endpoint, name, receive_limit)?;
            Ok::<_, Fault>((endpoint, anchor))
        });
        let (endpoint, anchor) = bound?;
        Ok(Endpoint::of(endpoint, anchor))
    }

    /// Waits until a slot is at this node, and binds an endpoint there.
    ///
    /// The registry of the nodes names the backup of a slot. Its program waits here while another
    /// node has the slot, and takes its place when that node has ended, or when the endpoint moves
    /// (`Endpoint.migrate`). The new endpoint has the same address. Root may take it, and the user
    /// of a node of one user. The program of the home may wait in the same way.
    ///
    /// `timeout` is in seconds. The wait goes on while no proxy runs on this node. A signal handler
    /// that raises ends it, as Ctrl-C does. The process is a member of the VM during the wait: it
    /// has the endpoint that belongs to no object, and ends with the VM. Other endpoints of the
    /// process go on meanwhile, in other threads.
    ///
    /// `TimedOut` after the limit. At once: `InUse` if another node has the slot, and its backup
    /// is not at this one; `Refused` without the right to the slot; `BadValue` for a slot that the
    /// VM does not have. A `receive_limit` does not come from the other node.
    #[pyo3(signature = (slot, *, timeout=None, name=None, receive_limit=None))]
    fn bind_backup(
        &self,
        py: Python<'_>,
        slot: i32,
        timeout: Option<f64>,
        name: Option<&str>,
        receive_limit: Option<usize>,
    ) -> PyResult<Endpoint> {
        let limit = of_seconds(timeout)?;
        let signals = Signals::default();
        let bound = detach(py, || {
            let (mut endpoint, anchor) =
                anchor::bind_backup(&self.vm, slot, limit, signals.hook())?;
            prepare(&mut endpoint, name, receive_limit)?;
            Ok::<_, Fault>((endpoint, anchor))
        });
        signals.check()?;
        let (endpoint, anchor) = bound?;
        Ok(Endpoint::of(endpoint, anchor))
    }

    fn __repr__(&self) -> String {
        format!("<m3ipc.Vm {:?}>", self.vm.name())
    }
}
