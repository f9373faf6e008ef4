//! A pair of programs that `m3 sock check` compares.

use super::measurement::{self, Measurement};
use crate::sock::executable;
use std::ffi::OsStr;

/// The condition under which a client may connect.
#[derive(Clone, Copy, Debug)]
pub enum Readiness {
    /// The port of the server accepts a connection.
    PortAccepts,
    /// A short time has passed: the server accepts one connection, which must be the client's.
    FixedDelay,
}

/// A command line with the placeholders of [`Case`].
#[derive(Clone, Copy, Debug)]
pub enum CommandLine {
    /// Words between spaces; `''` is an empty word.
    Words(&'static str),
    /// A script of sh(1).
    Script(&'static str),
}

impl CommandLine {
    /// The program and its arguments.
    pub fn words(self) -> Vec<&'static str> {
        let word = |word| if word == "''" { "" } else { word };
        match self {
            Self::Words(words) => words.split(' ').map(word).collect(),
            Self::Script(script) => vec!["sh", "-c", script],
        }
    }

    /// The name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Words(words) => words.split(' ').next().unwrap_or_default(),
            Self::Script(_) => "sh",
        }
    }
}

/// A pair of server and client.
///
/// Placeholders of command lines and files: `{dir}` is the directory of the run, `{port}` and
/// `{port2}` are free ports, `{seconds}` is the duration of the client's measurement.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    /// The Debian packages of the programs.
    pub package: &'static str,
    /// The unit of the throughput.
    pub unit: &'static str,
    /// Names and contents of files in the directory.
    pub files: &'static [(&'static str, &'static str)],
    /// Commands that prepare the directory, with the kernel's sockets.
    pub setup: &'static [CommandLine],
    pub servers: &'static [CommandLine],
    pub readiness: Readiness,
    pub client: CommandLine,
    /// Reads the measurement from the output of the client.
    pub read: fn(&str) -> Option<Measurement>,
    /// Whether the server refuses to run as root.
    pub refuses_root: bool,
}

/// The defaults of a case.
pub const DEFAULT: Case = Case {
    name: "",
    package: "",
    unit: "req",
    files: &[],
    setup: &[],
    servers: &[],
    readiness: Readiness::PortAccepts,
    client: CommandLine::Words(""),
    read: measurement::checked_transfer,
    refuses_root: false,
};

impl Case {
    /// Names of the programs that are compared.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.servers.iter().chain([&self.client]).map(|command| command.program())
    }

    /// Names of the programs that are not installed.
    pub fn missing(&self) -> Vec<&'static str> {
        let setup = self.setup.iter().map(|command| command.program());
        let is_missing = |program: &&str| executable::find(OsStr::new(program)).is_err();
        let mut missing: Vec<&str> = setup.chain(self.programs()).filter(is_missing).collect();
        missing.dedup();
        missing
    }
}
