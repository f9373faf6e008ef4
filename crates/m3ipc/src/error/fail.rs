//! The failure of an internal step, before it becomes the error of an operation.

use m3ipc_abi::{Code, LARGE_MAX_BYTES};
use m3ipc_link::ends::Delivery;

/// Why an internal step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) code: Code,
    /// What became of the message of the call, where the code does not tell.
    delivery: Option<Delivery>,
    /// Details beyond the code. Boxed, because results of hot paths carry a `Fail`.
    why: Option<Box<Details>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Details {
    Text(String),
    /// The length of a payload and the limit of its receiver, in bytes.
    TooLong(usize, usize),
}

impl Fail {
    pub(crate) fn new(code: Code, why: impl Into<String>) -> Self {
        Self { why: Some(Box::new(Details::Text(why.into()))), ..Self::from(code) }
    }

    /// A payload of `bytes` bytes is longer than its receiver takes.
    pub(crate) fn too_long(bytes: usize, max_bytes: usize) -> Self {
        let why = Some(Box::new(Details::TooLong(bytes, max_bytes)));
        Self { why, ..Self::from(Code::MsgSize) }
    }

    /// The length of a payload that is too long, and the limit of its receiver, in bytes.
    pub(crate) fn lengths(&self) -> Option<(usize, usize)> {
        match self.why.as_deref() {
            Some(Details::TooLong(bytes, max_bytes)) => Some((*bytes, *max_bytes)),
            _ => None,
        }
    }

    /// The same details with another code.
    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// The end of a message that this failure ended: with its details, if the code stays. A code
    /// that would not tell of the take becomes [`Code::AnswerLost`].
    pub(crate) fn ended(self, code: Code, delivery: Delivery) -> Self {
        let kept = match code == self.code {
            true => self,
            false => code.into(),
        };
        let kept = match delivery {
            Delivery::Taken if !tells_of_a_take(kept.code) => {
                let why = format!("the request was taken, and no answer comes: {}", kept.why());
                Self::new(Code::AnswerLost, why)
            }
            _ => kept,
        };
        Self { delivery: Some(delivery), ..kept }
    }

    /// The same failure after a receiver has taken the message.
    pub(crate) fn after_take(self) -> Self {
        let code = self.code;
        match self.delivery() {
            Delivery::NotTaken => self.ended(code, Delivery::Taken),
            Delivery::Taken | Delivery::Unknown => self,
        }
    }

    /// What became of the message of the call.
    pub(crate) fn delivery(&self) -> Delivery {
        self.delivery.unwrap_or(Delivery::of(self.code))
    }

    /// Whether there are details beyond the code.
    pub(crate) fn has_details(&self) -> bool {
        self.why.is_some()
    }

    /// What happened: the details, or else the text of the code.
    pub(crate) fn why(self) -> String {
        match self.why.map(|details| *details) {
            Some(Details::Text(text)) => text,
            Some(Details::TooLong(bytes, max_bytes)) => too_long_text(bytes, max_bytes),
            None => self.code.text().to_owned(),
        }
    }
}

/// Whether a call may fail with this code after the take of its request.
const fn tells_of_a_take(code: Code) -> bool {
    matches!(
        code,
        Code::TimedOut
            | Code::Intr
            | Code::SrcDied
            | Code::AnswerLost
            | Code::PeerBroke
            | Code::Unknown
            | Code::NotBind
            | Code::Shutdown
            | Code::VmNotRun
    )
}

/// What happened to a payload that is too long, and what to do next.
pub(super) fn too_long_text(bytes: usize, max_bytes: usize) -> String {
    match max_bytes {
        LARGE_MAX_BYTES.. => format!(
            "a payload of {bytes} bytes is longer than a message can be ({max_bytes} bytes); split \
             it, or send a block"
        ),
        _ => format!(
            "a payload of {bytes} bytes is longer than its receiver takes ({max_bytes} bytes); \
             split it, send a block, or raise the receive limit of the receiver"
        ),
    }
}

impl From<Code> for Fail {
    fn from(code: Code) -> Self {
        Self { code, delivery: None, why: None }
    }
}

impl From<m3ipc_sys::Errno> for Fail {
    fn from(errno: m3ipc_sys::Errno) -> Self {
        let code = match errno {
            m3ipc_sys::Errno::INTR => Code::Intr,
            m3ipc_sys::Errno::PERM | m3ipc_sys::Errno::ACCESS => Code::Perm,
            _ => Code::NoMem,
        };
        Self::new(code, errno.to_string())
    }
}

impl From<m3ipc_link::RuleBroken> for Fail {
    fn from(_broken: m3ipc_link::RuleBroken) -> Self {
        Code::PeerBroke.into()
    }
}
