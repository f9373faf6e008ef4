//! What went wrong, why, what to do next; and the one place that makes an exit code of it.

use m3ipc_abi::Code;
use std::process::ExitCode;

/// The exit codes, as `--help` tells them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the operation failed with a code of the contract (died, timed out, no such VM, ...), or a promise falls short
  2  wrong usage
  3  busy: a daemon runs already
  4  the system does not give what is needed
`m3 run` ends with the exit code of its program.";

/// Kinds of failure, by exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A code of the contract.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A daemon runs already.
    Busy,
    /// The operating system refuses.
    System,
    /// Nobody reads the output any more: no failure of ours.
    Closed,
}

/// A failure as it is told to a person.
#[derive(Clone, Debug)]
pub struct Fail {
    kind: Kind,
    code: Option<Code>,
    what: String,
    next: Option<String>,
}

/// What every command gives back.
pub type Result<T> = std::result::Result<T, Fail>;

impl Fail {
    /// The command line is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, code: None, what: what.into(), next: None }
    }

    /// A daemon runs already.
    pub fn busy(what: impl Into<String>) -> Self {
        Self { kind: Kind::Busy, code: None, what: what.into(), next: None }
    }

    /// The operating system refused `what`.
    pub fn system(what: impl std::fmt::Display, cause: impl std::fmt::Display) -> Self {
        Self { kind: Kind::System, code: None, what: format!("{what}: {cause}"), next: None }
    }

    /// An operation failed with a code.
    pub fn code(code: Code, what: impl Into<String>) -> Self {
        let kind = if code == Code::NoMem { Kind::System } else { Kind::Failed };
        Self { kind, code: Some(code), what: what.into(), next: advice(code).map(str::to_owned) }
    }

    /// An operation did not give what it should, without a code of the contract.
    pub fn plain(what: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, code: None, what: what.into(), next: None }
    }

    /// With this to be done next.
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The exit code.
    fn exit(&self) -> u8 {
        match self.kind {
            Kind::Closed => 0,
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::Busy => 3,
            Kind::System => 4,
        }
    }

    /// Tells it on standard error and gives the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        use std::io::Write;
        if self.kind != Kind::Closed {
            let text = if json { self.json() } else { self.text() };
            // Where even this cannot be written nobody is left to be told.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        ExitCode::from(self.exit())
    }

    fn text(&self) -> String {
        // Some texts name the command that helps already.
        let next = self.next.as_ref().filter(|_next| !self.what.contains("`m3 "));
        match next {
            Some(next) => format!("m3: {}\n    {next}", self.what),
            None => format!("m3: {}", self.what),
        }
    }

    fn json(&self) -> String {
        serde_json::json!({ "error": {
            "what": self.what,
            "next": self.next,
            "code": self.code.map(Code::number),
            "name": self.code.map(|code| format!("EMOL{}", code.name())),
            "exit": self.exit(),
        }})
        .to_string()
    }
}

impl std::fmt::Display for Fail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// Failures of writing what was found.
impl From<std::io::Error> for Fail {
    fn from(error: std::io::Error) -> Self {
        let mut fail = Self::system("cannot write the output", &error);
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            fail.kind = Kind::Closed;
        }
        fail
    }
}

impl From<m3ipc::NodeError> for Fail {
    fn from(error: m3ipc::NodeError) -> Self {
        Self::code(error.code(), error.to_string())
    }
}

/// The errors of the verbs: each knows its code.
macro_rules! from_errors {
    ($($name:ident),*) => {$(
        impl From<m3ipc::$name> for Fail {
            fn from(error: m3ipc::$name) -> Self {
                if error.code() == Code::VmNotRun {
                    return Self::code(Code::VmNotRun, "the VM has ended, and with it this endpoint");
                }
                let text = error.to_string();
                // Some texts have their code already.
                let text = if text.contains("EMOL") {
                    text
                } else {
                    format!("{text} (EMOL{}, {})", error.code().name(), error.code().number())
                };
                Self::code(error.code(), text)
            }
        }
    )*};
}
from_errors!(
    BindError,
    CopyError,
    GrantError,
    NameError,
    NotifyError,
    ReceiveError,
    ReplyError,
    SendError,
    SendRecError,
    UnbindError,
    WaitError,
    WakeupError
);

/// What helps against a code.
fn advice(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::DrvsInit => "start a node with `m3 up`; `m3 doctor` shows where it is looked for",
        Code::BadVmId | Code::VmNotRun => {
            "`m3 vm ls` shows the VMs that run; `m3 vm create NAME` makes one"
        }
        Code::NoNode => "`m3 vm ls` shows the VMs, `m3 ps VM` shows who is there under which name",
        Code::DstDied | Code::SrcDied | Code::DeadSrcDst | Code::Endpoint | Code::Range => {
            "`m3 ps` shows who lives, with address and names"
        }
        Code::TimedOut | Code::Again => "`m3 ps` shows what it does; give it longer with --timeout",
        Code::ProcSts => {
            "`m3 ps` shows in which call it is; who is copied with, or answered, must wait"
        }
        Code::Locked => "`m3 ps` shows who waits for whom",
        Code::SlotUsed => "`m3 ps` shows who has it; take another slot or name with --as",
        Code::RscBusy => "`m3 vm ls` shows ids and names in use, `m3 ps VM` those of endpoints",
        Code::Privileges | Code::Perm | Code::CallDenied | Code::TrapDenied => {
            "`m3 vm info VM` shows owner, group and mode"
        }
        Code::BadRange | Code::BadNodeId => {
            "`m3 vm ls --json` and `m3 doctor` show the limits of the node"
        }
        Code::NameSize => "names of VMs have at most 15 bytes, names of endpoints 63",
        Code::Version => "the running daemon is of another version: end it with `m3 down`",
        Code::NoMem => "`m3 doctor` shows the limits",
        Code::Shutdown | Code::NotBind => {
            "the endpoint was ended by another; start the command again"
        }
        _ => return None,
    })
}
