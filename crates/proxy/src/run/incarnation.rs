//! The incarnation of a proxy: a number above that of each earlier life of its node.
//!
//! ```text
//! | starts: 44 bits, in the file NODE.lives | lives of this process: 20 bits |
//! ```
//! The file has the number of the last start. A start adds one and writes the file before the first
//! greeting leaves. So a clock that was set back does not matter. Only a start that finds no file
//! asks the clock: the seconds since 1970 are above every count of starts.
//!
//! Limit: a file that was lost while the clock was set back gives a number that the other nodes
//! refuse, by name.

use super::config::{Config, ConfigError};
use m3ipc_fabric::Incarnation;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The bits of the number that count the lives of one process.
const LIFE_BITS: u32 = 20;

/// The numbers of the lives of this process.
#[derive(Debug)]
pub struct Lives {
    next: u64,
}

impl Lives {
    /// Counts a start of the proxy of this node.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds no number.
    pub fn begin(config: &Config) -> Result<Self, ConfigError> {
        let path = config.state.join(format!("{}.lives", config.name));
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = next_start(&path, seconds.as_secs());
        let start = start.map_err(|source| ConfigError::Lives { path, source })?;
        Ok(Self { next: start << LIFE_BITS })
    }

    /// The number of the next life.
    pub fn next(&mut self) -> Incarnation {
        self.next += 1;
        Incarnation(self.next)
    }
}

/// Adds one to the number in a file. A file that is absent begins with `first`.
fn next_start(path: &Path, first: u64) -> io::Result<u64> {
    let start = match fs::read_to_string(path) {
        Ok(text) => {
            let last: u64 = text.trim().parse().map_err(|_| ErrorKind::InvalidData)?;
            last.checked_add(1).filter(|it| it >> (64 - LIFE_BITS) == 0)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Some(first.max(1)),
        Err(error) => return Err(error),
    };
    let start = start.ok_or(ErrorKind::InvalidData)?;
    let new = PathBuf::from(format!("{}.new", path.display()));
    let mut file = File::create(&new)?;
    writeln!(file, "{start}")?;
    // A number that greeted others must not come again, also after a loss of power.
    file.sync_all()?;
    fs::rename(&new, path)?;
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_does_not_matter() {
        let name = format!("m3-proxy-lives-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        let clocks = [1_700_000_000, 1_700_000_005, 5, 0, u64::MAX];
        let starts = clocks.map(|clock| next_start(&path, clock).expect("a number"));
        assert!(starts.is_sorted_by(|one, other| one < other), "{starts:?}");
        fs::write(&path, "many").expect("a test may write there");
        assert!(next_start(&path, 1).is_err());
        let _ = fs::remove_file(&path);
        assert!(next_start(Path::new("/proc/none"), 1).is_err());
    }
}
