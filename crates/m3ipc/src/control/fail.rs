//! The failures of the control connection, with their texts.

use crate::error::Fail;
use crate::runtime::ConnectError;
use m3ipc_abi::Code;
use m3ipc_sys::Errno;

/// The descriptors of a reply found no free numbers in this process.
pub(super) fn no_descriptors() -> Fail {
    let why = "this process has no descriptor left for the reply of the node daemon; close some, \
               or raise the limit of open files (ulimit -n)";
    Fail::new(Code::NoMem, why)
}

/// There is no memory for a frame.
pub(super) fn no_memory() -> Fail {
    let why = "this process has no memory left for a frame of the node daemon; free some, or \
               raise its limit (ulimit -v)";
    Fail::new(Code::NoMem, why)
}

/// The daemon ended during the request.
pub(super) fn daemon_gone() -> Fail {
    Fail::new(Code::NotConn, "the node daemon has gone; the next call will find or start another")
}

/// The reply does not fit the request.
pub(crate) fn unexpected() -> Fail {
    Fail::new(Code::Version, "the node daemon gave an unexpected answer; end it with `m3 down`")
}

/// The program of the daemon was started, and no daemon serves the directory.
pub(super) fn not_serving(error: &ConnectError) -> Fail {
    let text = error.to_string();
    let what = text.rsplit_once("; ").map_or(text.as_str(), |(what, _)| what);
    let why = format!(
        "{what}, although the program of the daemon was started; check that M3_DAEMON names m3d, \
         or see why with `m3 daemon`"
    );
    Fail::new(Code::DrvsInit, why)
}

/// No daemon answers, or none that this process trusts.
pub(super) fn unreachable(error: &ConnectError) -> Fail {
    if matches!(error.errno(), Some(Errno::MFILE | Errno::NFILE)) {
        return Fail::new(
            Code::NoMem,
            format!(
                "no descriptor for a connection to the node daemon: {error}; raise `ulimit -n`"
            ),
        );
    }
    Fail::new(error.code(), error.to_string())
}
