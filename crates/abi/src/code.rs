//! The codes of the contract. The list is append-only.
//!
//! In C, a code is a negative integer with the prefix `EMOL`. In Rust, only the C library and the
//! wire use codes; the public API has one error enum for each operation.

/// Defines [`Code`] from one table, so that a code has its number, name and text in one line.
macro_rules! codes {
    ($($code:ident = $number:literal, $name:literal, $text:literal;)*) => {
        /// A code of the contract, always negative.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum Code {
            $(
                #[doc = concat!("`EMOL", $name, "`: ", $text, ".")]
                $code = $number,
            )*
        }

        impl Code {
            /// Every code, in descending order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$code),*];

            /// The C name without its prefix `EMOL`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }

            /// The meaning, in a few words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    Perm = -1, "PERM", "operation not permitted";
    Srch = -3, "SRCH", "no such process";
    Intr = -4, "INTR", "a signal ended the call";
    Again = -11, "AGAIN", "the call would block";
    NoMem = -12, "NOMEM", "out of memory";
    Fault = -14, "FAULT", "bad address";
    Busy = -16, "BUSY", "busy";
    Inval = -22, "INVAL", "bad argument";
    Range = -34, "RANGE", "number out of range";
    NoSys = -38, "NOSYS", "not in this release, or not on this system";
    TimedOut = -61, "TIMEDOUT", "the time limit is over";
    NotConn = -64, "NOTCONN", "no connection";
    Shutdown = -65, "SHUTDOWN", "another process unbound the caller during the call";
    AddrNotAvail = -71, "ADDRNOTAVAIL", "bad buffer address";
    MsgSize = -73, "MSGSIZE", "message too long";
    Locked = -101, "LOCKED", "the call would close a circle of waiting processes";
    BadCall = -102, "BADCALL", "bad call number";
    BadSrcDst = -103, "BADSRCDST", "bad source or destination";
    CallDenied = -104, "CALLDENIED", "privileges do not allow this partner";
    DeadSrcDst = -105, "DEADSRCDST", "no process is bound at the destination";
    NotReady = -106, "NOTREADY", "another thread is in a call on this endpoint";
    BadRequest = -107, "BADREQUEST", "bad request";
    SrcDied = -108, "SRCDIED", "the source died";
    DstDied = -109, "DSTDIED", "the destination died";
    TrapDenied = -110, "TRAPDENIED", "privileges do not allow this call";
    DontReply = -201, "DONTREPLY", "no reply is to be sent";
    ErrCode = -300, "ERRCODE", "limit: every result below it is a code";
    BadNodeId = -301, "BADNODEID", "node id out of range";
    BadVmId = -302, "BADVMID", "VM id out of range";
    VmNotRun = -303, "VMNOTRUN", "the VM is not running";
    BadProc = -304, "BADPROC", "no such process on this node";
    BadPid = -305, "BADPID", "bad process id";
    Endpoint = -306, "ENDPOINT", "the endpoint is of another generation";
    NoProxy = -307, "NOPROXY", "no proxy";
    RmtProc = -308, "RMTPROC", "the process is remote";
    LclProc = -309, "LCLPROC", "the process is local";
    NotBind = -310, "NOTBIND", "not bound";
    NodeBusy = -315, "NODEBUSY", "node busy";
    NoNode = -316, "NONODE", "no such node or name";
    DrvsBusy = -317, "DRVSBUSY", "the node is initialised already";
    DrvsInit = -318, "DRVSINIT", "the node is not initialised";
    NoVmNode = -319, "NOVMNODE", "the VM does not span that node";
    ProcRun = -320, "PROCRUN", "the process was running; the wakeup is remembered";
    NoMsg = -321, "NOMSG", "no message";
    VmRun = -323, "VMRUN", "the VM is running";
    ProcSts = -324, "PROCSTS", "the process is in another state than the call needs";
    NodeFree = -325, "NODEFREE", "the node is free";
    VmNode = -326, "VMNODE", "the VM spans that node already";
    BadProxy = -327, "BADPROXY", "bad proxy";
    OnCopy = -328, "ONCOPY", "the process is in a copy";
    Enqueued = -329, "ENQUEUED", "the message is queued";
    Overrun = -330, "OVERRUN", "overrun";
    BadOwner = -331, "BADOWNER", "bad owner";
    Migrate = -332, "MIGRATE", "the process migrates";
    ProxyFree = -333, "PROXYFREE", "the proxy is free";
    GrpLeader = -334, "GRPLEADER", "the thread's process is not bound";
    Privileges = -335, "PRIVILEGES", "not allowed";
    BindType = -336, "BINDTYPE", "bad kind of bind";
    SlotUsed = -337, "SLOTUSED", "the slot is taken";
    BadRange = -338, "BADRANGE", "parameter out of range";
    BadValue = -339, "BADVALUE", "bad parameter value";
    BadDir = -340, "BADDIR", "bad directory";
    BadFile = -341, "BADFILE", "bad file";
    RscBusy = -342, "RSCBUSY", "the id or name is in use";
    NameSize = -343, "NAMESIZE", "the name is too long";
    AllocMem = -344, "ALLOCMEM", "no room in the area";
    ProxyId = -345, "PROXYID", "bad proxy id";
    ReplProc = -346, "REPLPROC", "the process is a replica";
    Align = -347, "ALIGN", "bad alignment";
    WokenUp = -348, "WOKENUP", "woken by wakeup";
    PeerBroke = -500, "PEERBROKE", "the peer broke the link's rules; the link is poisoned";
    Unknown = -501, "UNKNOWN", "the outcome is unknown: a node or daemon is lost or silent";
    Version = -502, "VERSION", "node daemon and library do not match";
    NoPayload = -503, "NOPAYLOAD", "the payload of a message could not be handed over";
    Orphaned = -504, "ORPHANED", "the daemon of the area was killed";
    AnswerLost = -505, "ANSWERLOST", "the request was taken; the other node or its answer is lost";
}

impl Code {
    /// The number, negative.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The code with this number.
    ///
    /// ```
    /// use m3ipc_abi::Code;
    ///
    /// let code = Code::from_number(-109).expect("a code of the contract");
    /// assert_eq!((code, code.number(), code.name()), (Code::DstDied, -109, "DSTDIED"));
    /// println!("{}", code.text());
    /// ```
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }
}

impl core::fmt::Display for Code {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} (EMOL{}, {})", self.text(), self.name(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_exactly_one_code() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::from_number(code.number()), Some(*code));
            assert!(Code::ALL[at + 1..].iter().all(|later| later.number() < code.number()));
        }
    }
}
