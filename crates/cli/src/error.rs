//! The error of a command: what happened, why, the next step. The one place with exit codes.

use m3ipc_abi::Code;
use m3ipc_sys::json_escaped;
use std::process::ExitCode;

/// The exit codes, as `--help` lists them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the operation failed with an m3ipc code (peer died, timeout, no such VM, ...),
     or a measurement missed its bound
  2  wrong usage
  3  busy: a daemon runs already
  4  the operating system refused or lacks something
`m3 run` and `m3 sock run` exit with the code of their program. A command whose reader has gone
ends quietly with 141, as after SIGPIPE.";

/// The exit code after the reader of standard output has gone: as of a program that SIGPIPE ends.
pub const OUTPUT_CLOSED: u8 = 128 + 13;

/// The class of an error, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorClass {
    /// An operation failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A daemon runs already.
    Busy,
    /// The operating system refused.
    System,
    /// The reader closed standard output: a quiet end.
    OutputClosed,
}

/// An error of the command line.
#[derive(Clone, Debug)]
pub struct CliError {
    class: ErrorClass,
    code: Option<Code>,
    what: String,
    advice: Option<String>,
}

/// The result of every command.
pub type Result<T> = std::result::Result<T, CliError>;

impl CliError {
    /// An error with the general advice of its class.
    fn new(class: ErrorClass, what: impl Into<String>) -> Self {
        let advice = match class {
            ErrorClass::Usage => Some("see the arguments with `m3 COMMAND --help`"),
            ErrorClass::System | ErrorClass::Failed => Some("check this machine with `m3 doctor`"),
            ErrorClass::Busy | ErrorClass::OutputClosed => None,
        };
        Self { class, code: None, what: what.into(), advice: advice.map(str::to_owned) }
    }

    /// The command line is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(ErrorClass::Usage, what)
    }

    /// The command line is wrong. The text behind the last semicolon is the next step.
    pub fn advised_usage(text: &str) -> Self {
        match text.rsplit_once("; ") {
            Some((what, next)) => Self::usage(what).advice(next),
            None => Self::usage(text),
        }
    }

    /// A daemon runs already.
    pub fn busy(what: impl Into<String>) -> Self {
        Self::new(ErrorClass::Busy, what)
    }

    /// The operating system refused `what`, because of `cause`.
    pub fn system(what: impl std::fmt::Display, cause: impl std::fmt::Display) -> Self {
        Self::new(ErrorClass::System, format!("{what}: {cause}"))
    }

    /// An operation failed with an m3ipc code; the advice follows from the code.
    pub fn code(code: Code, what: impl Into<String>) -> Self {
        let is_system = code == Code::NoMem;
        let class = if is_system { ErrorClass::System } else { ErrorClass::Failed };
        let advice = advice(code).map(str::to_owned);
        Self { class, code: Some(code), what: what.into(), advice }
    }

    /// An operation of the library failed. The text behind its last semicolon is the next step.
    fn of_library(code: Code, text: &str, prefers_own_advice: bool) -> Self {
        // Some errors print their code at the end.
        let text = text.strip_suffix(&format!(" ({code})")).unwrap_or(text);
        let (what, next) = text.rsplit_once("; ").unwrap_or((text, ""));
        let error = Self::code(code, format!("{what}{}", in_brackets(code)));
        let is_better = prefers_own_advice || error.advice.is_none();
        if is_better && !next.is_empty() { error.advice(next) } else { error }
    }

    /// An operation failed without an m3ipc code.
    pub fn failure(what: impl Into<String>) -> Self {
        Self::new(ErrorClass::Failed, what)
    }

    /// Adds the next step, in place of an earlier one.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Prints the error to standard error and returns the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        if self.class != ErrorClass::OutputClosed {
            let text = if json { self.json() } else { self.text() };
            m3ipc_sys::tell!("{text}");
        }
        ExitCode::from(self.exit_code())
    }

    /// Whether no node daemon runs.
    pub fn is_absence(&self) -> bool {
        self.code == Some(Code::DrvsInit)
    }

    fn exit_code(&self) -> u8 {
        match self.class {
            ErrorClass::OutputClosed => OUTPUT_CLOSED,
            ErrorClass::Failed => 1,
            ErrorClass::Usage => 2,
            ErrorClass::Busy => 3,
            ErrorClass::System => 4,
        }
    }

    fn text(&self) -> String {
        // Skip the advice where the message of the library names a command already.
        match self.advice.as_ref().filter(|_advice| !self.what.contains("`m3 ")) {
            Some(advice) => format!("m3: {}\n    {advice}", self.what),
            None => format!("m3: {}", self.what),
        }
    }

    fn json(&self) -> String {
        let value = serde_json::json!({ "error": {
            "what": self.what,
            "next": self.advice,
            "code": self.code.map(Code::number),
            "name": self.code.map(|code| format!("EMOL{}", code.name())),
            "exit": self.exit_code(),
        }});
        json_escaped(&value.to_string())
    }
}

