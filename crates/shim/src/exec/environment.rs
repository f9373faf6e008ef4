//! The environment of programs: it names this library for those alone that the policy names.
//!
//! The constructor keeps the variables of the library, and takes them out of the environment of
//! its process, so that no program that the process executes sees them. [`additions`] says what an
//! exec adds for a named program.

use crate::policy::{COUNTERS_VARIABLE, DIRECTORY_VARIABLE, RUNTIME_VARIABLE, VARIABLE};
use core::ffi::CStr;
use std::sync::OnceLock;

/// The list of preloaded libraries.
pub const PRELOAD: &str = "LD_PRELOAD";
/// The other variables of the library.
pub const NAMES: [&str; 3] = [VARIABLE, COUNTERS_VARIABLE, DIRECTORY_VARIABLE];
/// Bytes of a kept variable, with its name and its end.
const VARIABLE_BYTES: usize = 4096 + 64;

/// One variable as `NAME=value`, with its end.
#[derive(Debug)]
pub struct Variable {
    bytes: [u8; VARIABLE_BYTES],
}

impl Variable {
    /// A variable of these parts; `None` where they are too long.
    fn new(parts: &[&[u8]]) -> Option<Self> {
        let mut bytes = [0; VARIABLE_BYTES];
        let mut at = 0;
        for part in parts {
            // One byte stays for the end.
            bytes.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        (at < VARIABLE_BYTES).then_some(Self { bytes })
    }

    /// The variable as a string.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

static KEPT: [OnceLock<Variable>; 3] = [const { OnceLock::new() }; 3];
/// The path of this library.
static OWN_PATH: OnceLock<&'static CStr> = OnceLock::new();

/// Keeps the variables of the library and its path. The constructor calls this; `find` gives the
/// value of a variable.
pub fn keep<'a>(find: impl Fn(&str) -> Option<&'a CStr>, own_path: Option<&'static CStr>) {
    for (name, kept) in NAMES.iter().zip(&KEPT) {
        // The directory of this process, also where its children get another M3_RUNTIME_DIR.
        let or_runtime = || (*name == DIRECTORY_VARIABLE).then(|| find(RUNTIME_VARIABLE)).flatten();
        if let Some(value) = find(name).or_else(or_runtime)
            && let Some(variable) = Variable::new(&[name.as_bytes(), b"=", value.to_bytes()])
        {
            let _ = kept.set(variable);
        }
    }
    if let Some(path) = own_path {
        let _ = OWN_PATH.set(path);
    }
}

/// What an exec adds to an environment.
#[derive(Debug)]
pub struct Additions {
    /// The environment's list of preloaded libraries, with this one at its end.
    preload: Variable,
    /// The other variables that are missing.
    missing: [bool; 3],
}

impl Additions {
    /// The variables to add. The first is in place of the environment's own list.
    pub fn variables(&self) -> impl Iterator<Item = &CStr> {
        let missing = KEPT.iter().zip(self.missing).filter(|(_kept, missing)| *missing);
        let missing = missing.filter_map(|(kept, _)| kept.get());
        core::iter::once(&self.preload).chain(missing).map(Variable::as_c_str)
    }
}

/// What an environment lacks for a program that loads the library; `None` where that is too long,
/// or the library does not know its own path. `find` gives the value of a variable. Other preloaded
/// libraries stay first.
#[must_use]
pub fn additions<'a>(find: impl Fn(&str) -> Option<&'a CStr>) -> Option<Additions> {
    let own = OWN_PATH.get()?.to_bytes();
    let list = find(PRELOAD).map_or(&[][..], CStr::to_bytes);
    let missing = core::array::from_fn(|at| find(NAMES[at]).is_none());
    Some(Additions { preload: extended(list, own)?, missing })
}

/// The list of preloaded libraries with `own` at its end; `None` where it would be too long.
fn extended(list: &[u8], own: &[u8]) -> Option<Variable> {
    let colon: &[u8] = if list.is_empty() { b"" } else { b":" };
    Variable::new(&[b"LD_PRELOAD=", list, colon, own])
}

/// Takes the library out of a list of preloaded libraries, in place; the bytes that are left.
pub fn take_out(list: &mut [u8]) -> usize {
    let own = OWN_PATH.get().map_or(&[][..], |own| own.to_bytes());
    take_out_of(list, own)
}

fn take_out_of(list: &mut [u8], own: &[u8]) -> usize {
    // A name without a directory, which the loader found by its own search.
    let base = own.rsplit(|byte| *byte == b'/').next().unwrap_or(own);
    let (mut kept, mut at) = (0, 0);
    while at < list.len() {
        let rest = &list[at..];
        let length = rest.iter().position(|byte| b": ".contains(byte)).unwrap_or(rest.len());
        if length > 0 && ![own, base].contains(&&rest[..length]) {
            if kept > 0 {
                list[kept] = b':';
                kept += 1;
            }
            list.copy_within(at..at + length, kept);
            kept += length;
        }
        at += length + 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_goes_behind_others() {
        let extended = |list| extended(list, b"/usr/lib/libm3sock.so");
        let only = extended(b"").unwrap();
        assert_eq!(only.as_c_str().to_bytes(), b"LD_PRELOAD=/usr/lib/libm3sock.so");
        let list = extended(b"/a.so").unwrap();
        assert_eq!(list.as_c_str().to_bytes(), b"LD_PRELOAD=/a.so:/usr/lib/libm3sock.so");
        assert!(extended(&[b'a'; VARIABLE_BYTES]).is_none(), "too long");
    }

    #[test]
    fn the_library_leaves_others_in_the_list() {
        for (list, left) in [
            ("/m3.so", ""),
            ("/a.so:/m3.so", "/a.so"),
            ("/m3.so /a.so", "/a.so"),
            ("/a.so:/m3.so b.so::/m3.so", "/a.so:b.so"),
            ("/a.so:/x/m3.so:m3.so", "/a.so:/x/m3.so"),
            ("", ""),
        ] {
            let mut list = list.as_bytes().to_vec();
            let kept = take_out_of(&mut list, b"/m3.so");
            assert_eq!(&list[..kept], left.as_bytes());
        }
    }

    #[test]
    fn a_variable_keeps_room_for_its_end() {
        let value = [b'v'; VARIABLE_BYTES - 2];
        assert!(Variable::new(&[b"N=", &value]).is_none());
        let variable = Variable::new(&[b"N=", &value[1..]]).unwrap();
        assert_eq!(variable.as_c_str().count_bytes(), VARIABLE_BYTES - 1);
    }
}
