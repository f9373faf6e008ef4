//! The codes of the contract: append-only.
//!
//! In C they are negative integers with the prefix `EMOL`; in Rust only the
//! C library and the wire use them, the public API has an enum per operation.

/// A code of the contract, always negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Code {
    /// `EMOLPERM`: operation not permitted.
    Perm = -1,
    /// `EMOLSRCH`: no such process.
    Srch = -3,
    /// `EMOLINTR`: a signal ended the call.
    Intr = -4,
    /// `EMOLAGAIN`: the call would block.
    Again = -11,
    /// `EMOLNOMEM`: out of memory.
    NoMem = -12,
    /// `EMOLFAULT`: bad address.
    Fault = -14,
    /// `EMOLBUSY`: busy.
    Busy = -16,
    /// `EMOLINVAL`: bad argument.
    Inval = -22,
    /// `EMOLRANGE`: number out of range.
    Range = -34,
    /// `EMOLNOSYS`: the module is not there.
    NoSys = -38,
    /// `EMOLTIMEDOUT`: the time limit is over.
    TimedOut = -61,
    /// `EMOLNOTCONN`: no connection.
    NotConn = -64,
    /// `EMOLSHUTDOWN`: unbound by another while in the call.
    Shutdown = -65,
    /// `EMOLADDRNOTAVAIL`: bad buffer address.
    AddrNotAvail = -71,
    /// `EMOLMSGSIZE`: message too long.
    MsgSize = -73,
    /// `EMOLLOCKED`: the call would close a circle of waiting processes.
    Locked = -101,
    /// `EMOLBADCALL`: bad call number.
    BadCall = -102,
    /// `EMOLBADSRCDST`: bad source or destination.
    BadSrcDst = -103,
    /// `EMOLCALLDENIED`: privileges do not allow this partner.
    CallDenied = -104,
    /// `EMOLDEADSRCDST`: nobody lives at the destination.
    DeadSrcDst = -105,
    /// `EMOLNOTREADY`: another thread is in a call on this endpoint.
    NotReady = -106,
    /// `EMOLBADREQUEST`: bad request.
    BadRequest = -107,
    /// `EMOLSRCDIED`: the source died.
    SrcDied = -108,
    /// `EMOLDSTDIED`: the destination died.
    DstDied = -109,
    /// `EMOLTRAPDENIED`: privileges do not allow this call.
    TrapDenied = -110,
    /// `EMOLDONTREPLY`: no reply is to be sent.
    DontReply = -201,
    /// `EMOLERRCODE`: first of the node's own codes.
    ErrCode = -300,
    /// `EMOLBADNODEID`: node id out of range.
    BadNodeId = -301,
    /// `EMOLBADVMID`: VM id out of range.
    BadVmId = -302,
    /// `EMOLVMNOTRUN`: the VM is not running.
    VmNotRun = -303,
    /// `EMOLBADPROC`: no such process here.
    BadProc = -304,
    /// `EMOLBADPID`: bad process id.
    BadPid = -305,
    /// `EMOLENDPOINT`: the endpoint is of another generation.
    Endpoint = -306,
    /// `EMOLNOPROXY`: no proxy.
    NoProxy = -307,
    /// `EMOLRMTPROC`: the process is remote.
    RmtProc = -308,
    /// `EMOLLCLPROC`: the process is local.
    LclProc = -309,
    /// `EMOLNOTBIND`: not bound.
    NotBind = -310,
    /// `EMOLNODEBUSY`: node busy.
    NodeBusy = -315,
    /// `EMOLNONODE`: no such node or name.
    NoNode = -316,
    /// `EMOLDRVSBUSY`: the node is initialised already.
    DrvsBusy = -317,
    /// `EMOLDRVSINIT`: the node is not initialised.
    DrvsInit = -318,
    /// `EMOLNOVMNODE`: the VM does not span that node.
    NoVmNode = -319,
    /// `EMOLPROCRUN`: the process was running; the wakeup is remembered.
    ProcRun = -320,
    /// `EMOLNOMSG`: no message.
    NoMsg = -321,
    /// `EMOLVMRUN`: the VM is running.
    VmRun = -323,
    /// `EMOLPROCSTS`: the process is in another state than the call needs.
    ProcSts = -324,
    /// `EMOLNODEFREE`: the node is free.
    NodeFree = -325,
    /// `EMOLVMNODE`: the VM spans that node already.
    VmNode = -326,
    /// `EMOLBADPROXY`: bad proxy.
    BadProxy = -327,
    /// `EMOLONCOPY`: the process is in a copy.
    OnCopy = -328,
    /// `EMOLENQUEUED`: the message is queued.
    Enqueued = -329,
    /// `EMOLOVERRUN`: overrun.
    Overrun = -330,
    /// `EMOLBADOWNER`: bad owner.
    BadOwner = -331,
    /// `EMOLMIGRATE`: the process migrates.
    Migrate = -332,
    /// `EMOLPROXYFREE`: the proxy is free.
    ProxyFree = -333,
    /// `EMOLGRPLEADER`: the thread's process is not bound.
    GrpLeader = -334,
    /// `EMOLPRIVILEGES`: not allowed.
    Privileges = -335,
    /// `EMOLBINDTYPE`: bad kind of bind.
    BindType = -336,
    /// `EMOLSLOTUSED`: the slot is taken.
    SlotUsed = -337,
    /// `EMOLBADRANGE`: parameter out of range.
    BadRange = -338,
    /// `EMOLBADVALUE`: bad parameter value.
    BadValue = -339,
    /// `EMOLBADDIR`: bad directory.
    BadDir = -340,
    /// `EMOLBADFILE`: bad file.
    BadFile = -341,
    /// `EMOLRSCBUSY`: the id or name is in use.
    RscBusy = -342,
    /// `EMOLNAMESIZE`: the name is too long.
    NameSize = -343,
    /// `EMOLALLOCMEM`: out of memory.
    AllocMem = -344,
    /// `EMOLPROXYID`: bad proxy id.
    ProxyId = -345,
    /// `EMOLREPLPROC`: the process is a replica.
    ReplProc = -346,
    /// `EMOLALIGN`: bad alignment.
    Align = -347,
    /// `EMOLWOKENUP`: woken by wakeup.
    WokenUp = -348,
    /// `EMOLPEERBROKE`: the peer broke the link's rules; the link is poisoned.
    PeerBroke = -500,
    /// `EMOLUNKNOWN`: the outcome cannot be known.
    Unknown = -501,
    /// `EMOLVERSION`: node daemon and library do not match.
    Version = -502,
}

