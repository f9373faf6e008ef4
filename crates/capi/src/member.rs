//! The calling member: its endpoint, and the state that the C API keeps with it.
//!
//! C knows a block by its address, which is the same in every process. The library keeps the
//! [`Block`] of that address until the program sends or frees it.

use crate::failure::{CallFailure, CallResult};
use crate::memory::KnownPage;
use crate::received;
use m3ipc::{Address, Area, Block, Code, Endpoint, ReceivedKind};
use std::collections::HashMap;

/// An endpoint of this process, with the state of the C API.
#[derive(Debug)]
pub(crate) struct CallingMember {
    pub(crate) endpoint: Endpoint,
    pub(crate) blocks: BlockTable,
    /// The client of the request that was taken last and has no answer yet, for relay.
    unanswered: Option<Address>,
    /// The id of the node, after the first question for it.
    pub(crate) nodeid: Option<i32>,
    /// The page in which a call wrote a message last: readable and writable.
    pub(crate) message_page: KnownPage,
    /// The page from which a call only read a message last: readable.
    pub(crate) sent_page: KnownPage,
}

impl CallingMember {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            blocks: BlockTable::default(),
            unanswered: None,
            nodeid: None,
            message_page: KnownPage::default(),
            sent_page: KnownPage::default(),
        }
    }

    /// Remembers the kind of what was just received, and the client of a request.
    #[inline]
    pub(crate) fn received(&mut self, source: Address) {
        let kind = self.endpoint.latest_kind();
        received::keep(kind);
        if kind == Some(ReceivedKind::Request) {
            self.unanswered = Some(source);
        }
    }

    /// Forgets the request of this client, if it is the remembered one.
    #[inline]
    pub(crate) fn answered(&mut self, client: Address) {
        if self.unanswered == Some(client) {
            self.unanswered = None;
        }
    }

    /// The client whose request a relay hands on.
    pub(crate) fn unanswered(&self) -> Option<Address> {
        self.unanswered
    }

    /// The area with this number, if the member has attached it.
    pub(crate) fn area(&self, number: i32) -> CallResult<Area> {
        let attached = u32::try_from(number).ok().and_then(|id| self.endpoint.attached(id));
        attached.ok_or_else(|| CallFailure::no(Code::NoNode, number, "area that the caller has"))
    }
}

/// The blocks of a member by address, and the area of AnT's calls.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    by_address: HashMap<u64, Block>,
    /// The area of createica and getmem.
    pub(crate) ica: Option<Area>,
}

#[cold]
fn no_block(address: u64) -> CallFailure {
    let text = format!("the caller has no block at {address:#x}; it was given away or freed");
    CallFailure::said(Code::AddrNotAvail, text)
}

impl BlockTable {
    /// Keeps a block under its address.
    pub(crate) fn insert(&mut self, block: Block) {
        self.by_address.insert(block.address(), block);
    }

    /// Takes the block at an address out of the table; -71 without one.
    pub(crate) fn take(&mut self, address: u64) -> CallResult<Block> {
        self.by_address.remove(&address).ok_or_else(|| no_block(address))
    }

    /// The block at an address; -71 without one.
    pub(crate) fn get_mut(&mut self, address: u64) -> CallResult<&mut Block> {
        self.by_address.get_mut(&address).ok_or_else(|| no_block(address))
    }

    /// Frees all blocks of an area.
    pub(crate) fn drop_area(&mut self, area: &Area) {
        self.by_address.retain(|_, block| block.area() != area.id());
        self.ica.take_if(|ica| ica.id() == area.id());
    }
}
