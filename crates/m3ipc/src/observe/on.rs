//! The form with the feature. The target of all spans and events is `m3ipc`.

use core::fmt::Display;
use m3ipc_abi::Address;
use tracing::field::{Empty, display};
use tracing::span::EnteredSpan;

/// The span of a call, entered until its end.
pub(crate) struct CallSpan(EnteredSpan);

impl CallSpan {
    /// Records the outcome and leaves the span.
    pub(crate) fn end<T, E: Display>(self, result: &Result<T, E>) {
        match result {
            Ok(_) => self.end_well(),
            Err(error) => _ = self.0.record("outcome", display(error)),
        }
    }

    /// Records the outcome of a call that made its work, and leaves the span.
    pub(crate) fn end_well(self) {
        self.0.record("outcome", "ok");
    }
}

pub(crate) fn call(verb: &'static str, vm: i32, endpoint: Address, peer: Address) -> CallSpan {
    let span = tracing::debug_span!(
        target: "m3ipc", "call", verb, vm, endpoint = endpoint.0, peer = peer.0, outcome = Empty
    );
    CallSpan(span.entered())
}

pub(crate) fn bound(vm: i32, endpoint: Address) {
    tracing::info!(target: "m3ipc", vm, endpoint = endpoint.0, "bound");
}

pub(crate) fn unbound(vm: i32, endpoint: Address) {
    tracing::info!(target: "m3ipc", vm, endpoint = endpoint.0, "unbound");
}

pub(crate) fn contact(vm: i32, endpoint: Address, peer: Address, made: bool) {
    let outcome = if made { "made" } else { "failed" };
    tracing::debug!(target: "m3ipc", vm, endpoint = endpoint.0, peer = peer.0, outcome, "contact");
}

pub(crate) fn block(vm: i32, endpoint: Address, peer: Address, area: u32, block: u32) {
    let (endpoint, peer) = (endpoint.0, peer.0);
    tracing::debug!(target: "m3ipc", vm, endpoint, peer, area, block, "block");
}

pub(crate) fn death(vm: i32, endpoint: Address, peer: Address) {
    tracing::info!(target: "m3ipc", vm, endpoint = endpoint.0, peer = peer.0, "death");
}

#[cfg(test)]
mod tests;
