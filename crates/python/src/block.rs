//! Blocks as Python buffers.
//!
//! A view (memoryview, numpy array, DLPack tensor) of a block is an export of its buffer. A block
//! with exports cannot be given away, so no view can write a block of another owner. Python reads
//! and writes the memory by address; no reference of Rust covers it, since other members of the
//! area may write at any time.
//!
//! The block of a small array is memory of this process: its bytes travel in the message. It
//! becomes a block of an area when it is given to a peer by itself.
//!
//! # Safety
//! The memory of a block is mapped, or allocated, as long as the block is there. A view holds a
//! reference to the block's object, and the block leaves the object only while no view is there.
#![allow(unsafe_code)]

use crate::error::Fault;
use crate::fork::Birth;
use core::ffi::c_int;
use m3ipc::{Code, GivenBlock};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory of an object.
#[derive(Debug)]
pub enum Memory {
    /// A block of an area.
    Shared(m3ipc::Block),
    /// Memory of this process.
    Local(Box<[u8]>),
}

impl Memory {
    fn bytes(&self) -> usize {
        match self {
            Self::Shared(block) => block.bytes(),
            Self::Local(bytes) => bytes.len(),
        }
    }

    /// The start for a view, and whether the view may only read.
    fn start(&mut self) -> (*mut u8, bool) {
        match self {
            Self::Shared(block) => match block.as_mut_ptr() {
                Some(start) => (start, false),
                None => (block.as_ptr().cast_mut(), true),
            },
            Self::Local(bytes) => (bytes.as_mut_ptr(), false),
        }
    }
}

/// The memory of an object, and the views of it.
struct State {
    block: Option<Memory>,
    exports: usize,
}

/// A block of shared memory. memoryview and numpy read and write it in place.
#[pyclass(frozen, module = "m3ipc")]
pub struct Block {
    state: Mutex<State>,
    birth: Birth,
}

/// Why a block has no memory here.
const GONE: &str = "the block was given away or released; its new owner has the memory";

impl Block {
    pub fn of(block: m3ipc::Block) -> Self {
        Self::with_memory(Memory::Shared(block))
    }

    fn with_memory(memory: Memory) -> Self {
        Self { state: Mutex::new(State { block: Some(memory), exports: 0 }), birth: Birth::now() }
    }

    /// The state, locked. A child by fork does not call it: it may find the lock held for ever.
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the block out of the object, to give it away.
    pub fn take(&self) -> PyResult<Memory> {
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
    pub fn restore(&self, memory: Option<Memory>) {
        self.state().block = memory;
    }

    fn with<R>(&self, read: impl FnOnce(&Memory) -> R) -> PyResult<R> {
        self.birth.check("block")?;
        self.state().block.as_ref().map(read).ok_or_else(|| PyBufferError::new_err(GONE))
    }

    /// A property of a block of an area.
    fn in_area<R>(&self, read: impl FnOnce(&m3ipc::Block) -> R) -> PyResult<R> {
        self.with(|memory| match memory {
            Memory::Shared(block) => Ok(read(block)),
            Memory::Local(_) => Err(PyValueError::new_err(
                "the block of a small array lies in no area: its bytes travel in the message",
            )),
        })?
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
        let memory = state.block.as_mut().ok_or_else(|| PyBufferError::new_err(GONE))?;
        let bytes = isize::try_from(memory.bytes()).map_err(|_| PyBufferError::new_err(GONE))?;
        let (start, is_readonly) = memory.start();
        let readonly = c_int::from(is_readonly);
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
        if self.birth.check("block").is_err() {
            return;
        }
        let mut state = self.state();
        state.exports = state.exports.saturating_sub(1);
    }

    /// A block of zeros in the memory of this process.
    #[staticmethod]
    fn _local(nbytes: usize) -> Self {
        Self::with_memory(Memory::Local(vec![0; nbytes].into()))
    }

    /// A block in the memory of this process, with the bytes from `start` to `end`.
    #[staticmethod]
    fn _local_of(data: &[u8], start: usize, end: usize) -> PyResult<Self> {
        let bytes = data.get(start..end).ok_or_else(|| PyValueError::new_err("too short"))?;
        Ok(Self::with_memory(Memory::Local(bytes.into())))
    }

    #[getter]
    fn _is_local(&self) -> bool {
        matches!(self.state().block, Some(Memory::Local(_)))
    }

    /// Takes the bytes out of a block in the memory of this process, to send them. None if the
    /// block lies in an area.
    fn _take_bytes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if matches!(self.state().block, Some(Memory::Shared(_))) {
            return Ok(None);
        }
        match self.take()? {
            Memory::Local(bytes) => Ok(Some(PyBytes::new(py, &bytes))),
            shared @ Memory::Shared(_) => {
                self.restore(Some(shared));
                Ok(None)
            }
        }
    }

    /// Puts bytes back that were not sent.
    fn _put_bytes(&self, data: &[u8]) {
        self.restore(Some(Memory::Local(data.into())));
    }

    /// The length of the content in bytes.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        self.with(Memory::bytes)
    }

    /// The length that the content may have, in bytes.
    #[getter]
    fn capacity(&self) -> PyResult<u64> {
        self.with(|memory| match memory {
            Memory::Shared(block) => block.capacity_bytes(),
            Memory::Local(bytes) => bytes.len() as u64,
        })
    }

    /// The number of its area. ValueError for the block of a small array, which has none.
    #[getter]
    fn area(&self) -> PyResult<u32> {
        self.in_area(m3ipc::Block::area)
    }

    /// Its number in the area. ValueError for the block of a small array, which has none.
    #[getter]
    fn number(&self) -> PyResult<u32> {
        self.in_area(m3ipc::Block::number)
    }

    /// The views that exist now.
    #[getter]
    fn exports(&self) -> usize {
        if self.birth.check("block").is_ok() { self.state().exports } else { 0 }
    }

    /// Whether it is still here: not given away and not released.
    #[getter]
    fn is_held(&self) -> bool {
        self.birth.check("block").is_ok() && self.state().block.is_some()
    }

    /// Whether its content cannot be written here.
    #[getter]
    fn readonly(&self) -> PyResult<bool> {
        self.with(|memory| matches!(memory, Memory::Shared(block) if !block.is_writable()))
    }

    /// Sets the length of the content, up to the capacity.
    fn resize(&self, nbytes: u64) -> PyResult<()> {
        self.birth.check("block")?;
        let mut state = self.state();
        if state.exports > 0 {
            let text = "views of the block are in use; delete them before it is resized";
            return Err(PyBufferError::new_err(text));
        }
        match state.block.as_mut().ok_or_else(|| PyBufferError::new_err(GONE))? {
            Memory::Shared(block) => {
                block.set_bytes(nbytes).map_err(|error| PyValueError::new_err(error.to_string()))
            }
            Memory::Local(_) => {
                Err(PyValueError::new_err("the block of a small array keeps its length"))
            }
        }
    }

    /// Frees the memory. `BufferError` while it has views.
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
        if self.birth.check("block").is_err() {
            return "<m3ipc.Block of the parent process>".to_owned();
        }
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
    /// Its name of 32 bytes, for `Endpoint.accept`.
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
    object.restore(unsent.block.map(Memory::Shared));
    unsent.error.into()
}

/// The name of a block from Python.
pub fn name_of(name: &[u8]) -> Result<[u8; 32], Fault> {
    name.try_into().map_err(|_| {
        let text = format!("a name of a block has 32 bytes, not {}", name.len());
        Fault::new("block", Code::Inval, text)
    })
}
