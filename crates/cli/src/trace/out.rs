//! Files for other tools, by what their names end with.

use super::Seen;
use super::names::Names;
use super::pcapng::Pcapng;
use super::perfetto::Perfetto;
use crate::fail::{Fail, Result};
use m3ipc::trace::StampScale;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A file that is being written.
#[derive(Debug)]
enum Format {
    Perfetto(Perfetto<BufWriter<File>>),
    Pcapng(Pcapng<BufWriter<File>>),
}

/// A file, and its name for who is told of a failure.
#[derive(Debug)]
pub struct OutFile {
    format: Format,
    path: PathBuf,
}

impl OutFile {
    /// Begins a file: `.pcapng` for Wireshark, `.json` for Perfetto.
    pub fn begin(path: &Path, vm: i32, epoch_ns: u64) -> Result<Self> {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if !matches!(kind, "json" | "pcapng") {
            let what = format!(
                "{} ends in neither .json (Perfetto) nor .pcapng (Wireshark)",
                path.display()
            );
            return Err(Fail::usage(what));
        }
        let begun = File::create(path).map(BufWriter::new).and_then(|file| match kind {
            "json" => Perfetto::begin(file).map(Format::Perfetto),
            _ => Pcapng::begin(file, vm, epoch_ns).map(Format::Pcapng),
        });
        match begun {
            Ok(format) => Ok(Self { format, path: path.to_owned() }),
            Err(cause) => Err(failed(path, cause)),
        }
    }

    /// Writes a message.
    pub fn write(&mut self, seen: &Seen, names: &Names, scale: &StampScale) -> Result<()> {
        let written = match &mut self.format {
            Format::Perfetto(file) => file.write(seen, names, scale),
            Format::Pcapng(file) => file.write(seen, names, scale),
        };
        written.map_err(|cause| failed(&self.path, cause))
    }

    /// Ends it.
    pub fn end(self) -> Result<()> {
        let ended = match self.format {
            Format::Perfetto(file) => file.end(),
            Format::Pcapng(file) => file.end(),
        };
        ended.map_err(|cause| failed(&self.path, cause))
    }
}

fn failed(path: &Path, cause: io::Error) -> Fail {
    Fail::system(format!("cannot write {}", path.display()), cause)
}
