//! The node: start, end, parameters; and a connection for calls that need no endpoint.

use crate::current;
use crate::failure::CallResult;
use crate::records::{DrvsUsr, bytes_of, name_of};
use core::ffi::c_int;
use m3ipc::{Code, Node, NodeInfo, NodeParams};
use std::sync::Mutex;

/// `LOCALNODE`.
const LOCALNODE: c_int = -1;
/// `NR_TASKS` and `NR_PROCS`.
const DEFAULT_TASKS: c_int = 35;
const DEFAULT_PROCS: c_int = 221;
/// `MAXCOPYBUF` and `MAXCOPYLEN`.
const COPY_PIECE_BYTES: c_int = 65_536;
const COPY_BYTES: c_int = 64 * COPY_PIECE_BYTES;
/// `M3_DRVS_USERMODE | M3_DRVS_INITIALIZED`.
const FLAGS: u64 = 1 << 2 | 1 << 8;
/// `NR_SERVERS`.
pub(crate) const SERVERS: c_int = 29;

/// The connection of the process that initialised the node. It keeps an idle node running.
static INITIALISER: Mutex<Option<Node>> = Mutex::new(None);

/// A connection to the node.
///
/// # Errors
/// -318 if the node is not initialised.
pub(crate) fn find() -> CallResult<Node> {
    Ok(Node::find(&m3ipc::runtime::directory())?)
}

/// A connection to the node, and its parameters.
///
/// # Errors
/// -318 if the node is not initialised.
pub(crate) fn find_with_info() -> CallResult<(Node, NodeInfo)> {
    let mut node = find()?;
    let info = node.info()?;
    if info.initialised { Ok((node, info)) } else { Err(Code::DrvsInit.into()) }
}

fn keep(node: Option<Node>) {
    // A child that was forked while the lock was held would wait for ever.
    if let Ok(mut kept) = INITIALISER.try_lock() {
        *kept = node;
    }
}

/// Starts the node. Returns its id and the parameters in force.
pub(crate) fn init(nodeid: c_int, wanted: &DrvsUsr) -> CallResult<(c_int, DrvsUsr)> {
    let mut node = Node::init(&params_of(nodeid, wanted)?)?;
    let info = node.info()?;
    keep(Some(node));
    Ok((info.nodeid, record_of(&info, wanted)))
}

/// Ends every VM, then the node.
pub(crate) fn end() -> CallResult {
    let (node, _) = find_with_info()?;
    node.end()?;
    keep(None);
    // The caller's own endpoint has ended with its VM.
    current::release_ended();
    Ok(0)
}

/// The id and the parameters of the node.
pub(crate) fn info() -> CallResult<(c_int, DrvsUsr)> {
    let (_, info) = find_with_info()?;
    Ok((info.nodeid, record_of(&info, &DrvsUsr::default())))
}

/// Checks the parameters that the daemon does not know, and converts the others.
fn params_of(nodeid: c_int, wanted: &DrvsUsr) -> CallResult<NodeParams> {
    let given = |number: c_int| (number != 0).then_some(number);
    let params = NodeParams {
        nodeid: (nodeid != LOCALNODE).then_some(nodeid),
        vms: given(wanted.d_nr_vms),
        nodes: given(wanted.d_nr_nodes),
        procs: given(wanted.d_nr_procs),
        tasks: given(wanted.d_nr_tasks),
    };
    let tasks = params.tasks.unwrap_or(DEFAULT_TASKS);
    let procs = params.procs.unwrap_or(DEFAULT_PROCS);
    let system = wanted.d_nr_sysprocs;
    if system != 0 && (system <= tasks || system >= tasks.saturating_add(procs)) {
        return Err(Code::BadRange.into());
    }
    let (piece, whole) = (wanted.d_max_copybuf, wanted.d_max_copylen);
    let whole_in_force = if whole == 0 { COPY_BYTES } else { whole };
    let bad_copy = piece < 0 || whole < 0 || piece > whole_in_force;
    if bad_copy || bytes_of(&wanted.d_name).is_none() {
        return Err(Code::BadValue.into());
    }
    Ok(params)
}

/// The parameters in force. Those that only programs use are the `given` ones.
fn record_of(info: &NodeInfo, given: &DrvsUsr) -> DrvsUsr {
    let mut version = info.version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut version_part = || version.next().unwrap_or(0);
    let or = |number: c_int, default: c_int| if number == 0 { default } else { number };
    let whole = or(given.d_max_copylen, COPY_BYTES);
    DrvsUsr {
        d_nr_vms: info.vms,
        d_nr_nodes: info.nodes,
        d_nr_procs: info.procs,
        d_nr_tasks: info.tasks,
        d_nr_sysprocs: info.tasks.saturating_add(SERVERS),
        d_max_copybuf: or(given.d_max_copybuf, COPY_PIECE_BYTES.min(whole)),
        d_max_copylen: whole,
        d_dbglvl: 0,
        d_version: version_part(),
        d_subver: version_part(),
        d_flags: FLAGS,
        // The tables of the daemon are private; this is the size of `ProcUsr`.
        d_size_proc: 256,
        d_name: if given.d_name[0] == 0 { name_of("m3ipc") } else { given.d_name },
    }
}
