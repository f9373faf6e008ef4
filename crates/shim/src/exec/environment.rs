//! The environment of the next program: it must name this library and its settings.
//!
//! A program may clear its environment, or pass another one to exec. The constructor therefore
//! keeps the variables of the library. [`additions`] says which of them an environment lacks.

use crate::policy::{COUNTERS_VARIABLE, DIRECTORY_VARIABLE, RUNTIME_VARIABLE, VARIABLE};
use crate::process::policy;
use core::ffi::CStr;
use std::sync::OnceLock;

/// The variables of the library; the first is the list of preloaded libraries.
pub const NAMES: [&str; 4] = ["LD_PRELOAD", VARIABLE, COUNTERS_VARIABLE, DIRECTORY_VARIABLE];
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

static KEPT: [OnceLock<Variable>; 4] = [const { OnceLock::new() }; 4];
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

/// What an environment lacks.
#[derive(Debug)]
pub struct Additions {
    /// The list of preloaded libraries, in place of the environment's own.
    preload: Preload,
    /// The other variables that are missing.
    missing: [bool; 4],
}

#[allow(clippy::large_enum_variant, reason = "lives on the stack of one exec, without allocation")]
#[derive(Debug)]
enum Preload {
    /// The list that this process had.
    Kept,
    /// The environment's list with this library at its end.
    Extended(Variable),
}

impl Additions {
    /// The variables to add.
    pub fn variables(&self) -> impl Iterator<Item = &CStr> {
        let preload = match &self.preload {
            Preload::Kept => KEPT[0].get(),
            Preload::Extended(variable) => Some(variable),
        };
        let missing = KEPT.iter().zip(self.missing).filter(|(_kept, missing)| *missing);
        preload
            .into_iter()
            .chain(missing.filter_map(|(kept, _)| kept.get()))
            .map(Variable::as_c_str)
    }
}

/// The variables that an environment lacks; `None` where it names the library already, or nothing
/// can be added. `find` gives the value of a variable. Other preloaded libraries stay first.
#[must_use]
pub fn additions<'a>(find: impl Fn(&str) -> Option<&'a CStr>) -> Option<Additions> {
    let own = OWN_PATH.get()?.to_bytes();
    if !policy::is_on() {
        return None;
    }
    KEPT[0].get()?;
    let list = find(NAMES[0]).map_or(&[][..], CStr::to_bytes);
    let preload = extend(list, own)?;
    let missing = core::array::from_fn(|at| at > 0 && find(NAMES[at]).is_none());
    Some(Additions { preload, missing })
}

/// The list of preloaded libraries with `own` in it; `None` where the list names it already, or
/// would be too long.
fn extend(list: &[u8], own: &[u8]) -> Option<Preload> {
    let file = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let base = &own[file(own)..];
    let is_own = |path: &[u8]| path == own || &path[file(path)..] == base;
    if list.split(|byte| matches!(byte, b':' | b' ')).any(is_own) {
        return None;
    }
    if list.is_empty() {
        return Some(Preload::Kept);
    }
    Variable::new(&[b"LD_PRELOAD=", list, b":", own]).map(Preload::Extended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(list: &[u8]) -> Option<Vec<u8>> {
        match extend(list, b"/usr/lib/libm3sock.so")? {
            Preload::Kept => Some(Vec::new()),
            Preload::Extended(variable) => Some(variable.as_c_str().to_bytes().to_vec()),
        }
    }

    #[test]
    fn the_library_goes_behind_others() {
        assert_eq!(extended(b""), Some(Vec::new()));
        let list = extended(b"/a.so").unwrap();
        assert_eq!(list, b"LD_PRELOAD=/a.so:/usr/lib/libm3sock.so");
        assert!(extended(b"/a.so /usr/lib/libm3sock.so").is_none());
        assert!(extended(b"/elsewhere/libm3sock.so:/a.so").is_none(), "the same file elsewhere");
        assert!(extended(&[b'a'; VARIABLE_BYTES]).is_none(), "too long");
    }

    #[test]
    fn a_variable_keeps_room_for_its_end() {
        let value = [b'v'; VARIABLE_BYTES - 2];
        assert!(Variable::new(&[b"N=", &value]).is_none());
        let variable = Variable::new(&[b"N=", &value[1..]]).unwrap();
        assert_eq!(variable.as_c_str().count_bytes(), VARIABLE_BYTES - 1);
    }
}