/// The name and the number of a code, as the end of a text.
pub fn in_brackets(code: Code) -> String {
    format!(" (EMOL{}, {})", code.name(), code.number())
}

/// Reports what clap found wrong in the arguments, or prints the help that they ask for.
pub fn report_usage(refused: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if !refused.use_stderr() || !is_json {
        // A closed output leaves no other channel.
        let _ = refused.print();
        return ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(2));
    }
    let text = refused.to_string();
    let first = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let what = first.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned();
    let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    let error = CliError::usage(what);
    tips.fold(error, CliError::advice).report(true)
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// Errors of writing results to standard output.
impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(ErrorClass::OutputClosed, "standard output is closed");
        }
        Self::system("cannot write to standard output", &error)
    }
}

/// Conversions of errors that carry the reason and the advice of the node.
macro_rules! from_refusals {
    ($($name:ident),*) => {$(
        impl From<m3ipc::$name> for CliError {
            fn from(error: m3ipc::$name) -> Self {
                Self::of_library(error.code(), error.why(), true)
            }
        }
    )*};
}
from_refusals!(NodeError, NameError);

/// Conversions of errors with a peer. Their own advice is for programs, except where the system or
/// the node refused a step.
macro_rules! from_peer_errors {
    ($($name:ident),*) => {$(
        impl From<m3ipc::$name> for CliError {
            fn from(error: m3ipc::$name) -> Self {
                if error.code() == Code::VmNotRun {
                    return Self::code(Code::VmNotRun, "the VM ended, and this endpoint with it");
                }
                let is_refusal = matches!(error, m3ipc::$name::System { .. });
                let is_exact = stringify!($name) == "CopyError"
                    && matches!(error.code(), Code::Perm | Code::Range);
                Self::of_library(error.code(), &error.to_string(), is_refusal || is_exact)
            }
        }
    )*};
}
from_peer_errors!(
    BindError,
    CopyError,
    NotifyError,
    ReceiveError,
    ReplyError,
    SendError,
    SendRecError,
    UnbindError,
    WaitError,
    WakeupError,
    WatchError
);

impl From<m3ipc::GrantError> for CliError {
    fn from(error: m3ipc::GrantError) -> Self {
        Self::of_library(error.code(), &error.to_string(), true)
    }
}

/// The next step after an error with this code.
fn advice(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::DrvsInit => {
            "start a node with `m3 up`; `m3 doctor` shows the directories where m3 searches"
        }
        Code::BadVmId | Code::VmNotRun => {
            "list the VMs with `m3 vm ls`, or create one with `m3 vm create NAME`"
        }
        Code::NoNode => "list the VMs with `m3 vm ls`, and the endpoints of a VM with `m3 ps VM`",
        Code::DstDied | Code::SrcDied | Code::DeadSrcDst | Code::Endpoint => {
            "list the living endpoints, with addresses and names, with `m3 ps`"
        }
        Code::Range => "see the slots of the VM with `m3 vm info VM`",
        Code::TimedOut | Code::Again => {
            "see the current call of the endpoint with `m3 ps`, or raise --timeout"
        }
        Code::ProcSts => {
            "see the current call of the endpoint with `m3 ps`; a copy or a reply needs an \
             endpoint that waits"
        }
        Code::Locked => "see the waiting endpoints and their partners with `m3 ps`",
        Code::SlotUsed => "see the owner with `m3 ps`, or choose another slot or name with --as",
        Code::RscBusy => {
            "list the used ids and names with `m3 vm ls`, those of endpoints with `m3 ps VM`"
        }
        Code::Privileges | Code::Perm | Code::CallDenied | Code::TrapDenied => {
            "see the owner, group and mode with `m3 vm info VM`"
        }
        Code::BadRange | Code::BadNodeId => {
            "see the limits of the node with `m3 vm ls --json` and `m3 doctor`"
        }
        Code::NameSize => "use at most 15 bytes for the name of a VM, and 63 for an endpoint's",
        Code::Version => "end the running daemon, which has another version, with `m3 down`",
        Code::NoMem => "see the limits with `m3 doctor`",
        Code::Shutdown | Code::NotBind => {
            "start the command again: another process ended the endpoint"
        }
        _ => return None,
    })
}
