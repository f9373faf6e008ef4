//! The native module of the Python package `m3ipc`.
//!
//! ```text
//! m3ipc (Python) ── asyncio, typed messages, arrays, pool
//!     └ m3ipc._native ── Node, Vm, Endpoint, Message, Pending, Block, Given
//!           └ the crate m3ipc
//! ```
//!
//! Waits release the interpreter lock, and ask Python after each signal whether they go on. Python
//! reads and writes the bytes of blocks through the buffer protocol alone: Rust makes no slice of
//! them, since every member of the area may write at any time.

mod anchor;
mod block;
mod endpoint;
mod error;
mod fork;
mod interpreter;
mod message;
mod node;
mod signals;
mod timeout;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ANY", m3ipc::ANY.0)?;
    module.add("MAX_BYTES", m3ipc::LARGE_MAX_BYTES)?;
    module.add_class::<node::Node>()?;
    module.add_class::<node::Vm>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<endpoint::Pending>()?;
    module.add_class::<endpoint::Sending>()?;
    module.add_class::<block::Block>()?;
    module.add_class::<block::Given>()?;
    module.add_function(wrap_pyfunction!(fork::_after_fork, module)?)?;
    Ok(())
}
