//! The empty form, without the feature.

use core::fmt::Display;
use m3ipc_abi::Address;

/// The span of a call.
pub(crate) struct CallSpan;

impl CallSpan {
    #[inline(always)]
    pub(crate) fn end<T, E: Display>(self, _result: &Result<T, E>) {}
    #[inline(always)]
    pub(crate) fn end_well(self) {}
}

#[inline(always)]
pub(crate) fn call(_verb: &'static str, _vm: i32, _endpoint: Address, _peer: Address) -> CallSpan {
    CallSpan
}

#[inline(always)]
pub(crate) fn bound(_vm: i32, _endpoint: Address) {}

#[inline(always)]
pub(crate) fn unbound(_vm: i32, _endpoint: Address) {}

#[inline(always)]
pub(crate) fn contact(_vm: i32, _endpoint: Address, _peer: Address, _made: bool) {}

#[inline(always)]
pub(crate) fn block(_vm: i32, _endpoint: Address, _peer: Address, _area: u32, _block: u32) {}

#[inline(always)]
pub(crate) fn death(_vm: i32, _endpoint: Address, _peer: Address) {}
