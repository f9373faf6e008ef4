//! A message as Python sees it.

use crate::block::Block;
use crate::error::Fault;
use crate::interpreter::call;
use m3ipc::{AreaError, Received};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Bodies up to this length become objects at once: without memory for them nothing goes on.
const CERTAIN_BYTES: usize = 64 << 10;

/// What the facts about a delivery say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    pub is_request: bool,
    pub is_notification: bool,
    pub died: Option<i32>,
}

impl Delivery {
    pub fn of(received: &Received) -> Self {
        Self {
            is_request: received.is_request,
            is_notification: received.is_notification,
            died: received.died.map(|died| died.0),
        }
    }
}

/// How an endpoint, which is the first argument, replies to an address.
pub type Replies =
    fn(&Bound<'_, PyAny>, i32, Option<&Bound<'_, PyAny>>, i32, Option<&[u8]>) -> PyResult<bool>;

/// A message, an answer or a notification.
#[pyclass(frozen, module = "m3ipc")]
pub struct Message {
    message: m3ipc::Message,
    data: Py<PyBytes>,
    delivery: Delivery,
    /// Or why it was not accepted: a bad block must not hide its message.
    block: Result<Option<Py<Block>>, AreaError>,
    arrays: Py<PyTuple>,
    endpoint: Py<PyAny>,
    replies: Replies,
}

/// A function of the module `m3ipc._bodies`.
macro_rules! bodies {
    ($py:expr, $name:literal) => {{
        static FUNCTION: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::PyAny>> =
            pyo3::sync::PyOnceLock::new();
        FUNCTION.import($py, "m3ipc._bodies", $name)
    }};
}
pub(crate) use bodies;

/// The mark of a message with arrays, in the bytes inside the message. See `m3ipc/_bodies.py`.
const ARRAYS: &[u8] = b"m3py\x01";

impl Message {
    /// The message that an endpoint took. Accepts the arrays that came with it.
    pub fn of(
        (endpoint, replies): (&Bound<'_, PyAny>, Replies),
        message: m3ipc::Message,
        data: &[u8],
        delivery: Delivery,
        block: Result<Option<m3ipc::Block>, AreaError>,
    ) -> PyResult<Self> {
        let py = endpoint.py();
        let data = bytes_of(py, data)?;
        let arrays = if message.payload.starts_with(ARRAYS) {
            let accept = bodies!(py, "accept")?;
            call(accept, (endpoint, message.source.0, &data))?.cast_into::<PyTuple>()?
        } else {
            PyTuple::empty(py)
        };
        let block = match block {
            Ok(block) => Ok(block.map(|block| Py::new(py, Block::of(block))).transpose()?),
            Err(error) => Err(error),
        };
        Ok(Self {
            message,
            data: data.unbind(),
            delivery,
            block,
            arrays: arrays.unbind(),
            endpoint: endpoint.clone().unbind(),
            replies,
        })
    }
}

/// Bytes of a peer as an object. `MemoryError` without memory for them.
fn bytes_of<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // The form that can fail also writes zeros first.
    if data.len() <= CERTAIN_BYTES {
        return Ok(PyBytes::new(py, data));
    }
    PyBytes::new_with(py, data.len(), |room| {
        room.copy_from_slice(data);
        Ok(())
    })
}

#[pymethods]
impl Message {
    /// The address of the sender, which the sender cannot choose.
    #[getter]
    fn source(&self) -> i32 {
        self.message.source.0
    }

    /// The type that the sender chose.
    #[getter]
    fn r#type(&self) -> i32 {
        self.message.m_type
    }

    /// The 40 bytes inside the message. Programs in C may use them.
    #[getter]
    fn inline<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.message.payload)
    }

    /// The bytes, whole in each case.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }

    /// Whether the sender waits for an answer.
    #[getter]
    fn is_request(&self) -> bool {
        self.delivery.is_request
    }

    /// Whether it is a notification, which has no content.
    #[getter]
    fn is_notification(&self) -> bool {
        self.delivery.is_notification
    }

    /// The watched endpoint whose end this message reports.
    #[getter]
    fn died(&self) -> Option<i32> {
        self.delivery.died
    }

    /// The block that came with the message, from a program without arrays.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyResult<Option<Py<Block>>> {
        match &self.block {
            Ok(block) => Ok(block.as_ref().map(|block| block.clone_ref(py))),
            Err(error) => Err(Fault::from(error.clone()).with(self.message.source).into()),
        }
    }

    /// All arrays. One that could not be accepted is an exception.
    #[getter]
    fn arrays(&self, py: Python<'_>) -> Py<PyTuple> {
        self.arrays.clone_ref(py)
    }

    /// The endpoint that took it.
    #[getter]
    fn endpoint(&self, py: Python<'_>) -> Py<PyAny> {
        self.endpoint.clone_ref(py)
    }

    /// The only array of the message. TypeError if it has none or several.
    #[getter]
    fn array(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let one = bodies!(slf.py(), "one_array")?;
        Ok(call(one, (slf,))?.unbind())
    }

    /// The typed value in the bytes. `DecodeError` if they are no such value.
    #[pyo3(signature = (into, *, codec=None))]
    fn decode(
        slf: &Bound<'_, Self>,
        into: &Bound<'_, PyAny>,
        codec: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let decode = bodies!(slf.py(), "decode")?;
        Ok(call(decode, (slf, into, codec))?.unbind())
    }

    /// Answers the request. Never waits. False if the sender has given up or ended.
    #[pyo3(signature = (body=None, *, r#type=0, inline=None))]
    fn reply(
        &self,
        py: Python<'_>,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        inline: Option<&[u8]>,
    ) -> PyResult<bool> {
        if !self.delivery.is_request {
            let text = "nobody waits for an answer to this message: it is no request";
            return Err(PyTypeError::new_err(text));
        }
        (self.replies)(self.endpoint.bind(py), self.message.source.0, body, r#type, inline)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let kind = match self.delivery {
            Delivery { died: Some(died), .. } => {
                return Ok(format!("<m3ipc.Message death of {died}>"));
            }
            Delivery { is_notification: true, .. } => "notification",
            Delivery { is_request: true, .. } => "request",
            _ => "message",
        };
        let bytes = self.data.bind(py).len()?;
        let (source, m_type) = (self.message.source.0, self.message.m_type);
        Ok(format!("<m3ipc.Message {kind} of {source}, type {m_type}, {bytes} bytes>"))
    }
}
