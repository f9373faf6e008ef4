//! Blocks as Python buffers.
//!
//! A view (memoryview, numpy array, DLPack tensor) of a block is an export of its buffer. A block
//! with exports cannot be given away, so no view can write a block of another owner. Python reads
//! and writes the memory by address; no reference of Rust covers it, since other members of the
//! area may write at any time.
//!
//! # Safety
//! The memory of a block is mapped as long as the block is there. A view holds a reference to the
//! block's object, and the block leaves the object only while no view is there.
#![allow(unsafe_code)]

use crate::error::Fault;
use crate::fork::Birth;
use core::ffi::c_int;
use m3ipc::{Code, GivenBlock};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The block of an object, and the views of it.
struct State {
    block: Option<m3ipc::Block>,
    exports: usize,
}

/// A block of shared memory with the buffer protocol.
#[pyclass(frozen, module = "m3ipc")]
pub struct Block {
    state: Mutex<State>,
    birth: Birth,
}

/// Why a block has no memory here.
const GONE: &str = "the block was given away or released; its new owner has the memory";

impl Block {
    pub fn of(block: m3ipc::Block) -> Self {
        Self { state: Mutex::new(State { block: Some(block), exports: 0 }), birth: Birth::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the block out of the object, to give it away.
    pub fn take(&self) -> PyResult<m3ipc::Block> {
        self.birth.check("block")?;
        let mut state = self.state();
        if state.exports > 0 {
            let text = format!(
                "{} view(s) of the block are in use (numpy arrays, memoryviews, tensors), through \
                 which it could still be written; delete them before the block is given away",
                state.exports
            );
            return Err(PyBufferError::new_err(text));
        }
        state.block.take().ok_or_else(|| PyBufferError::new_err(GONE))
    }

    /// Puts a block back that was not given away.
    pub fn restore(&self, block: Option<m3ipc::Block>) {
        self.state().block = block;
    }

    fn with<R>(&self, read: impl FnOnce(&m3ipc::Block) -> R) -> PyResult<R> {
        self.birth.check("block")?;
        self.state().block.as_ref().map(read).ok_or_else(|| PyBufferError::new_err(GONE))
    }
}

#[pymethods]
impl Block {
    /// # Safety
    /// Python calls this with a view of its own.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        this.birth.check("block")?;
        let mut state = this.state();
        let block = state.block.as_mut().ok_or_else(|| PyBufferError::new_err(GONE))?;
        let bytes = isize::try_from(block.bytes()).map_err(|_| PyBufferError::new_err(GONE))?;
        let (start, readonly) = match block.as_mut_ptr() {
            Some(start) => (start, 0),
            None => (block.as_ptr().cast_mut(), 1),
        };
        // SAFETY: the view is Python's. The memory outlives the view: see the head of this file. A
        // request for a writable view of a read-only block fails in the call.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast(), bytes, readonly, flags)
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        state.exports += 1;
        Ok(())
    }

    /// # Safety
    /// Python calls this once for each view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        let mut state = self.state();
        state.exports = state.exports.saturating_sub(1);
    }

    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        self.with(m3ipc::Block::bytes)
    }

    #[getter]
    fn capacity(&self) -> PyResult<u64> {
        self.with(m3ipc::Block::capacity_bytes)
    }

    #[getter]
    fn area(&self) -> PyResult<u32> {
        self.with(m3ipc::Block::area)
    }

    #[getter]
    fn number(&self) -> PyResult<u32> {
        self.with(m3ipc::Block::number)
    }

    #[getter]
    fn exports(&self) -> usize {
        self.state().exports
    }

    #[getter]
    fn is_held(&self) -> bool {
        self.state().block.is_some()
    }

    #[getter]
    fn readonly(&self) -> PyResult<bool> {
        self.with(|block| !block.is_writable())
    }

    fn resize(&self, nbytes: u64) -> PyResult<()> {
        self.birth.check("block")?;
        let mut state = self.state();
        if state.exports > 0 {
            let text = "views of the block are in use; delete them before it is resized";
            return Err(PyBufferError::new_err(text));
        }
        let block = state.block.as_mut().ok_or_else(|| PyBufferError::new_err(GONE))?;
        block.set_bytes(nbytes).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn release(&self) -> PyResult<()> {
        if self.is_held() {
            drop(self.take()?);
        }
        Ok(())
    }

    fn __len__(&self) -> PyResult<usize> {
        self.nbytes()
    }

    fn __repr__(&self) -> String {
        let state = self.state();
        match &state.block {
            Some(block) => {
                format!("<m3ipc.Block {} bytes, {} views>", block.bytes(), state.exports)
            }
            None => "<m3ipc.Block given away>".to_owned(),
        }
    }
}

/// A block that was given and may not be accepted yet.
#[pyclass(frozen, module = "m3ipc")]
pub struct Given {
    pub given: GivenBlock,
}

#[pymethods]
impl Given {
    #[getter]
    fn name(&self) -> Vec<u8> {
        self.given.name().to_vec()
    }
}

/// The block that an operation did not give away goes back into its object.
pub fn unsent<E: std::error::Error + Into<Fault>>(
    object: &Block,
    unsent: m3ipc::Unsent<E>,
) -> Fault {
    object.restore(unsent.block);
    unsent.error.into()
}

/// The name of a block from Python.
pub fn name_of(name: &[u8]) -> Result<[u8; 32], Fault> {
    name.try_into().map_err(|_| {
        let text = format!("a name of a block has 32 bytes, not {}", name.len());
        Fault::new("block", Code::Inval, text)
    })
}
