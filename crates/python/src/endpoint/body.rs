//! Bodies that are bytes already, and the bytes inside a message.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The bytes of a body that needs no conversion.
pub(super) fn raw<'a>(body: Option<&'a Bound<'_, PyAny>>) -> Option<&'a [u8]> {
    match body {
        None => Some(&[]),
        // Only `bytes`: other buffers may change while the interpreter lock is released.
        Some(body) => body.cast_exact::<PyBytes>().ok().map(|bytes| bytes.as_bytes()),
    }
}

/// Fails if bytes inside the message go with a body that is no bytes.
pub(super) fn refuse(inline: Option<&[u8]>) -> PyResult<()> {
    match inline {
        None => Ok(()),
        Some(_) => Err(PyValueError::new_err("inline goes with a body of bytes alone")),
    }
}

pub(super) fn message_of(m_type: i32, inline: &[u8]) -> PyResult<m3ipc::Message> {
    let mut message = m3ipc::Message::new(m_type);
    let Some(place) = message.payload.get_mut(..inline.len()) else {
        let text = format!("{} bytes do not fit into the 40 bytes of inline", inline.len());
        return Err(PyValueError::new_err(text));
    };
    place.copy_from_slice(inline);
    Ok(message)
}
