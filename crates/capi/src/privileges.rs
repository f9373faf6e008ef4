//! Privileges: setpriv and getpriv.
//!
//! In C a call is a bit of the trap mask of Minix, and one bit of a set stands for all user slots.
//! The node keeps its own mask, and lists of slots.

use crate::failure::{CallFailure, CallResult};
use crate::memory::ReadPtr;
use crate::node::{self, SERVERS};
use crate::records::{PrivUsr, SlotMap};
use core::ffi::{c_int, c_short};
use m3ipc::{Address, Code, NONE, NodeError, Privileges};
use m3ipc_abi::Verb;

/// The verbs that C can deny, each with its bit of C: `M3_TRAP_...`.
const TRAPS: &[(Verb, u16)] = &[
    (Verb::Send, 1 << 1),
    (Verb::Receive, 1 << 2),
    (Verb::Sendrec, 1 << 5),
    (Verb::Notify, 1 << 4),
    (Verb::Rcvrqst, 1 << 6),
    (Verb::Reply, 1 << 7),
    (Verb::Relay, 1 << 7),
    (Verb::Vcopy, 1 << 15),
];
/// `NR_TASKS`: the bit of slot 0 in a set.
const TASKS: c_int = 35;
/// The bit that stands for all user slots.
const USERS: c_int = TASKS + SERVERS;
/// `PROXY_PRIV`, the highest level.
const LEVEL_MAX: c_int = 5;
/// The largest number of slots in one request.
const LIST_MAX: usize = 2_500;

/// Sets the privileges of an endpoint.
pub(crate) fn set(vmid: c_int, address: Address, record: ReadPtr<PrivUsr>) -> CallResult {
    let mut node = node::find()?;
    // Calls without a bit in C keep their value.
    let former = node.privileges(vmid, address).map_err(of_other)?;
    let wanted = record.read()?;
    if !(0..=LEVEL_MAX).contains(&wanted.s_level) {
        return Err(Code::BadValue.into());
    }
    if ![0, NONE.0].contains(&wanted.s_warn) {
        return Err(Code::NoSys.into());
    }
    let procs = node.vm(vmid)?.info().procs;
    let privileges = Privileges {
        traps: traps_of(wanted.s_trap_mask, former.traps),
        ipc_to: list_of(&wanted.s_ipc_to, procs)?,
        ipc_from: list_of(&wanted.s_ipc_from, procs)?,
        level: wanted.s_level,
    };
    node.set_privileges(vmid, address, privileges).map_err(of_other)?;
    Ok(0)
}

/// The privileges of an endpoint.
pub(crate) fn get(vmid: c_int, address: Address) -> CallResult<PrivUsr> {
    let mut node = node::find()?;
    let found = node.privileges(vmid, address).map_err(of_other)?;
    let procs = node.vm(vmid)?.info().procs;
    Ok(PrivUsr {
        s_id: c_short::try_from(bit_of(address.slot())).unwrap_or(0),
        s_warn: NONE.0,
        s_level: found.level,
        s_trap_mask: mask_of(found.traps),
        s_ipc_from: map_of(found.ipc_from.as_deref(), procs),
        s_ipc_to: map_of(found.ipc_to.as_deref(), procs),
        ..PrivUsr::default()
    })
}

fn of_other(error: NodeError) -> CallFailure {
    CallFailure::from(error).of_other()
}

fn traps_of(mask: c_short, former: u32) -> u32 {
    let mask = mask.cast_unsigned();
    TRAPS.iter().fold(former, |traps, (verb, c)| {
        if mask & c == 0 { traps & !verb.mask() } else { traps | verb.mask() }
    })
}

fn mask_of(traps: u32) -> c_short {
    let union = |allowed: bool| {
        let bits = TRAPS.iter().filter(|(verb, _)| (traps & verb.mask() != 0) == allowed);
        bits.fold(0, |mask, (_, c)| mask | c)
    };
    // Reply and relay share a bit of C, which is set only if both are allowed.
    (union(true) & !union(false)).cast_signed()
}

fn bit_of(slot: c_int) -> c_int {
    if slot < SERVERS { slot + TASKS } else { USERS }
}

fn has(map: &SlotMap, bit: c_int) -> bool {
    let bit = bit.unsigned_abs() as usize;
    map[bit / 16] & 1 << (bit % 16) != 0
}

/// The slots of a set; `None` is every slot.
fn list_of(map: &SlotMap, procs: c_int) -> CallResult<Option<Vec<i32>>> {
    if (0..=USERS).all(|bit| has(map, bit)) {
        return Ok(None);
    }
    let last = if has(map, USERS) { procs } else { SERVERS };
    let list: Vec<i32> = (-TASKS..last).filter(|slot| has(map, bit_of(*slot))).collect();
    if list.len() > LIST_MAX {
        return Err(Code::BadValue.into());
    }
    Ok(Some(list))
}

/// The set of a list of slots, or of every slot.
fn map_of(list: Option<&[i32]>, procs: c_int) -> SlotMap {
    let Some(list) = list else { return [u16::MAX; 8] };
    let mut map = SlotMap::default();
    let users = list.iter().filter(|slot| **slot >= SERVERS).count();
    let all_users = i32::try_from(users).is_ok_and(|users| users >= procs - SERVERS);
    for slot in list.iter().filter(|slot| **slot < SERVERS || all_users) {
        let bit = bit_of(*slot).unsigned_abs() as usize;
        map[bit / 16] |= 1 << (bit % 16);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_without_a_bit_in_c_keep_their_value() {
        let all = mask_of(u32::MAX);
        assert_eq!(traps_of(all, u32::MAX), u32::MAX);
        let no_send = all & !(1 << 1);
        assert_eq!(traps_of(no_send, u32::MAX), !1);
        assert_eq!(mask_of(traps_of(no_send, u32::MAX)), no_send);
        assert_eq!(mask_of(!(1 << 6)) & 1 << 7, 0, "reply without relay");
    }

    #[test]
    fn each_verb_has_a_bit_in_c_or_is_known_to_have_none() {
        let without = [Verb::Wakeup, Verb::SrcNotify];
        for verb in Verb::ALL {
            let has_bit = TRAPS.iter().any(|(other, _)| other == verb);
            assert_ne!(has_bit, without.contains(verb), "{}", verb.name());
        }
    }

    #[test]
    fn a_set_survives_both_conversions() {
        assert_eq!(list_of(&[u16::MAX; 8], 221), Ok(None));
        let mut map = map_of(None, 221);
        map[(5 + 35) / 16] &= !(1 << ((5 + 35) % 16));
        let list = list_of(&map, 221).unwrap_or_default().unwrap_or_default();
        assert!(
            !list.contains(&5) && list.contains(&6) && list.contains(&-35) && list.contains(&220)
        );
        let back = map_of(Some(&list), 221);
        assert!((0..=USERS).all(|bit| has(&back, bit) == has(&map, bit)));
        let none = list_of(&SlotMap::default(), 221);
        assert_eq!(none, Ok(Some(Vec::new())));
        assert!(list_of(&map, 35_000).is_err(), "too many slots for a request");
    }
}
