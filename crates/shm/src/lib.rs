//! Shared memory as hostile input: regions whose contents can only be copied.
//!
//! The type of a region says which processes write it:
//!
//! | type | writers | access |
//! |---|---|---|
//! | [`Shared`], [`SharedPage`] | this process and its peers | atomic words, copies in and out |
//! | [`Observed`], [`ObservedPage`] | other processes | loads, copies out |
//! | [`LeasedRange`] | this process; hostile members of the area | copies in and out |
//! | [`SealedRange`] | no process, ever again | `&[u8]` |
//!
//! No safe function returns a reference to memory that another process can write, except to an
//! atomic word. Each access is checked against the length of the region. That length is sealed, and
//! this process knows it from its own mapping. One routine, [`copy_bytes`], moves all bytes.

pub mod copier_steps;
mod copy;
mod fixed_region;
mod leased_range;
mod page;
mod peer_memory;
mod range_table;
mod region;
mod region_copier;
mod region_copy;

pub use copy::{copy_bytes, copy_bytes_past_caches};
pub use fixed_region::FixedRegion;
pub use leased_range::{LeasedRange, RangeError, SealedRange, Values};
pub use page::{LINE_WORDS, ObservedPage, PAGE_BYTES, SharedLine, SharedPage};
pub use peer_memory::{PeerMemory, PeerMemoryMut};
pub use region::{Observed, Shared};
pub use region_copier::{RegionCopier, RegionPass};
