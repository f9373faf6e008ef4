//! The membership of an endpoint: its place in the VM, its privileges, and how it ended.
//!
//! An endpoint belongs to the process that bound it. A child by fork has no mapping of the pages,
//! so for it the endpoint is not bound.

use crate::error::Fail;
use m3ipc_abi::{Address, Code, Verb};
use m3ipc_sys::ForkGuard;
use m3ipc_wire::Request;

/// The place of an endpoint in its VM, and whether the endpoint still has it.
#[derive(Debug)]
pub(super) struct Membership {
    vm: i32,
    vm_name: String,
    address: Address,
    /// The thread that bound the endpoint, if the endpoint ends with that thread.
    tid: Option<i32>,
    /// The verbs that the endpoint may use.
    traps: u32,
    guard: ForkGuard,
    /// Why the endpoint is unbound; `None` while it is bound.
    left: Option<Code>,
}

impl Membership {
    /// The membership that a daemon has given to this process.
    pub(super) fn begin(
        (vm, vm_name): (i32, String),
        address: Address,
        tid: Option<i32>,
        traps: u32,
    ) -> Result<Self, Fail> {
        Ok(Self { vm, vm_name, address, tid, traps, guard: ForkGuard::new()?, left: None })
    }

    #[inline(always)]
    pub(super) fn vm(&self) -> i32 {
        self.vm
    }

    pub(super) fn vm_name(&self) -> &str {
        &self.vm_name
    }

    #[inline(always)]
    pub(super) fn address(&self) -> Address {
        self.address
    }

    /// Whether this is the process that bound the endpoint, and no child by fork.
    #[inline(always)]
    pub(super) fn is_original(&self) -> bool {
        self.guard.is_original()
    }

    /// Whether the privileges of the endpoint allow this verb.
    #[inline(always)]
    pub(super) fn may(&self, verb: Verb) -> bool {
        self.traps & verb.mask() != 0
    }

    /// Whether the privileges of the endpoint allow all verbs of this set.
    #[inline]
    pub(super) fn may_all(&self, verbs: u32) -> bool {
        self.traps & verbs == verbs
    }

    /// Notes the verbs that the endpoint may use from now on.
    pub(super) fn set_traps(&mut self, traps: u32) {
        self.traps = traps;
    }

    /// Why the endpoint is unbound; `None` while it is bound.
    #[inline]
    pub(super) fn left(&self) -> Option<Code> {
        self.left
    }

    /// Whether the endpoint is unbound.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Notes the end of the endpoint. A later end counts only if the endpoint has none yet; `false`
    /// if it had one.
    pub(super) fn end(&mut self, why: Code) -> bool {
        let is_first = self.left.is_none();
        self.left.get_or_insert(why);
        is_first
    }

    /// Fails with the reason if the endpoint has ended.
    #[inline]
    pub(super) fn check_left(&self) -> Result<(), Fail> {
        match self.left {
            None => Ok(()),
            Some(code) => Err(code.into()),
        }
    }

    /// Fails if the endpoint is no longer bound, at the begin of a call.
    #[inline]
    pub(super) fn check_bound(&self) -> Result<(), Fail> {
        if !self.guard.is_original() {
            let why = "the endpoint belongs to the parent process, and a fork shares none; bind in \
                       the child";
            return Err(Fail::new(Code::NotBind, why));
        }
        match self.left {
            None => Ok(()),
            Some(Code::Shutdown) => Err(Code::NotBind.into()),
            Some(code) => Err(code.into()),
        }
    }

    /// The request by which the endpoint takes its place at the next daemon.
    pub(super) fn reattach_request(&self) -> Request {
        Request::Reattach { vm: self.vm, address: self.address.0, tid: self.tid }
    }

    /// The request that ends the endpoint.
    pub(super) fn unbind_request(&self) -> Request {
        Request::Unbind { vm: self.vm, address: self.address.0 }
    }
}
