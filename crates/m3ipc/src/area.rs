//! Areas and blocks: data that changes its owner without a copy.
//!
//! An area is memory at the same address in every process that attaches it. A [`Block`] is an owned
//! piece of an area: a send moves it, a drop frees it.
//!
//! Every holder of an area can write all of it, so a block is hostile input. The safe methods of
//! [`Block`] copy. Slices exist only of a [`SealedBlock`], which the kernel protects.
//!
//! [`Endpoint`](crate::Endpoint) has the operations: `create_area`, `allocate`, `send_block`,
//! `take_block`.

mod access;
mod block;
mod config;
mod handle;
mod items;
mod sealed;
mod state;

pub use block::{Block, Plain, Unsent};
pub(crate) use config::HUGE_PAGE_BYTES;
pub use config::{AreaConfig, Pages};
pub use handle::Area;
pub use items::Items;
pub use sealed::SealedBlock;
pub(crate) use state::{AreaMapping, AreaState, Unmapped};
