//! A message as Python sees it.

use crate::block::Block;
use crate::error::Fault;
use m3ipc::{AreaError, Received};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

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
    fn(&Bound<'_, PyAny>, i32, Option<&Bound<'_, PyAny>>, i32, Option<&[u8]>) -> PyResult<()>;

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
        let data = PyBytes::new(py, data);
        let arrays = if message.payload.starts_with(ARRAYS) {
            let accept = bodies!(py, "accept")?;
            accept.call1((endpoint, message.source.0, &data))?.cast_into::<PyTuple>()?
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

#[pymethods]
impl Message {
    #[getter]
    fn source(&self) -> i32 {
        self.message.source.0
    }

    #[getter]
    fn r#type(&self) -> i32 {
        self.message.m_type
    }

    #[getter]
    fn inline<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.message.payload)
    }

    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }

    #[getter]
    fn is_request(&self) -> bool {
        self.delivery.is_request
    }

    #[getter]
    fn is_notification(&self) -> bool {
        self.delivery.is_notification
    }

    #[getter]
    fn died(&self) -> Option<i32> {
        self.delivery.died
    }

    #[getter]
    fn block(&self, py: Python<'_>) -> PyResult<Option<Py<Block>>> {
        match &self.block {
            Ok(block) => Ok(block.as_ref().map(|block| block.clone_ref(py))),
            Err(error) => Err(Fault::from(error.clone()).with(self.message.source).into()),
        }
    }

    #[getter]
    fn arrays(&self, py: Python<'_>) -> Py<PyTuple> {
        self.arrays.clone_ref(py)
    }

    #[getter]
    fn endpoint(&self, py: Python<'_>) -> Py<PyAny> {
        self.endpoint.clone_ref(py)
    }

    #[getter]
    fn array(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let one = bodies!(slf.py(), "one_array")?;
        Ok(one.call1((slf,))?.unbind())
    }

    #[pyo3(signature = (into, *, codec=None))]
    fn decode(
        slf: &Bound<'_, Self>,
        into: &Bound<'_, PyAny>,
        codec: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let decode = bodies!(slf.py(), "decode")?;
        Ok(decode.call1((slf, into, codec))?.unbind())
    }

    #[pyo3(signature = (body=None, *, r#type=0, inline=None))]
    fn reply(
        &self,
        py: Python<'_>,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        inline: Option<&[u8]>,
    ) -> PyResult<()> {
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