impl Code {
    /// Every code, in descending order of its number.
    pub const ALL: &'static [Self] = &[
        Self::Perm,
        Self::Srch,
        Self::Intr,
        Self::Again,
        Self::NoMem,
        Self::Fault,
        Self::Busy,
        Self::Inval,
        Self::Range,
        Self::NoSys,
        Self::TimedOut,
        Self::NotConn,
        Self::Shutdown,
        Self::AddrNotAvail,
        Self::MsgSize,
        Self::Locked,
        Self::BadCall,
        Self::BadSrcDst,
        Self::CallDenied,
        Self::DeadSrcDst,
        Self::NotReady,
        Self::BadRequest,
        Self::SrcDied,
        Self::DstDied,
        Self::TrapDenied,
        Self::DontReply,
        Self::ErrCode,
        Self::BadNodeId,
        Self::BadVmId,
        Self::VmNotRun,
        Self::BadProc,
        Self::BadPid,
        Self::Endpoint,
        Self::NoProxy,
        Self::RmtProc,
        Self::LclProc,
        Self::NotBind,
        Self::NodeBusy,
        Self::NoNode,
        Self::DrvsBusy,
        Self::DrvsInit,
        Self::NoVmNode,
        Self::ProcRun,
        Self::NoMsg,
        Self::VmRun,
        Self::ProcSts,
        Self::NodeFree,
        Self::VmNode,
        Self::BadProxy,
        Self::OnCopy,
        Self::Enqueued,
        Self::Overrun,
        Self::BadOwner,
        Self::Migrate,
        Self::ProxyFree,
        Self::GrpLeader,
        Self::Privileges,
        Self::BindType,
        Self::SlotUsed,
        Self::BadRange,
        Self::BadValue,
        Self::BadDir,
        Self::BadFile,
        Self::RscBusy,
        Self::NameSize,
        Self::AllocMem,
        Self::ProxyId,
        Self::ReplProc,
        Self::Align,
        Self::WokenUp,
        Self::PeerBroke,
        Self::Unknown,
        Self::Version,
    ];

    /// The number, negative.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The code with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }

    /// The C name without its prefix `EMOL`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perm => "PERM",
            Self::Srch => "SRCH",
            Self::Intr => "INTR",
            Self::Again => "AGAIN",
            Self::NoMem => "NOMEM",
            Self::Fault => "FAULT",
            Self::Busy => "BUSY",
            Self::Inval => "INVAL",
            Self::Range => "RANGE",
            Self::NoSys => "NOSYS",
            Self::TimedOut => "TIMEDOUT",
            Self::NotConn => "NOTCONN",
            Self::Shutdown => "SHUTDOWN",
            Self::AddrNotAvail => "ADDRNOTAVAIL",
            Self::MsgSize => "MSGSIZE",
            Self::Locked => "LOCKED",
            Self::BadCall => "BADCALL",
            Self::BadSrcDst => "BADSRCDST",
            Self::CallDenied => "CALLDENIED",
            Self::DeadSrcDst => "DEADSRCDST",
            Self::NotReady => "NOTREADY",
            Self::BadRequest => "BADREQUEST",
            Self::SrcDied => "SRCDIED",
            Self::DstDied => "DSTDIED",
            Self::TrapDenied => "TRAPDENIED",
            Self::DontReply => "DONTREPLY",
            Self::ErrCode => "ERRCODE",
            Self::BadNodeId => "BADNODEID",
            Self::BadVmId => "BADVMID",
            Self::VmNotRun => "VMNOTRUN",
            Self::BadProc => "BADPROC",
            Self::BadPid => "BADPID",
            Self::Endpoint => "ENDPOINT",
            Self::NoProxy => "NOPROXY",
            Self::RmtProc => "RMTPROC",
            Self::LclProc => "LCLPROC",
            Self::NotBind => "NOTBIND",
            Self::NodeBusy => "NODEBUSY",
            Self::NoNode => "NONODE",
            Self::DrvsBusy => "DRVSBUSY",
            Self::DrvsInit => "DRVSINIT",
            Self::NoVmNode => "NOVMNODE",
            Self::ProcRun => "PROCRUN",
            Self::NoMsg => "NOMSG",
            Self::VmRun => "VMRUN",
            Self::ProcSts => "PROCSTS",
            Self::NodeFree => "NODEFREE",
            Self::VmNode => "VMNODE",
            Self::BadProxy => "BADPROXY",
            Self::OnCopy => "ONCOPY",
            Self::Enqueued => "ENQUEUED",
            Self::Overrun => "OVERRUN",
            Self::BadOwner => "BADOWNER",
            Self::Migrate => "MIGRATE",
            Self::ProxyFree => "PROXYFREE",
            Self::GrpLeader => "GRPLEADER",
            Self::Privileges => "PRIVILEGES",
            Self::BindType => "BINDTYPE",
            Self::SlotUsed => "SLOTUSED",
            Self::BadRange => "BADRANGE",
            Self::BadValue => "BADVALUE",
            Self::BadDir => "BADDIR",
            Self::BadFile => "BADFILE",
            Self::RscBusy => "RSCBUSY",
            Self::NameSize => "NAMESIZE",
            Self::AllocMem => "ALLOCMEM",
            Self::ProxyId => "PROXYID",
            Self::ReplProc => "REPLPROC",
            Self::Align => "ALIGN",
            Self::WokenUp => "WOKENUP",
            Self::PeerBroke => "PEERBROKE",
            Self::Unknown => "UNKNOWN",
            Self::Version => "VERSION",
        }
    }

    /// What it means, in a few words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Perm => "operation not permitted",
            Self::Srch => "no such process",
            Self::Intr => "a signal ended the call",
            Self::Again => "the call would block",
            Self::NoMem => "out of memory",
            Self::Fault => "bad address",
            Self::Busy => "busy",
            Self::Inval => "bad argument",
            Self::Range => "number out of range",
            Self::NoSys => "the module is not there",
            Self::TimedOut => "the time limit is over",
            Self::NotConn => "no connection",
            Self::Shutdown => "unbound by another while in the call",
            Self::AddrNotAvail => "bad buffer address",
            Self::MsgSize => "message too long",
            Self::Locked => "the call would close a circle of waiting processes",
            Self::BadCall => "bad call number",
            Self::BadSrcDst => "bad source or destination",
            Self::CallDenied => "privileges do not allow this partner",
            Self::DeadSrcDst => "nobody lives at the destination",
            Self::NotReady => "another thread is in a call on this endpoint",
            Self::BadRequest => "bad request",
            Self::SrcDied => "the source died",
            Self::DstDied => "the destination died",
            Self::TrapDenied => "privileges do not allow this call",
            Self::DontReply => "no reply is to be sent",
            Self::ErrCode => "first of the node's own codes",
            Self::BadNodeId => "node id out of range",
            Self::BadVmId => "VM id out of range",
            Self::VmNotRun => "the VM is not running",
            Self::BadProc => "no such process here",
            Self::BadPid => "bad process id",
            Self::Endpoint => "the endpoint is of another generation",
            Self::NoProxy => "no proxy",
            Self::RmtProc => "the process is remote",
            Self::LclProc => "the process is local",
            Self::NotBind => "not bound",
            Self::NodeBusy => "node busy",
            Self::NoNode => "no such node or name",
            Self::DrvsBusy => "the node is initialised already",
            Self::DrvsInit => "the node is not initialised",
            Self::NoVmNode => "the VM does not span that node",
            Self::ProcRun => "the process was running; the wakeup is remembered",
            Self::NoMsg => "no message",
            Self::VmRun => "the VM is running",
            Self::ProcSts => "the process is in another state than the call needs",
            Self::NodeFree => "the node is free",
            Self::VmNode => "the VM spans that node already",
            Self::BadProxy => "bad proxy",
            Self::OnCopy => "the process is in a copy",
            Self::Enqueued => "the message is queued",
            Self::Overrun => "overrun",
            Self::BadOwner => "bad owner",
            Self::Migrate => "the process migrates",
            Self::ProxyFree => "the proxy is free",
            Self::GrpLeader => "the thread's process is not bound",
            Self::Privileges => "not allowed",
            Self::BindType => "bad kind of bind",
            Self::SlotUsed => "the slot is taken",
            Self::BadRange => "parameter out of range",
            Self::BadValue => "bad parameter value",
            Self::BadDir => "bad directory",
            Self::BadFile => "bad file",
            Self::RscBusy => "the id or name is in use",
            Self::NameSize => "the name is too long",
            Self::AllocMem => "out of memory",
            Self::ProxyId => "bad proxy id",
            Self::ReplProc => "the process is a replica",
            Self::Align => "bad alignment",
            Self::WokenUp => "woken by wakeup",
            Self::PeerBroke => "the peer broke the link's rules; the link is poisoned",
            Self::Unknown => "the outcome cannot be known",
            Self::Version => "node daemon and library do not match",
        }
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
    fn every_code_is_found_by_its_number_and_none_twice() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::from_number(code.number()), Some(*code));
            assert!(Code::ALL[at + 1..].iter().all(|later| later.number() < code.number()));
        }
    }
}
