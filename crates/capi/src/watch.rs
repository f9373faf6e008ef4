//! Deaths of watched endpoints, the kind of what was taken, the wait strategy and priorities.

use crate::failure::{CallFailure, CallResult};
use crate::{current, received};
use core::ffi::c_int;
use m3ipc::{Address, Code, Inheritance, WaitStrategy};

/// The numbers of `m3ipc/message.h`.
const INHERIT_NONE: c_int = 0;
const INHERIT_ORDER: c_int = 1;
const INHERIT_THREAD: c_int = 2;
const WAIT_ADAPTIVE: c_int = 0;
const WAIT_SPIN: c_int = 1;
const WAIT_BLOCK: c_int = 2;

pub(crate) fn watch(peer: Address) -> CallResult {
    current::with(|member| {
        member.endpoint.watch(peer)?;
        Ok(0)
    })
}

pub(crate) fn unwatch(peer: Address) -> CallResult {
    current::with(|member| {
        member.endpoint.unwatch(peer);
        Ok(0)
    })
}

pub(crate) fn watch_all(on: c_int) -> CallResult {
    current::with(|member| {
        member.endpoint.watch_all(match on {
            0 => false,
            1 => true,
            _ => return Err(CallFailure::no(Code::Inval, on, "switch (0 or 1)")),
        });
        Ok(0)
    })
}

pub(crate) fn kind() -> CallResult {
    current::with(|member| received::number_of(member.endpoint.latest_kind()))
}

pub(crate) fn set_wait(wait: c_int) -> CallResult {
    current::with(|member| {
        member.endpoint.set_strategy(match wait {
            WAIT_ADAPTIVE => WaitStrategy::Adaptive,
            WAIT_SPIN => WaitStrategy::Spin,
            WAIT_BLOCK => WaitStrategy::Block,
            _ => return Err(CallFailure::no(Code::Inval, wait, "wait strategy (M3_WAIT_...)")),
        });
        Ok(0)
    })
}

pub(crate) fn set_receive_limit(bytes: usize) -> CallResult {
    current::with(|member| {
        member.endpoint.set_receive_limit(bytes);
        Ok(0)
    })
}

pub(crate) fn set_priority(priority: c_int) -> CallResult {
    current::with(|member| {
        let priority = u8::try_from(priority)
            .map_err(|_| CallFailure::no(Code::BadRange, priority, "priority"))?;
        member.endpoint.set_priority(priority)?;
        Ok(0)
    })
}

pub(crate) fn priority() -> CallResult {
    current::with(|member| Ok(c_int::from(member.endpoint.priority())))
}

pub(crate) fn set_inheritance(inheritance: c_int) -> CallResult {
    current::with(|member| {
        member.endpoint.set_inheritance(match inheritance {
            INHERIT_NONE => Inheritance::None,
            INHERIT_ORDER => Inheritance::Order,
            INHERIT_THREAD => Inheritance::Thread,
            _ => {
                return Err(CallFailure::no(
                    Code::Inval,
                    inheritance,
                    "inheritance (M3_INHERIT_...)",
                ));
            }
        })?;
        Ok(0)
    })
}
