//! Shared memory as hostile input: regions whose contents can only be copied.
//!
//! Two types tell who may write: [`Shared`] (this process and its peers) and
//! [`Observed`] (others write, this process looks). Neither ever gives a
//! reference to the memory but to an atomic word; every access is checked
//! against the region's own length, which is sealed and known from its maker.
//! [`SharedPage`] and [`ObservedPage`] are the same for exactly one page.

mod bytes;
mod copy;
mod fixed_region;
mod region;

pub use fixed_region::{FixedRegion, LeasedRange};
pub use region::{Observed, ObservedPage, PAGE_BYTES, Shared, SharedPage};
