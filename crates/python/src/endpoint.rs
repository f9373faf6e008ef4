//! Endpoints: the verbs, their parts for event loops, and blocks.

mod blocks;
mod body;
mod calls;
mod entry;
mod owned;

use crate::anchor::Anchor;
use crate::block::{Block, Given};
use crate::error::{Fault, busy};
use crate::fork::Birth;
use crate::interpreter::{call as call_python, detach};
use crate::message::{Delivery, Message, bodies};
use crate::signals::Signals;
use crate::timeout::of_seconds;
use body::{message_of, raw, refuse};
use m3ipc::{ANY, Address, Code, PendingRequest, PendingSend, Timeout, Withdrawal};
use owned::Owned;
use pyo3::prelude::*;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError, TryLockError};

/// An endpoint of this process.
///
/// The body of a message is bytes, an `Array` or a list of them, a numpy array (which is copied
/// once), a `Block`, or a value for the codec: dataclasses, lists, dicts, numbers, text in them.
///
/// Up to 40 bytes may go inside the message, as `inline`: for programs in C, and for the quickest
/// calls. Their length does not travel; the receiver sees 40 bytes.
///
/// Time limits are in seconds: `None` for none, 0 for a call that may not wait. Waits release the
/// interpreter lock. In the main thread a signal handler runs during the wait; the wait goes on
/// unless the handler raises an exception, as Ctrl-C does.
///
/// >>> vm = Node().open_vm("shop", life="creator")
/// >>> with vm.bind(name="stock") as server, vm.bind() as client:
/// ...     client.notify(server.address)
/// ...     server.receive(timeout=5).is_notification
/// True
#[pyclass(frozen, module = "m3ipc", weakref)]
pub struct Endpoint {
    bound: Mutex<Option<Owned>>,
    signals: Signals,
    address: Address,
    vm: String,
    birth: Birth,
}

/// A message in parts. `AsyncEndpoint` uses it.
#[pyclass(frozen, module = "m3ipc")]
pub struct Sending {
    send: Mutex<Option<PendingSend>>,
    to: Address,
}

/// A request in parts. `AsyncEndpoint` uses it.
#[pyclass(frozen, module = "m3ipc")]
pub struct Pending {
    request: Mutex<Option<PendingRequest>>,
    to: Address,
}

impl Endpoint {
    pub fn of(mut endpoint: m3ipc::Endpoint, anchor: Anchor) -> Self {
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
}

/// Replies by an endpoint: see [`Message`].
fn reply_by(
    endpoint: &Bound<'_, PyAny>,
    to: i32,
    body: Option<&Bound<'_, PyAny>>,
    m_type: i32,
    inline: Option<&[u8]>,
) -> PyResult<bool> {
    Endpoint::reply(endpoint.cast()?, to, body, m_type, inline)
}

#[pymethods]
impl Endpoint {
    /// Its address in the VM.
    #[getter]
    fn address(&self) -> i32 {
        self.address.0
    }

    /// The name of its VM.
    #[getter]
    fn vm(&self) -> &str {
        &self.vm
    }

    /// Whether it is still a member: not closed, not unbound by others, and no fork.
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

    /// The longest body in bytes that this endpoint takes: 16 MiB unless it is set.
    ///
    /// `TooLong` for the sender of a longer one, also of an answer; this endpoint sees nothing of
    /// it. At least 1,792 bytes, at most `MAX_BYTES`. Arrays and blocks have no limit.
    #[getter]
    fn receive_limit(&self) -> PyResult<usize> {
        self.enter_quick(|bound| Ok(bound.endpoint.receive_limit()))
    }

    #[setter]
    fn set_receive_limit(&self, bytes: usize) -> PyResult<()> {
        self.enter_quick(|bound| {
            bound.endpoint.set_receive_limit(bytes);
            Ok(())
        })
    }

    /// Sends a request and waits for the answer; with `returns`, for its typed value.
    ///
    /// `NotTaken`: a repetition is safe. `OutcomeUnknown`: the server may have acted.
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
                Ok(call_python(call, (slf, to, body, r#type, timeout, returns, codec))?.unbind())
            }
        }
    }

    /// Sends a message, and returns when the peer has taken it.
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
                call_python(send, (slf, to, body, r#type, timeout, codec)).map(drop)
            }
        }
    }

    /// Waits for a message or a notification of one endpoint, or of any.
    #[pyo3(signature = (source=None, *, timeout=None))]
    fn receive(
        slf: &Bound<'_, Self>,
        source: Option<i32>,
        timeout: Option<f64>,
    ) -> PyResult<Message> {
        Self::receive_within(slf, source, of_seconds(timeout)?)
    }

