//! Libraries of others, measured by a driver program that is built apart: `m3-peers`.
//!
//! ```text
//! m3 bench --with zeromq ──> m3-peers --list         what it has, which versions, what is missing
//!                        ├─> m3-peers __peer JOB     both sides of each measurement, with the same loops
//!                        └─> m3-peers --tidy         removes what killed processes left behind
//! ```
//! The driver is built on this crate, so time is kept and payloads are checked by the same lines as everywhere.
//! What a library cannot do here is skipped and named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use super::{Family, Inherited, Mechanism, Site, Transport};
use crate::error::Error;
use crate::job::{Report, Wait, Work};
use crate::peer::Run;

/// The driver's name.
const DRIVER: &str = "m3-peers";
/// Where it is, if not beside this program nor on PATH.
const NAMED: &str = "M3_PEERS";
/// What the driver answers with [`Offer`]s to, as a list.
pub const LIST_ARGUMENT: &str = "--list";
/// What makes the driver remove what its libraries left behind when they were killed for a measurement.
pub const TIDY_ARGUMENT: &str = "--tidy";
/// How to get it.
const BUILD: &str = "cargo build --release --manifest-path lab/peers/Cargo.toml builds it (lab/peers/README.md); put \
                     m3-peers beside m3, on PATH, or name it with M3_PEERS";

/// The libraries that can be asked for.
pub const LIBRARIES: [&str; 5] = ["iceoryx2", "zeromq", "nng", "ipc-channel", "zenoh"];

/// What a driver has of one library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The library, one of [`LIBRARIES`].
    pub library: String,
    /// Its version.
    pub version: String,
    /// Its mechanisms; none where the library is missing.
    pub mechanisms: Vec<Offered>,
    /// Why there is none.
    pub missing: Option<String>,
}

/// One mechanism of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Its name in tables and JSON.
    pub name: String,
    /// How its sides can wait.
    pub waits: Vec<Wait>,
    /// Whether a client is told that its server has died.
    pub tells_death: bool,
}

/// The libraries that were asked for: mechanisms, versions, and what is skipped and why.
#[derive(Default)]
pub struct Found {
    /// Their mechanisms.
    pub mechanisms: Vec<&'static dyn Mechanism>,
    /// Names and versions.
    pub versions: Vec<(String, String)>,
    /// What there is none of, with the reason.
    pub skipped: Vec<String>,
}

/// Looks for these libraries in the driver.
///
/// # Errors
/// Where one is asked for that nobody knows.
pub fn find(asked: &[String]) -> Result<Found, Error> {
    let mut found = Found::default();
    if let Some(unknown) = asked.iter().find(|name| !LIBRARIES.contains(&name.as_str())) {
        let known = LIBRARIES.join(", ");
        return Err(Error::Usage(format!("--with knows no library {unknown:?}; it knows {known}")));
    }
    if asked.is_empty() {
        return Ok(found);
    }
    let skip = |why: String| asked.iter().map(|name| format!("{name}: {why}")).collect::<Vec<_>>();
    let Some(driver) = driver() else {
        found.skipped = skip(format!("there is no program {DRIVER}; {BUILD}"));
        return Ok(found);
    };
    let offers = match list(&driver) {
        Ok(offers) => offers,
        Err(error) => {
            found.skipped =
                skip(format!("{} does not say what it has: {error}; {BUILD}", driver.display()));
            return Ok(found);
        }
    };
    for name in asked {
        match offers.iter().find(|offer| offer.library == *name) {
            Some(Offer { missing: None, mechanisms, version, .. }) => {
                found.versions.push((name.clone(), version.clone()));
                found.mechanisms.extend(mechanisms.iter().map(|offered| leak(offered, &driver)));
            }
            Some(Offer { missing: Some(why), .. }) => found.skipped.push(format!("{name}: {why}")),
            None => found
                .skipped
                .push(format!("{name}: {} was built without it; {BUILD}", driver.display())),
        }
    }
    Ok(found)
}

fn driver() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(NAMED).filter(|named| !named.is_empty()) {
        return Some(named.into()).filter(|path: &PathBuf| path.is_file());
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|place| place.join(DRIVER))
        .find(|p| p.is_file())
}

fn list(driver: &Path) -> Result<Vec<Offer>, Error> {
    let output =
        Command::new(driver).arg(LIST_ARGUMENT).output().map_err(Error::os("start the driver"))?;
    serde_json::from_slice(&output.stdout).map_err(Error::json("the driver's list"))
}

/// A mechanism lives as long as the program, like those that are written in it; there are a handful.
fn leak(offered: &Offered, exe: &Path) -> &'static dyn Mechanism {
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

impl Mechanism for Outside {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Peer
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Ipc2]
    }

    fn waits(&self) -> &'static [Wait] {
        self.waits
    }

    fn tells_death(&self) -> bool {
        self.tells_death
    }

    fn exe(&self) -> Option<&Path> {
        Some(&self.exe)
    }

    fn tidy(&self) {
        // What cannot be removed stays, as it would for any user of the library.
        let _ = Command::new(&self.exe).arg(TIDY_ARGUMENT).status();
        let mark = format!("m3-bench-{}-", std::process::id());
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&mark) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// A name that no other pair has: what its sides meet under.
    fn open(&self, _: &Site) -> Result<Transport, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let names = vec![format!("m3-bench-{}-{number}", std::process::id())];
        Ok(Transport { names, ..Transport::default() })
    }

    fn client(&self, _: Inherited, _: &Run) -> Result<Report, Error> {
        Err(Error::Usage(format!("{} is a mechanism of {DRIVER}", self.name)))
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        self.client(inherited, run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_refused_and_what_is_missing_is_skipped_by_name() {
        assert!(matches!(find(&["carrier-pigeon".into()]), Err(Error::Usage(_))));
        assert!(
            find(&[]).is_ok_and(|found| found.mechanisms.is_empty() && found.skipped.is_empty())
        );
    }
}
