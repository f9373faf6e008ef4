//! Other libraries, measured through a driver program that is built apart: `m3-peers`.
//!
//! ```text
//! m3 bench --with zeromq ──> m3-peers --list         its libraries, versions, missing parts
//!                        ├─> m3-peers __peer JOB     both sides of each measurement
//!                        └─> m3-peers --tidy         removes what killed processes left behind
//! ```
//! The driver is built on this crate, so the same loops keep time and check payloads.

use std::path::{Path, PathBuf};
use std::process::Command;

use m3ipc_report::schema::{Family, Wait};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::job::{Load, Report};
use crate::payload::MESSAGE_BYTES;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::unique;

/// The driver's name.
const DRIVER: &str = "m3-peers";
/// The variable that names the driver's path.
const VARIABLE: &str = "M3_PEERS";
/// The driver answers this argument with a list of [`Offer`]s.
pub const LIST_ARGUMENT: &str = "--list";
/// The driver answers this argument with the removal of objects that its libraries left behind.
pub const TIDY_ARGUMENT: &str = "--tidy";
const BUILD: &str = "cargo build --release --manifest-path lab/peers/Cargo.toml builds it \
                     (lab/peers/README.md); put m3-peers beside m3, on PATH, or name it with \
                     M3_PEERS";

/// The known libraries.
pub const LIBRARIES: [&str; 9] =
    ["iceoryx2", "zeromq", "nng", "ipc-channel", "grpc", "dbus", "zenoh", "tachyon", "shmem-ipc"];

/// A driver's answer about one library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The library, one of [`LIBRARIES`].
    pub library: String,
    /// Its version.
    pub version: String,
    /// Its mechanisms; none without the library.
    pub mechanisms: Vec<Offered>,
    /// The reason for a missing library.
    pub missing: Option<String>,
}

/// One mechanism of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Its name in tables and JSON.
    pub name: String,
    /// Its wait modes.
    pub waits: Vec<Wait>,
    /// Whether a client gets an error when its server dies.
    pub tells_death: bool,
}

/// The requested libraries.
#[derive(Default)]
pub struct Found {
    /// Their subjects.
    pub subjects: Vec<&'static dyn Subject>,
    /// Names and versions.
    pub versions: Vec<(String, String)>,
    /// Missing libraries, with the reason.
    pub skipped: Vec<String>,
}

/// Asks the driver for these libraries.
///
/// # Errors
/// A library is unknown.
pub fn find(asked: &[String]) -> Result<Found, Error> {
    let mut found = Found::default();
    if let Some(unknown) = asked.iter().find(|name| !LIBRARIES.contains(&name.as_str())) {
        let known = LIBRARIES.join(", ");
        return Err(Error::Usage(format!("--with knows no library {unknown:?}; it knows {known}")));
    }
    if asked.is_empty() {
        return Ok(found);
    }
    let skip = |why: String| asked.iter().map(|name| format!("{name}: {why}")).collect();
    let Some(driver) = program(DRIVER, VARIABLE) else {
        found.skipped = skip(format!("there is no program {DRIVER}; {BUILD}"));
        return Ok(found);
    };
    let path = driver.display();
    let offers = match list(&driver) {
        Ok(offers) => offers,
        Err(error) => {
            found.skipped = skip(format!("{path} does not list its libraries: {error}; {BUILD}"));
            return Ok(found);
        }
    };
    for name in asked {
        match offers.iter().find(|offer| offer.library == *name) {
            Some(Offer { missing: None, mechanisms, version, .. }) => {
                found.versions.push((name.clone(), version.clone()));
                found.subjects.extend(mechanisms.iter().map(|offered| leak(offered, &driver)));
            }
            Some(Offer { missing: Some(why), .. }) => found.skipped.push(format!("{name}: {why}")),
            None => found.skipped.push(format!("{name}: {path} was built without it; {BUILD}")),
        }
    }
    Ok(found)
}

/// A program that is built apart: where the variable points, beside this program, or on PATH.
pub(crate) fn program(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
        return Some(named.into()).filter(|path: &PathBuf| path.is_file());
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = beside.into_iter().chain(std::env::split_paths(&path));
    directories.map(|directory| directory.join(name)).find(|path| path.is_file())
}

fn list(driver: &Path) -> Result<Vec<Offer>, Error> {
    let output = Command::new(driver).arg(LIST_ARGUMENT).output();
    let output = output.map_err(Error::os("start the driver"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::json("the driver's list"))
}

/// A subject lives as long as the program; there are a handful.
fn leak(offered: &Offered, exe: &Path) -> &'static dyn Subject {
    let name: &'static str = Box::leak(offered.name.clone().into_boxed_str());
    let waits: &'static [Wait] = Box::leak(offered.waits.clone().into_boxed_slice());
    Box::leak(Box::new(Outside { name, waits, tells_death: offered.tells_death, exe: exe.into() }))
}

/// A mechanism of a driver.
struct Outside {
    name: &'static str,
    waits: &'static [Wait],
    tells_death: bool,
    exe: PathBuf,
}

impl Subject for Outside {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Peer
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        if load.test.is_ipc2() { self.waits } else { &[] }
    }

    fn bytes(&self, _: &Load) -> usize {
        MESSAGE_BYTES
    }

    fn tells_death(&self) -> bool {
        self.tells_death
    }

    fn exe(&self) -> Option<&Path> {
        Some(&self.exe)
    }

    fn tidy(&self) {
        // Objects that the library cannot remove stay, as they would for any user of it.
        let _ = Command::new(&self.exe).arg(TIDY_ARGUMENT).status();
        let mark = format!("m3-bench-{}-", std::process::id());
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&mark) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Both sides meet under a name of their own.
    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        Opened::pairs(load.count(), || {
            let names = vec![format!("m3-bench-{}-{}", std::process::id(), unique::number())];
            Ok((Inherited::names(names.clone()), Inherited::names(names)))
        })
    }

    fn run(&self, _: &Run, _: Inherited) -> Result<Report, Error> {
        Err(Error::Usage(format!("{} is a mechanism of {DRIVER}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_library_is_refused_and_no_library_is_no_work() {
        assert!(matches!(find(&["carrier-pigeon".into()]), Err(Error::Usage(_))));
        let found = find(&[]).expect("nothing is asked for");
        assert!(found.subjects.is_empty() && found.skipped.is_empty());
    }
}