    /// Answers the request of an endpoint. Never waits. False if it does not wait any more.
    #[pyo3(name = "reply", signature = (to, body=None, *, r#type=0, inline=None))]
    fn reply_to(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        r#type: i32,
        inline: Option<&[u8]>,
    ) -> PyResult<bool> {
        Self::reply(slf, to, body, r#type, inline)
    }

    /// Answers a request, then waits for the next message of any endpoint.
    ///
    /// The answer goes first, and is dropped if its client does not wait any more. An exception
    /// says in `answered` whether the client has it. The time limit is for the next message.
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
    ) -> PyResult<bool> {
        self.reply_raw(py, to, data, m_type, inline)
    }

    /// Notifies an endpoint. Never waits. Notifications that were not taken yet are one.
    fn notify(&self, py: Python<'_>, to: i32) -> PyResult<()> {
        let to = Address(to);
        self.enter(py, |bound| {
            bound.endpoint.notify(to).map_err(|error| Fault::from(error).with(to))
        })
    }

    /// Asks for a message when the peer ends: see `Message.died`.
    fn watch(&self, py: Python<'_>, peer: i32) -> PyResult<()> {
        let peer = Address(peer);
        self.enter(py, |bound| {
            bound.endpoint.watch(peer).map_err(|error| Fault::from(error).with(peer))
        })
    }

    /// Ends the watch of a peer.
    fn unwatch(&self, py: Python<'_>, peer: i32) -> PyResult<()> {
        self.enter(py, |bound| {
            bound.endpoint.unwatch(Address(peer));
            Ok(())
        })
    }

    /// Watches every peer that has exchanged messages with this endpoint.
    #[pyo3(signature = (on=true))]
    fn watch_all(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.enter(py, |bound| {
            bound.endpoint.watch_all(on);
            Ok(())
        })
    }

    /// Takes a name that is unique in the VM.
    fn name_attach(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.enter(py, |bound| Ok(bound.endpoint.name_attach(name)?))
    }

    /// Waits until an endpoint has the name. Returns its address.
    #[pyo3(signature = (name, *, timeout=None))]
    fn locate(&self, py: Python<'_>, name: &str, timeout: Option<f64>) -> PyResult<i32> {
        let limit = of_seconds(timeout)?;
        self.enter(py, |bound| match limit {
            Timeout::NoWait => Ok(bound.endpoint.name_locate(name)?.0),
            limit => Ok(bound.endpoint.wait_name(name, limit)?.0),
        })
    }

    /// Waits until an endpoint is bound at an address, also while it moves between two nodes.
    ///
    /// Returns the address. `NoSuchPeer` if another endpoint has the slot, or nobody takes it.
    #[pyo3(signature = (peer, *, timeout=None))]
    fn wait_bind(&self, py: Python<'_>, peer: i32, timeout: Option<f64>) -> PyResult<i32> {
        let (peer, limit) = (Address(peer), of_seconds(timeout)?);
        self.enter(py, |bound| {
            let waited = bound.endpoint.wait_bind(peer, limit);
            waited.map(|address| address.0).map_err(|error| Fault::from(error).with(peer))
        })
    }

    /// Moves this endpoint to the other node that the registry names for its slot.
    ///
    /// A program waits there in `Vm.bind_backup`, and gets the address. Answer first what was
    /// taken: other requests end with `DiedAfter`. Callers of a third node wait for the new
    /// endpoint. Those of the two nodes get `NotTaken` with the code -332, and call again after
    /// `wait_bind`. The state of the program does not move.
    ///
    /// This object has ended then: `is_bound` is False, and its calls raise `Unbound`. The other
    /// endpoints of the process go on. `Vm.bind_backup` waits for the way back.
    ///
    /// The call takes 3 seconds at most, or `timeout` seconds if that is less. After `NotMoved`
    /// (with `MoveTimedOut`) the endpoint is as before, and does not move later. After
    /// `OutcomeUnknown` or an exception of a signal handler, `is_bound` tells.
    #[pyo3(signature = (*, timeout=None))]
    fn migrate(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = of_seconds(timeout)?;
        self.enter(py, |bound| {
            let moved = bound.endpoint.migrate_timeout(limit);
            moved.map_err(|error| Fault::new("move", error.code(), &error))
        })
    }

