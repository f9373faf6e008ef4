//! The failure of an internal step, before it becomes the error of an operation.

use m3ipc_abi::Code;

/// Why an internal step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) code: Code,
    /// Details beyond the code. Boxed, because results of hot paths carry a `Fail`.
    pub(crate) why: Option<Box<str>>,
}

impl Fail {
    pub(crate) fn new(code: Code, why: impl Into<String>) -> Self {
        Self { code, why: Some(why.into().into_boxed_str()) }
    }

    /// What happened: the details, or else the text of the code.
    pub(crate) fn why(self) -> String {
        self.why.map_or_else(|| self.code.text().to_owned(), String::from)
    }
}

impl From<Code> for Fail {
    fn from(code: Code) -> Self {
        Self { code, why: None }
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
