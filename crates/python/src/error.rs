//! Errors of the crate as exceptions of the package.
//!
//! The classes are in `m3ipc/errors.py`, which chooses one by the operation and the code.

use crate::interpreter::call;
use core::fmt::Display;
use m3ipc::{Address, Code, Delivery, ReceiveError, SendError, SendRecError, Source};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyAny;

/// A failure on its way to Python. It is made without the interpreter lock.
#[derive(Debug)]
pub struct Fault {
    /// The operation: the meaning of a code depends on it.
    pub op: &'static str,
    pub code: Code,
    pub text: String,
    pub peer: Option<Address>,
    /// Whether the peer took the message, where that is known.
    pub taken: Option<bool>,
}

impl Fault {
    pub fn new(op: &'static str, code: Code, text: impl Display) -> Self {
        Self { op, code, text: text.to_string(), peer: None, taken: None }
    }

    /// The same with the peer of the operation.
    pub fn with(mut self, peer: Address) -> Self {
        self.peer = Some(peer);
        self
    }
}

/// The failure of a receive, with its peer where it awaited one.
pub fn of_receive(error: ReceiveError, source: Source) -> Fault {
    let fault = Fault::from(error);
    match source {
        Source::Any => fault,
        Source::From(peer) => fault.with(peer),
    }
}

/// The failure of a call that sends a message.
fn of_message(op: &'static str, code: Code, delivery: Delivery, text: &dyn Display) -> Fault {
    let taken = match delivery {
        Delivery::NotTaken => Some(false),
        Delivery::Taken => Some(true),
        Delivery::Unknown => None,
    };
    Fault { taken, ..Fault::new(op, code, text) }
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Self {
        of_message("send", error.code(), error.delivery(), &error)
    }
}

impl From<SendRecError> for Fault {
    fn from(error: SendRecError) -> Self {
        of_message("call", error.code(), error.delivery(), &error)
    }
}

macro_rules! from_errors {
    ($($name:ident = $op:literal,)*) => {$(
        impl From<m3ipc::$name> for Fault {
            fn from(error: m3ipc::$name) -> Self {
                Self::new($op, error.code(), &error)
            }
        }
    )*};
}

from_errors! {
    NodeError = "node",
    BindError = "bind",
    NameError = "name",
    WaitError = "wait",
    WatchError = "watch",
    ReceiveError = "receive",
    ReplyError = "reply",
    NotifyError = "notify",
    AreaError = "block",
}

/// The failure of a second thread.
pub fn busy(what: &str) -> Fault {
    let text = format!(
        "another thread is in a call on this {what}; give each thread its own: Vm.bind in each"
    );
    Fault::new(what_op(what), Code::NotReady, text)
}

/// The failure of a call after `close`.
pub fn closed(what: &str) -> Fault {
    Fault::new(what_op(what), Code::NotBind, format!("this {what} is closed; make another one"))
}

fn what_op(what: &str) -> &'static str {
    if what == "node" { "node" } else { "endpoint" }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let Fault { op, code, text, peer, taken } = fault;
        Python::attach(|py| {
            let make = MAKE.import(py, "m3ipc.errors", "_make");
            let peer = peer.filter(|peer| *peer != m3ipc::ANY && *peer != m3ipc::NONE);
            let made = make.and_then(|make| {
                call(make, (op, code.number(), text, peer.map(|peer| peer.0), taken))
            });
            made.map_or_else(|error| error, PyErr::from_value)
        })
    }
}
