//! The node: start, end, parameters; and a connection for calls that need no endpoint.

use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::parameters;
use crate::records::{DrvsUsr, NodeUsr, bytes_of, name_of, set_of};
use core::ffi::{c_int, c_ulong};
use m3ipc::{Code, Node, NodeInfo, NodeParams, OtherNodeInfo};

/// `LOCALNODE`.
const LOCALNODE: c_int = -1;
/// `NR_TASKS` and `NR_PROCS`.
const DEFAULT_TASKS: c_int = 35;
const DEFAULT_PROCS: c_int = 221;
/// The pieces in which a copy goes through a bounce buffer.
const COPY_PIECE_BYTES: c_int = 65_536;
/// `M3_DRVS_USERMODE | M3_DRVS_INITIALIZED`.
const FLAGS: u64 = 1 << 2 | 1 << 8;
/// `M3_NODE_ATTACHED`.
const NODE_ATTACHED: c_ulong = 1 << 1;
/// `M3_NODE_SCONNECTED` and `M3_NODE_RCONNECTED`.
const NODE_SCONNECTED: c_ulong = 1 << 2;
const NODE_RCONNECTED: c_ulong = 1 << 3;
/// `M3_NO_PROXIES`.
const NO_PROXIES: c_int = -1;
/// `NR_SERVERS`.
pub(crate) const SERVERS: c_int = 29;

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

/// Starts the node. Returns its id and the parameters in force.
pub(crate) fn init(nodeid: c_int, wanted: &DrvsUsr) -> CallResult<(c_int, DrvsUsr)> {
    let mut wanted = *wanted;
    let given = parameters::fill_node(&mut wanted)?;
    let nodeid = if nodeid == LOCALNODE { given.unwrap_or(nodeid) } else { nodeid };
    let mut node = Node::init(&params_of(nodeid, &wanted)?)?;
    let info = node.info()?;
    Ok((info.nodeid, record_of(&info)))
}

/// Ends every VM, then the node.
pub(crate) fn end() -> CallResult {
    let (node, _) = find_with_info()?;
    node.end()?;
    // The caller's own endpoint has ended with its VM.
    current::release_ended();
    Ok(0)
}

/// The id and the parameters of the node.
pub(crate) fn info() -> CallResult<(c_int, DrvsUsr)> {
    let (_, info) = find_with_info()?;
    Ok((info.nodeid, record_of(&info)))
}

/// The state of a node: of the local one, of one that the proxy knows, or of one that nobody knows.
pub(crate) fn state(nodeid: c_int) -> CallResult<NodeUsr> {
    let (mut node, info) = find_with_info()?;
    let nodeid = if nodeid == LOCALNODE { info.nodeid } else { nodeid };
    let unknown = NodeUsr { n_nodeid: nodeid, n_proxies: NO_PROXIES, ..NodeUsr::default() };
    if nodeid != info.nodeid {
        let others = node.other_nodes()?;
        return match others.nodes.iter().find(|other| other.id == nodeid) {
            Some(other) => Ok(other_state(other)),
            None if (0..info.nodes).contains(&nodeid) => Ok(unknown),
            None => Err(CallFailure::no(Code::BadNodeId, nodeid, "id of a node")),
        };
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let vms = node.vms()?.iter().fold(0, |set, vm| set | set_of(vm.id));
    Ok(NodeUsr { n_flags: NODE_ATTACHED, n_vms: vms, n_name: name_of(host.trim()), ..unknown })
}

/// The state of another node. One proxy connects all nodes: its number is that of the node.
fn other_state(other: &OtherNodeInfo) -> NodeUsr {
    let connected = if other.reachable { NODE_SCONNECTED | NODE_RCONNECTED } else { 0 };
    NodeUsr {
        n_nodeid: other.id,
        n_flags: NODE_ATTACHED | connected,
        n_proxies: other.id,
        n_vms: other.vms.iter().fold(0, |set, vm| set | set_of(*vm)),
        n_name: name_of(&other.name),
        ..NodeUsr::default()
    }
}

/// Checks the parameters that the daemon does not know, and converts the others.
fn params_of(nodeid: c_int, wanted: &DrvsUsr) -> CallResult<NodeParams> {
    let given = |number: c_int| (number != 0).then_some(number);
    let name = bytes_of(&wanted.d_name).and_then(|name| String::from_utf8(name).ok());
    let name = name.ok_or(Code::BadValue)?;
    let params = NodeParams {
        nodeid: (nodeid != LOCALNODE).then_some(nodeid),
        vms: given(wanted.d_nr_vms),
        nodes: given(wanted.d_nr_nodes),
        procs: given(wanted.d_nr_procs),
        tasks: given(wanted.d_nr_tasks),
        name: (!name.is_empty()).then_some(name),
        max_copy_bytes: u64::try_from(wanted.d_max_copylen).ok().filter(|bytes| *bytes != 0),
    };
    let tasks = params.tasks.unwrap_or(DEFAULT_TASKS);
    let procs = params.procs.unwrap_or(DEFAULT_PROCS);
    let system = wanted.d_nr_sysprocs;
    if system != 0 && (system <= tasks || system >= tasks.saturating_add(procs)) {
        let text = format!(
            "{system} sysprocs are not above {tasks} tasks and below their sum with {procs} procs"
        );
        return Err(CallFailure::said(Code::BadRange, text));
    }
    let (piece, whole) = (wanted.d_max_copybuf, wanted.d_max_copylen);
    if piece < 0 || whole < 0 || (whole != 0 && piece > whole) {
        return Err(Code::BadValue.into());
    }
    Ok(params)
}

/// The parameters in force.
fn record_of(info: &NodeInfo) -> DrvsUsr {
    let mut version = info.version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut version_part = || version.next().unwrap_or(0);
    let whole = info
        .max_copy_bytes
        .map_or(c_int::MAX, |bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX));
    DrvsUsr {
        d_nr_vms: info.vms,
        d_nr_nodes: info.nodes,
        d_nr_procs: info.procs,
        d_nr_tasks: info.tasks,
        d_nr_sysprocs: info.tasks.saturating_add(SERVERS),
        d_max_copybuf: COPY_PIECE_BYTES.min(whole),
        d_max_copylen: whole,
        d_dbglvl: 0,
        d_version: version_part(),
        d_subver: version_part(),
        d_flags: FLAGS,
        // The tables of the daemon are private; this is the size of `ProcUsr`.
        d_size_proc: 256,
        d_name: name_of(&info.name),
    }
}
