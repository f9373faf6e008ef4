//! setpriv and getpriv: sets of C, and what the node keeps.
//!
//! In C a call is a bit of Minix's trap mask, and all user slots share one bit of a set.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::guard::{Refused, call};
use crate::memory;
use crate::node::{self, SERVERS};
use crate::records::{PrivUsr, SlotMap};
use core::ffi::{c_int, c_short};
use m3ipc::{Address, Code, NONE, Privileges};

/// Bits of the node's masks with those of C: `M3_TRAP_...`.
const TRAPS: &[(u32, u16)] = &[
    (1 << 0, 1 << 1),  // send
    (1 << 1, 1 << 2),  // receive
    (1 << 2, 1 << 5),  // sendrec
    (1 << 3, 1 << 4),  // notify
    (1 << 4, 1 << 6),  // rcvrqst
    (1 << 5, 1 << 7),  // reply
    (1 << 6, 1 << 7),  // relay
    (1 << 8, 1 << 15), // vcopy
];
/// `NR_TASKS`: where slot 0 is in a set.
const TASKS: c_int = 35;
/// The bit of all user slots.
const USERS: c_int = TASKS + SERVERS;
/// `PROXY_PRIV`, the highest level.
const LEVEL_MAX: c_int = 5;
/// Slots that one request has room for.
const LIST_MAX: usize = 2_500;

/// `mnx_setpriv`: sets the privileges of an endpoint.
///
/// # Safety
/// `privileges` is a `priv_usr_t` that nobody else writes meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_setpriv(vmid: c_int, ep: c_int, privileges: *mut PrivUsr) -> c_int {
    call(|| {
        let mut node = node::reach()?;
        // What C has no bit for stays as it is.
        let former =
            node.privileges(vmid, Address(ep)).map_err(|error| node::or_died(error.into()))?;
        let wanted = memory::read(privileges)?;
        if !(0..=LEVEL_MAX).contains(&wanted.s_level) {
            return Err(Code::BadValue.into());
        }
        let procs = node.vm(vmid)?.info().procs;
        let privileges = Privileges {
            traps: traps_of(wanted.s_trap_mask, former.traps),
            ipc_to: list_of(&wanted.s_ipc_to, procs)?,
            ipc_from: list_of(&wanted.s_ipc_from, procs)?,
            level: wanted.s_level,
        };
        node::done(node.set_privileges(vmid, Address(ep), privileges)).map_err(node::or_died)
    })
}

/// `mnx_getpriv`: the privileges of an endpoint.
///
/// # Safety
/// `privileges` is a `priv_usr_t` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getpriv(vmid: c_int, ep: c_int, privileges: *mut PrivUsr) -> c_int {
    call(|| {
        let mut node = node::reach()?;
        let found =
            node.privileges(vmid, Address(ep)).map_err(|error| node::or_died(error.into()))?;
        let procs = node.vm(vmid)?.info().procs;
        let shown = PrivUsr {
            s_id: c_short::try_from(bit_of(Address(ep).slot())).unwrap_or(0),
            s_warn: NONE.0,
            s_level: found.level,
            s_trap_mask: mask_of(found.traps),
            s_ipc_from: map_of(found.ipc_from.as_deref(), procs),
            s_ipc_to: map_of(found.ipc_to.as_deref(), procs),
            ..PrivUsr::default()
        };
        memory::write(privileges, shown)?;
        Ok(0)
    })
}

fn traps_of(mask: c_short, former: u32) -> u32 {
    let mask = mask.cast_unsigned();
    TRAPS.iter().fold(
        former,
        |traps, (ours, theirs)| {
            if mask & theirs == 0 { traps & !ours } else { traps | ours }
        },
    )
}

fn mask_of(traps: u32) -> c_short {
    let bits = TRAPS
        .iter()
        .filter(|(ours, _)| traps & ours != 0)
        .fold(0, |mask, (_, theirs)| mask | theirs);
    // Reply and relay share a bit: it stands for both.
    let half = TRAPS
        .iter()
        .filter(|(ours, _)| traps & ours == 0)
        .fold(0, |mask, (_, theirs)| mask | theirs);
    (bits & !half).cast_signed()
}

fn bit_of(slot: c_int) -> c_int {
    if slot < SERVERS { slot + TASKS } else { USERS }
}

fn has(map: &SlotMap, bit: c_int) -> bool {
    let bit = bit.unsigned_abs() as usize;
    map[bit / 16] & 1 << (bit % 16) != 0
}

/// The slots of a set; `None` is everybody.
fn list_of(map: &SlotMap, procs: c_int) -> Result<Option<Vec<i32>>, Refused> {
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

/// The set of some slots, or of everybody.
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
    fn calls_without_a_bit_in_c_stay_as_they_are() {
        let all = mask_of(u32::MAX);
        assert_eq!(traps_of(all, u32::MAX), u32::MAX);
        let no_send = all & !(1 << 1);
        assert_eq!(traps_of(no_send, u32::MAX), !1);
        assert_eq!(mask_of(traps_of(no_send, u32::MAX)), no_send);
        assert_eq!(mask_of(!(1 << 6)) & 1 << 7, 0, "no relay: not both");
    }

    #[test]
    fn a_set_comes_back_as_it_went() {
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
        assert!(list_of(&map, 35_000).is_err(), "more slots than a request holds");
    }
}
