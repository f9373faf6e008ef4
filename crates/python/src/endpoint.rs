//! Endpoints: the verbs, their parts for event loops, and blocks.

mod body;
mod calls;
mod owned;

use crate::anchor::Anchor;
use crate::block::{self, Block, Given};
use crate::error::{Fault, busy, closed};
use crate::fork::Birth;
use crate::message::{Delivery, Message, bodies};
use crate::signals::Signals;
use crate::timeout::of_seconds;
use body::{message_of, raw, refuse};
use m3ipc::{
    ANY, Address, AreaError, Code, PendingRequest, PendingSend, ReceiveError, Source, Timeout,
};
use owned::Owned;
use pyo3::prelude::*;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// A bound endpoint.
#[pyclass(frozen, module = "m3ipc", weakref)]
pub struct Endpoint {
    bound: Mutex<Option<Owned>>,
    signals: Signals,
    address: Address,
    vm: String,
    birth: Birth,
}

/// A message in parts.
#[pyclass(frozen, module = "m3ipc")]
pub struct Sending {
    send: Mutex<Option<PendingSend>>,
    to: Address,
}

/// A request in parts.
#[pyclass(frozen, module = "m3ipc")]
pub struct Pending {
    request: Mutex<Option<PendingRequest>>,
    to: Address,
}

impl Endpoint {
    pub fn of(mut endpoint: m3ipc::Endpoint, anchor: Arc<Anchor>) -> Self {
        let signals = Signals::default();
        endpoint.interrupt_by(signals.hook());
        Self {
            address: endpoint.address(),
            vm: endpoint.vm_name().to_owned(),
            bound: Mutex::new(Some(Owned::of(endpoint, anchor))),
            signals,
            birth: Birth::now(),
        }
    }

    /// Makes a call without the interpreter lock.
    fn enter<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Owned) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        self.birth.check("endpoint")?;
        let (made, raised) = py.detach(|| {
            let Ok(mut bound) = self.bound.try_lock() else {
                return (Err(busy("endpoint")), Ok(()));
            };
            let Some(bound) = bound.as_mut() else { return (Err(closed("endpoint")), Ok(())) };
            self.signals.clear();
            (call(bound), self.signals.check())
        });
        raised?;
        Ok(made?)
    }

    /// Makes a call that never waits, and keeps the interpreter lock: a release costs more.
    fn enter_quick<R>(&self, call: impl FnOnce(&mut Owned) -> Result<R, Fault>) -> PyResult<R> {
        self.birth.check("endpoint")?;
        let mut bound = self.bound.try_lock().map_err(|_| busy("endpoint"))?;
        call(bound.as_mut().ok_or_else(|| closed("endpoint"))?).map_err(PyErr::from)
    }
}

/// Replies by an endpoint: see [`Message`].
fn reply_by(
    endpoint: &Bound<'_, PyAny>,
    to: i32,
    body: Option<&Bound<'_, PyAny>>,
    m_type: i32,
    inline: Option<&[u8]>,
) -> PyResult<()> {
    Endpoint::reply(endpoint.cast()?, to, body, m_type, inline)
}

fn of_receive(error: ReceiveError, source: Source) -> Fault {
    let fault = Fault::from(error);
    match source {
        Source::Any => fault,
        Source::From(peer) => fault.with(peer),
    }
}

#[pymethods]
impl Endpoint {
    #[getter]
    fn address(&self) -> i32 {
        self.address.0
    }

    #[getter]
    fn vm(&self) -> &str {
        &self.vm
    }

