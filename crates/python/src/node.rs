//! Nodes and VMs.

use crate::anchor;
use crate::endpoint::Endpoint;
use crate::error::{Fault, busy, closed};
use crate::fork::Birth;
use crate::signals::Signals;
use crate::timeout::of_seconds;
use m3ipc::{NodeError, VmConfig, VmLife};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Mutex;

/// A connection to a node. See the stub file for the documentation of the methods.
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
        let made = py.detach(|| {
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
        let attached = py.detach(|| match &directory {
            Some(directory) => m3ipc::Node::attach_at(directory),
            None => m3ipc::Node::attach(),
        });
        let node = attached.map_err(Fault::from)?;
        let directory = node.directory().to_owned();
        Ok(Self { node: Mutex::new(Some(node)), directory, birth: Birth::now() })
    }

    #[getter]
    fn directory(&self) -> String {
        self.directory.to_string_lossy().into_owned()
    }

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

    fn vm(&self, py: Python<'_>, name: &str) -> PyResult<Vm> {
        Ok(Vm { vm: self.with(py, |node| node.vm_named(name))? })
    }

    fn vms(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let vms = self.with(py, |node| node.vms())?;
        Ok(vms.into_iter().map(|vm| vm.name).collect())
    }

    fn end_vm(&self, py: Python<'_>, vm: &Vm) -> PyResult<()> {
        let id = vm.vm.id();
        self.with(py, |node| node.vm_end(id))
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check("node")?;
        let ended = py.detach(|| {
            let node = self.node.try_lock().map_err(|_| busy("node"))?.take();
            Ok::<_, Fault>(node.ok_or_else(|| closed("node"))?.end()?)
        });
        Ok(ended?)
    }

    fn __repr__(&self) -> String {
        format!("<m3ipc.Node {}>", self.directory.display())
    }
}

/// A VM. It has no connection, so that children by fork may use it.
#[pyclass(frozen, module = "m3ipc")]
pub struct Vm {
    vm: m3ipc::Vm,
}

#[pymethods]
impl Vm {
    #[getter]
    fn id(&self) -> i32 {
        self.vm.id()
    }

    #[getter]
    fn name(&self) -> &str {
        self.vm.name()
    }

    #[pyo3(signature = (slot=None, *, name=None))]
    fn bind(&self, py: Python<'_>, slot: Option<i32>, name: Option<&str>) -> PyResult<Endpoint> {
        let bound = py.detach(|| {
            let (mut endpoint, anchor) = anchor::bind(&self.vm, slot)?;
            if let Some(name) = name {
                endpoint.name_attach(name)?;
            }
            Ok::<_, Fault>((endpoint, anchor))
        });
        let (endpoint, anchor) = bound?;
        Ok(Endpoint::of(endpoint, anchor))
    }

    #[pyo3(signature = (slot, *, timeout=None, name=None))]
    fn bind_backup(
        &self,
        py: Python<'_>,
        slot: i32,
        timeout: Option<f64>,
        name: Option<&str>,
    ) -> PyResult<Endpoint> {
        let limit = of_seconds(timeout)?;
        let signals = Signals::default();
        let bound = py.detach(|| {
            let (mut endpoint, anchor) =
                anchor::bind_backup(&self.vm, slot, limit, signals.hook())?;
            if let Some(name) = name {
                endpoint.name_attach(name)?;
            }
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
