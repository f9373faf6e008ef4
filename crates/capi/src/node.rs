//! The node: drvs_init, drvs_end, getdrvsinfo; and a connection for calls that need no endpoint.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::current;
use crate::guard::{Answer, Refused, call};
use crate::memory;
use crate::records::{DrvsUsr, name_of};
use core::ffi::c_int;
use m3ipc::{Code, Node, NodeInfo, NodeParams};
use std::sync::Mutex;

/// `LOCALNODE`.
const LOCALNODE: c_int = -1;
/// `MAXCOPYBUF` and `MAXCOPYLEN`.
const COPY_BYTES: (c_int, c_int) = (65_536, 64 * 65_536);
/// `M3_DRVS_USERMODE | M3_DRVS_INITIALIZED`.
const FLAGS: u64 = 1 << 2 | 1 << 8;
/// Slots of servers.
pub(crate) const SERVERS: c_int = 29;

/// Keeps the node up: it does not count as idle while the process that initialised it lives.
static HELD: Mutex<Option<Node>> = Mutex::new(None);

/// A connection to the node.
///
/// # Errors
/// -318 where it is not initialised.
pub(crate) fn reach() -> Result<Node, Refused> {
    Ok(Node::find(&m3ipc::runtime::directory())?)
}

/// A connection to the node, and what the node is.
///
/// # Errors
/// -318 where it is not initialised.
pub(crate) fn reach_with_info() -> Result<(Node, NodeInfo), Refused> {
    let mut node = reach()?;
    let info = node.info()?;
    if info.initialised { Ok((node, info)) } else { Err(Code::DrvsInit.into()) }
}

fn hold(node: Option<Node>) {
    // Not waited for: in a child that was forked meanwhile nobody would let go.
    if let Ok(mut held) = HELD.try_lock() {
        *held = node;
    }
}

/// `mnx_drvs_init`: starts the node.
///
/// # Safety
/// `params` is null, or a `drvs_usr_t` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_drvs_init(nodeid: c_int, params: *mut DrvsUsr) -> c_int {
    call(|| {
        let wanted = if params.is_null() { DrvsUsr::default() } else { memory::read(params)? };
        let mut node = Node::init(&params_of(nodeid, &wanted)?)?;
        let info = node.info()?;
        hold(Some(node));
        if !params.is_null() {
            memory::write(params, shown(&info, &wanted))?;
        }
        Ok(info.nodeid)
    })
}

/// `mnx_drvs_end`: ends every VM, then the node.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_drvs_end() -> c_int {
    call(|| {
        let (node, _) = reach_with_info()?;
        node.end()?;
        hold(None);
        // The caller's own endpoint has ended with its VM.
        drop(current::take());
        Ok(0)
    })
}

/// `mnx_getdrvsinfo`: the parameters of the node.
///
/// # Safety
/// `info` is a `drvs_usr_t` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getdrvsinfo(info: *mut DrvsUsr) -> c_int {
    call(|| {
        let (_, found) = reach_with_info()?;
        memory::write(info, shown(&found, &DrvsUsr::default()))?;
        Ok(found.nodeid)
    })
}

/// Checks what the node daemon does not know of, and asks it for the rest.
fn params_of(nodeid: c_int, wanted: &DrvsUsr) -> Result<NodeParams, Refused> {
    let given = |number: c_int| (number != 0).then_some(number);
    let params = NodeParams {
        nodeid: (nodeid != LOCALNODE).then_some(nodeid),
        vms: given(wanted.d_nr_vms),
        nodes: given(wanted.d_nr_nodes),
        procs: given(wanted.d_nr_procs),
        tasks: given(wanted.d_nr_tasks),
    };
    let (tasks, procs) = (params.tasks.unwrap_or(35), params.procs.unwrap_or(221));
    let system = wanted.d_nr_sysprocs;
    if system != 0 && (system <= tasks || system >= tasks.saturating_add(procs)) {
        return Err(Code::BadRange.into());
    }
    let (piece, whole) = (wanted.d_max_copybuf, wanted.d_max_copylen);
    let whole_given = if whole == 0 { COPY_BYTES.1 } else { whole };
    if piece < 0
        || whole < 0
        || piece > whole_given
        || crate::records::bytes_of(&wanted.d_name).is_none()
    {
        return Err(Code::BadValue.into());
    }
    Ok(params)
}

/// The values in force. Of those that only programs use, the ones that were given.
fn shown(info: &NodeInfo, given: &DrvsUsr) -> DrvsUsr {
    let mut version = info.version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut number = || version.next().unwrap_or(0);
    let or = |number: c_int, default: c_int| if number == 0 { default } else { number };
    DrvsUsr {
        d_nr_vms: info.vms,
        d_nr_nodes: info.nodes,
        d_nr_procs: info.procs,
        d_nr_tasks: info.tasks,
        d_nr_sysprocs: info.tasks.saturating_add(SERVERS),
        d_max_copybuf: or(
            given.d_max_copybuf,
            COPY_BYTES.0.min(or(given.d_max_copylen, COPY_BYTES.1)),
        ),
        d_max_copylen: or(given.d_max_copylen, COPY_BYTES.1),
        d_dbglvl: 0,
        d_version: number(),
        d_subver: number(),
        d_flags: FLAGS,
        // Of the daemon's tables, which are its own: what a slot of it weighs here.
        d_size_proc: 256,
        d_name: if given.d_name[0] == 0 { name_of("m3ipc") } else { given.d_name },
    }
}

/// Answers a code that says no more than that the caller's endpoint is gone, for calls about others.
pub(crate) fn or_died(refused: Refused) -> Refused {
    match refused.0 {
        Code::NotBind => Refused(Code::DstDied),
        _ => refused,
    }
}

/// 0, or the refusal.
pub(crate) fn done<E>(result: Result<(), E>) -> Answer
where
    Refused: From<E>,
{
    Ok(result.map(|()| 0)?)
}