    #[getter]
    fn is_bound(&self) -> bool {
        if self.birth.check("endpoint").is_err() {
            return false;
        }
        match self.bound.try_lock() {
            Ok(mut bound) => bound.as_mut().is_some_and(|bound| bound.endpoint.is_bound()),
            // Another thread is in a call, which ends with the endpoint.
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    #[pyo3(signature = (
        to, body=None, *, r#type=0, timeout=None, returns=None, codec=None, inline=None
    ))]
    #[allow(clippy::too_many_arguments)] // they are keywords in Python
    fn call(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        timeout: Option<f64>,
        returns: Option<&Bound<'_, PyAny>>,
        codec: Option<&Bound<'_, PyAny>>,
        inline: Option<&[u8]>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        match raw(body) {
            Some(bytes) if returns.is_none() => {
                let inline = inline.unwrap_or_default();
                let answer = Self::call_raw(slf, to, bytes, r#type, timeout, inline)?;
                Ok(Py::new(py, answer)?.into_any())
            }
            _ => {
                refuse(inline)?;
                let call = bodies!(py, "call")?;
                Ok(call.call1((slf, to, body, r#type, timeout, returns, codec))?.unbind())
            }
        }
    }

    #[pyo3(signature = (to, body=None, *, r#type=0, timeout=None, codec=None, inline=None))]
    #[allow(clippy::too_many_arguments)] // they are keywords in Python
    fn send(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        timeout: Option<f64>,
        codec: Option<&Bound<'_, PyAny>>,
        inline: Option<&[u8]>,
    ) -> PyResult<()> {
        match raw(body) {
            Some(bytes) => {
                let inline = inline.unwrap_or_default();
                slf.get()._send(slf.py(), to, bytes, r#type, timeout, inline)
            }
            None => {
                refuse(inline)?;
                let send = bodies!(slf.py(), "send")?;
                send.call1((slf, to, body, r#type, timeout, codec)).map(drop)
            }
        }
    }

    #[pyo3(signature = (source=None, *, timeout=None))]
    fn receive(
        slf: &Bound<'_, Self>,
        source: Option<i32>,
        timeout: Option<f64>,
    ) -> PyResult<Message> {
        Self::receive_within(slf, source, of_seconds(timeout)?)
    }

    #[pyo3(name = "reply", signature = (to, body=None, *, r#type=0, inline=None))]
    fn reply_to(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        inline: Option<&[u8]>,
    ) -> PyResult<()> {
        Self::reply(slf, to, body, r#type, inline)
    }

    #[pyo3(signature = (to, body=None, *, r#type=0, timeout=None, inline=None))]
    fn reply_receive(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        timeout: Option<f64>,
        inline: Option<&[u8]>,
    ) -> PyResult<Message> {
        let limit = of_seconds(timeout)?;
        Self::reply_receive_within(slf, to, body, r#type, inline, limit)
    }

    fn _call(
        slf: &Bound<'_, Self>,
        to: i32,
        data: &[u8],
        m_type: i32,
        timeout: Option<f64>,
        inline: &[u8],
    ) -> PyResult<Message> {
        Self::call_raw(slf, to, data, m_type, timeout, inline)
    }

    fn _send(
        &self,
        py: Python<'_>,
        to: i32,
        data: &[u8],
        m_type: i32,
        timeout: Option<f64>,
        inline: &[u8],
    ) -> PyResult<()> {
        let (to, limit) = (Address(to), of_seconds(timeout)?);
        let message = message_of(m_type, inline)?;
        self.enter(py, |bound| {
            let sent = bound.endpoint.send_long(to, &message, data, limit);
            sent.map_err(|error| Fault::from(error).with(to))
        })
    }

    fn _reply(
        &self,
        py: Python<'_>,
        to: i32,
        data: &[u8],
        m_type: i32,
        inline: &[u8],
    ) -> PyResult<()> {
        self.reply_raw(py, to, data, m_type, inline)
    }

    fn notify(&self, py: Python<'_>, to: i32) -> PyResult<()> {
        let to = Address(to);
        self.enter(py, |bound| {
            bound.endpoint.notify(to).map_err(|error| Fault::from(error).with(to))
        })
    }

    fn watch(&self, py: Python<'_>, peer: i32) -> PyResult<()> {
        let peer = Address(peer);
        self.enter(py, |bound| {
            bound.endpoint.watch(peer).map_err(|error| Fault::from(error).with(peer))
        })
    }

    fn unwatch(&self, py: Python<'_>, peer: i32) -> PyResult<()> {
        self.enter(py, |bound| {
            bound.endpoint.unwatch(Address(peer));
            Ok(())
        })
    }

    #[pyo3(signature = (on=true))]
    fn watch_all(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.enter(py, |bound| {
            bound.endpoint.watch_all(on);
            Ok(())
        })
    }

    fn name_attach(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.enter(py, |bound| Ok(bound.endpoint.name_attach(name)?))
    }

    #[pyo3(signature = (name, *, timeout=None))]
    fn locate(&self, py: Python<'_>, name: &str, timeout: Option<f64>) -> PyResult<i32> {
        let limit = of_seconds(timeout)?;
        self.enter(py, |bound| match limit {
            Timeout::NoWait => Ok(bound.endpoint.name_locate(name)?.0),
            limit => Ok(bound.endpoint.wait_name(name, limit)?.0),
        })
    }

    #[pyo3(signature = (peer, *, timeout=None))]
    fn wait_bind(&self, py: Python<'_>, peer: i32, timeout: Option<f64>) -> PyResult<i32> {
        let (peer, limit) = (Address(peer), of_seconds(timeout)?);
        self.enter(py, |bound| {
            let waited = bound.endpoint.wait_bind(peer, limit);
            waited.map(|address| address.0).map_err(|error| Fault::from(error).with(peer))
        })
    }

    #[pyo3(signature = (*, timeout=None))]
    fn migrate(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = of_seconds(timeout)?;
        self.enter(py, |bound| {
            let moved = bound.endpoint.migrate_timeout(limit);
            moved.map_err(|error| Fault::new("move", error.code(), &error))
        })
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.enter(py, |bound| Ok(bound.endpoint.fd()?.as_raw_fd()))
    }

    #[pyo3(signature = (source=None))]
    fn try_receive(slf: &Bound<'_, Self>, source: Option<i32>) -> PyResult<Option<Message>> {
        let source = source.map_or(Source::Any, |source| Source::from(Address(source)));
        let found = slf.get().enter(slf.py(), |bound| {
            match bound.endpoint.receive_bytes(source, Timeout::NoWait) {
                Ok((received, data)) => Ok(Some((received, data, bound.endpoint.take_block()))),
                Err(ReceiveError::WouldBlock(_)) => Ok(None),
                Err(error) => Err(of_receive(error, source)),
            }
        })?;
        let Some((received, data, block)) = found else { return Ok(None) };
        Message::of(
            (slf.as_any(), reply_by),
            received.message,
            &data,
            Delivery::of(&received),
            block,
        )
        .map(Some)
    }

    fn _begin(
        &self,
        py: Python<'_>,
        to: i32,
        data: Vec<u8>,
        m_type: i32,
        inline: &[u8],
    ) -> PyResult<Pending> {
        let (to, message) = (Address(to), message_of(m_type, inline)?);
        let begun = self.enter(py, |bound| {
            let begun = bound.endpoint.begin_request_long_bytes(to, &message, data);
            begun.map_err(|error| Fault::from(error).with(to))
        })?;
        Ok(Pending { request: Mutex::new(Some(begun)), to })
    }

    fn _poll(slf: &Bound<'_, Self>, pending: &Pending) -> PyResult<Option<Message>> {
        let polled = slf.get().enter(slf.py(), |bound| {
            let mut request = pending.request.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(open) = request.as_mut() else {
                let text = "this request has ended; begin another one";
                return Err(Fault::new("call", Code::BadRequest, text));
            };
            match bound.endpoint.poll_request_bytes(open) {
                Ok(None) => Ok(None),
                Ok(Some((answer, data))) => {
                    *request = None;
                    Ok(Some((answer, data, bound.endpoint.take_block())))
                }
                Err(error) => {
                    *request = None;
                    Err(Fault::from(error).with(pending.to))
                }
            }
        })?;
        let Some((answer, data, block)) = polled else { return Ok(None) };
        Message::of((slf.as_any(), reply_by), answer, &data, Delivery::default(), block).map(Some)
    }

    fn _abandon(&self, py: Python<'_>, pending: &Pending) -> PyResult<()> {
        self.enter(py, |bound| {
            let mut request = pending.request.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = request.take() {
                bound.endpoint.abandon(&open);
            }
            Ok(())
        })
    }

    fn _begin_send(
        &self,
        py: Python<'_>,
        to: i32,
        data: Vec<u8>,
        m_type: i32,
        inline: &[u8],
    ) -> PyResult<Sending> {
        let (to, message) = (Address(to), message_of(m_type, inline)?);
        let begun = self.enter(py, |bound| {
            let begun = bound.endpoint.begin_send(to, &message, data);
            begun.map_err(|error| Fault::from(error).with(to))
        })?;
        Ok(Sending { send: Mutex::new(Some(begun)), to })
    }

    /// Whether the receiver has taken the message.
    fn _poll_send(&self, py: Python<'_>, sending: &Sending) -> PyResult<bool> {
        self.enter(py, |bound| {
            let mut send = sending.send.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(open) = send.as_mut() else { return Ok(true) };
            let polled = bound.endpoint.poll_send(open);
            if !matches!(polled, Ok(false)) {
                *send = None;
            }
            polled.map_err(|error| Fault::from(error).with(sending.to))
        })
    }

    fn _withdraw(&self, py: Python<'_>, sending: &Sending) -> PyResult<()> {
        self.enter(py, |bound| {
            let mut send = sending.send.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = send.take() {
                // Taken or not: the caller has given the message up.
                let _ = bound.endpoint.withdraw(&open);
            }
            Ok(())
        })
    }

    #[pyo3(signature = (nbytes, *, to=None))]
    fn block(&self, py: Python<'_>, nbytes: u64, to: Option<i32>) -> PyResult<Block> {
        let to = to.map_or(ANY, Address);
        Ok(Block::of(self.enter(py, |bound| Ok(bound.allocate(nbytes, to)?))?))
    }

    #[pyo3(signature = (shape, dtype=None, *, to=None))]
    fn array(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        to: Option<i32>,
    ) -> PyResult<Py<PyAny>> {
        let new_array = bodies!(slf.py(), "new_array")?;
        Ok(new_array.call1((slf, shape, dtype, to))?.unbind())
    }

    fn give(&self, py: Python<'_>, to: i32, block: &Block) -> PyResult<Given> {
        let taken = block.take()?;
        let mut taken = Some(taken);
        let given = self.enter(py, |bound| {
            let Some(inner) = taken.take() else { return Err(closed("endpoint")) };
            // Reads the daemon's events: a block that is given to the dead is lost.
            let _ = bound.endpoint.is_bound();
            let given = bound.endpoint.give_block(Address(to), inner);
            given.map_err(|unsent| block::unsent(block, unsent).with(Address(to)))
        });
        if taken.is_some() {
            block.restore(taken);
        }
        Ok(Given { given: given? })
    }

    fn accept(&self, py: Python<'_>, source: i32, name: &[u8]) -> PyResult<Block> {
        let name = block::name_of(name)?;
        let source = Address(source);
        let block = self.enter(py, |bound| {
            let accepted = bound.endpoint.accept_given(source, &name);
            accepted.map_err(|error| match error {
                AreaError::PeerBroke(_)
                    if bound.endpoint.has_area_of(&name) && bound.is_gone(source) =>
                {
                    let text = format!(
                        "endpoint {source} died before its block was accepted, and the block \
                             is lost; look its name up again"
                    );
                    Fault::new("block", Code::SrcDied, text).with(source)
                }
                error => Fault::from(error).with(source),
            })
        })?;
        Ok(Block::of(block))
    }

    fn take_back(&self, py: Python<'_>, given: &Given) -> PyResult<Option<Block>> {
        let back = self.enter(py, |bound| Ok(bound.endpoint.take_back_given(&given.given)))?;
        Ok(back.map(Block::of))
    }

    /// Gives a block back to its object after a hand-over that failed.
    fn _take_back_into(&self, py: Python<'_>, given: &Given, into: &Block) -> PyResult<bool> {
        let back = self.enter(py, |bound| Ok(bound.endpoint.take_back_given(&given.given)))?;
        let is_back = back.is_some();
        into.restore(back);
        Ok(is_back)
    }

    /// Sends a block with a message: as a request, as a reply, or alone.
    #[pyo3(signature = (how, to, block, m_type, timeout))]
    fn _with_block(
        slf: &Bound<'_, Self>,
        how: &str,
        to: i32,
        block: &Block,
        m_type: i32,
        timeout: Option<f64>,
    ) -> PyResult<Option<Message>> {
        let (to, limit) = (Address(to), of_seconds(timeout)?);
        let message = m3ipc::Message::new(m_type);
        let mut taken = Some(block.take()?);
        let sent = slf.get().enter(slf.py(), |bound| {
            let Some(inner) = taken.take() else { return Err(closed("endpoint")) };
            let endpoint = &mut bound.endpoint;
            match how {
                "call" => endpoint
                    .sendrec_block(to, &message, inner, limit)
                    .map_err(|unsent| block::unsent(block, unsent))
                    .map(|answer| Some((answer, endpoint.take_block()))),
                "reply" => endpoint
                    .reply_block(to, &message, inner)
                    .map(|()| None)
                    .map_err(|unsent| block::unsent(block, unsent)),
                _ => endpoint
                    .send_block(to, &message, inner, limit)
                    .map(|()| None)
                    .map_err(|unsent| block::unsent(block, unsent)),
            }
            .map_err(|fault| fault.with(to))
        });
        if taken.is_some() {
            block.restore(taken);
        }
        match sent? {
            None => Ok(None),
            Some((answer, block)) => {
                Message::of((slf.as_any(), reply_by), answer, &[], Delivery::default(), block)
                    .map(Some)
            }
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check("endpoint")?;
        let closing = py.detach(|| {
            let mut bound = self.bound.try_lock().map_err(|_| busy("endpoint"))?;
            drop(bound.take());
            Ok::<_, Fault>(())
        });
        Ok(closing?)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Message> {
        Self::receive_within(slf, None, Timeout::Never)
    }

    fn __repr__(&self) -> String {
        format!("<m3ipc.Endpoint {} of VM {:?}>", self.address.0, self.vm)
    }
}
