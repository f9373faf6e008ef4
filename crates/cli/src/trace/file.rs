//! Files for other tools. The extension of the name determines the format.

use super::event::TracedMessage;
use super::names::EndpointNames;
use super::pcapng::Pcapng;
use super::perfetto::Perfetto;
use crate::error::{CliError, Result};
use m3ipc::trace::StampScale;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// The writer of a format.
#[derive(Debug)]
enum FormatWriter {
    Perfetto(Perfetto<BufWriter<File>>),
    Pcapng(Pcapng<BufWriter<File>>),
}

/// An open trace file, with its path for error messages.
#[derive(Debug)]
pub struct TraceFile {
    writer: FormatWriter,
    path: PathBuf,
}

impl TraceFile {
    /// Creates a file: `.pcapng` for Wireshark, `.json` for Perfetto.
    pub fn create(path: &Path, vm: i32, epoch_ns: u64) -> Result<Self> {
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !matches!(extension, "json" | "pcapng") {
            let what = format!(
                "{} has neither the extension .json (Perfetto) nor .pcapng (Wireshark)",
                path.display()
            );
            return Err(CliError::usage(what).advice("name the file calls.json or calls.pcapng"));
        }
        let created = File::create(path).map(BufWriter::new).and_then(|file| match extension {
            "json" => Perfetto::create(file).map(FormatWriter::Perfetto),
            _ => Pcapng::create(file, vm, epoch_ns).map(FormatWriter::Pcapng),
        });
        match created {
            Ok(writer) => Ok(Self { writer, path: path.to_owned() }),
            Err(cause) => Err(failed(path, cause)),
        }
    }

    /// Writes a message.
    pub fn write(
        &mut self,
        message: &TracedMessage,
        names: &EndpointNames,
        scale: &StampScale,
    ) -> Result<()> {
        let written = match &mut self.writer {
            FormatWriter::Perfetto(file) => file.write(message, names, scale),
            FormatWriter::Pcapng(file) => file.write(message, names, scale),
        };
        written.map_err(|cause| failed(&self.path, cause))
    }

    /// Completes the file.
    pub fn finish(self) -> Result<()> {
        let finished = match self.writer {
            FormatWriter::Perfetto(file) => file.finish(),
            FormatWriter::Pcapng(file) => file.finish(),
        };
        finished.map_err(|cause| failed(&self.path, cause))
    }
}

fn failed(path: &Path, cause: io::Error) -> CliError {
    CliError::system(format!("cannot write {}", path.display()), cause)
        .advice("name a file in a writable directory with --out")
}
