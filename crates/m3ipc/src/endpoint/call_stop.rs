//! Why a step of a call stopped: a failure, or a link that the step must not use any more.

use crate::error::Fail;
use m3ipc_abi::Code;

/// Why a step over a link stopped.
#[derive(Debug)]
pub(super) enum CallStop {
    /// A later link with the peer replaced this one, which the peer may never have got. The call
    /// goes on over the later link, if the peer has taken nothing from this one.
    Replaced,
    /// The step failed.
    Failed(Fail),
}

impl CallStop {
    /// Whether the step failed with this code.
    pub(super) fn is(&self, code: Code) -> bool {
        matches!(self, Self::Failed(fail) if fail.code == code)
    }
}

impl From<Fail> for CallStop {
    fn from(fail: Fail) -> Self {
        Self::Failed(fail)
    }
}

impl From<Code> for CallStop {
    fn from(code: Code) -> Self {
        Self::Failed(code.into())
    }
}

/// The failure of a call that does not go on over the later link.
impl From<CallStop> for Fail {
    fn from(stop: CallStop) -> Self {
        match stop {
            CallStop::Replaced => Code::Unknown.into(),
            CallStop::Failed(fail) => fail,
        }
    }
}