    /// A descriptor for event loops: readable when `try_receive` may find something.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.enter(py, |bound| Ok(bound.endpoint.fd()?.as_raw_fd()))
    }

    /// A message that is there now, or None.
    #[pyo3(signature = (source=None))]
    fn try_receive(slf: &Bound<'_, Self>, source: Option<i32>) -> PyResult<Option<Message>> {
        Self::receive_now(slf, source, false).map(|(message, _)| message)
    }

    /// The same for one of several tasks that await the descriptor, and the count of all news.
    fn _try_receive(
        slf: &Bound<'_, Self>,
        source: Option<i32>,
        has_others: bool,
    ) -> PyResult<(Option<Message>, u64)> {
        Self::receive_now(slf, source, has_others)
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

    /// Gives a request up, with an answer that has come. Whether the server had taken it.
    fn _abandon(slf: &Bound<'_, Self>, pending: &Pending) -> PyResult<bool> {
        Self::abandon(slf, pending)
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

    /// Gives a message up. Whether the receiver has taken it.
    fn _withdraw(&self, py: Python<'_>, sending: &Sending) -> PyResult<bool> {
        self.enter(py, |bound| {
            let mut send = sending.send.lock().unwrap_or_else(PoisonError::into_inner);
            let open = send.take();
            Ok(open.is_some_and(|open| bound.endpoint.withdraw(&open) == Withdrawal::Taken))
        })
    }

    /// A block of shared memory. With `to`, only that endpoint can get it or map it.
    #[pyo3(signature = (nbytes, *, to=None))]
    fn block(&self, py: Python<'_>, nbytes: u64, to: Option<i32>) -> PyResult<Block> {
        let to = to.map_or(ANY, Address);
        Ok(Block::of(self.enter(py, |bound| Ok(bound.allocate(nbytes, to)?))?))
    }

    /// An array in shared memory. With `to`, only that endpoint can get it or map it.
    #[pyo3(signature = (shape, dtype=None, *, to=None))]
    fn array(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        to: Option<i32>,
    ) -> PyResult<Py<PyAny>> {
        let new_array = bodies!(slf.py(), "new_array")?;
        Ok(call_python(new_array, (slf, shape, dtype, to))?.unbind())
    }

    /// Gives a block away without a message. `BufferError` while it has views.
    fn give(&self, py: Python<'_>, to: i32, block: &Block) -> PyResult<Given> {
        self.give_block(py, Address(to), block)
    }

    /// Accepts a block that an endpoint has given to this one.
    fn accept(&self, py: Python<'_>, source: i32, name: &[u8]) -> PyResult<Block> {
        self.accept_block(py, Address(source), name)
    }

    /// Takes back a block that was not accepted. None if it was.
    fn take_back(&self, py: Python<'_>, given: &Given) -> PyResult<Option<Block>> {
        let back = self.enter(py, |bound| Ok(bound.endpoint.take_back_given(&given.given)))?;
        Ok(back.map(Block::of))
    }

    /// Gives a block back to its object after a hand-over that failed.
    fn _take_back_into(&self, py: Python<'_>, given: &Given, into: &Block) -> PyResult<bool> {
        self.take_block_back(py, given, into)
    }

    /// Replies with a block. Whether its client still waited; else the block comes back.
    fn _reply_block(&self, py: Python<'_>, to: i32, block: &Block, m_type: i32) -> PyResult<bool> {
        self.reply_block(py, Address(to), block, m_type)
    }

    /// Sends a block with a message: as a request or alone.
    #[pyo3(signature = (how, to, block, m_type, timeout))]
    fn _with_block(
        slf: &Bound<'_, Self>,
        how: &str,
        to: i32,
        block: &Block,
        m_type: i32,
        timeout: Option<f64>,
    ) -> PyResult<Option<Message>> {
        Self::send_block(slf, how, Address(to), block, m_type, of_seconds(timeout)?)
    }

    /// Lets the next block for a peer lie in a new area: the peer cannot join the present one.
    fn _forget_area(&self, py: Python<'_>, peer: i32) -> PyResult<()> {
        self.enter(py, |bound| {
            bound.forget_area(Address(peer));
            Ok(())
        })
    }

    /// The process and the user of a peer with a link here, as the daemon vouches for them.
    fn _identity(&self, py: Python<'_>, peer: i32) -> PyResult<Option<(i32, u32)>> {
        self.enter(py, |bound| {
            Ok(bound.endpoint.peer(Address(peer)).map(|found| (found.pid, found.uid)))
        })
    }

    /// Ends the endpoint. Its peers learn of it at once.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check("endpoint")?;
        let closing = detach(py, || {
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

    /// The next message, as `receive` gives it.
    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Message> {
        Self::receive_within(slf, None, Timeout::Never)
    }

    fn __repr__(&self) -> String {
        format!("<m3ipc.Endpoint {} of VM {:?}>", self.address.0, self.vm)
    }
}
