//! The frames between members and a daemon.

use m3ipc_abi::Address;
use shuttle::sync::Arc;
use shuttle::sync::mpsc::Sender;

/// The page of a link. Identity distinguishes pages.
#[derive(Debug)]
pub struct Page;

/// A request of a member.
#[derive(Debug)]
pub enum Request {
    Bind,
    Mapped,
    Reattach(Address),
    Contact(Address),
    Recall(Vec<Address>),
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    Bound(Address),
    Contact(Arc<Page>),
    Done,
    Known,
    Died,
    Refused,
}

/// An event from the daemon.
#[derive(Debug)]
pub enum Event {
    Contact(Address, Arc<Page>),
    Died(Address),
    /// No content: it wakes a member that is to be killed.
    Wake,
}

/// A frame to a daemon.
#[derive(Debug)]
pub enum Frame {
    Greeting(i32, Sender<Event>),
    Request(i32, Request, Sender<Answer>),
    Dead(i32),
    Wake(i32),
    Kill,
}
