//! The trait of everything that is measured.
//!
//! A subject opens its transport in the supervisor. The measured processes are the same binary,
//! executed again. They inherit descriptors or get names, and each runs one role. The loops that
//! keep time and check payloads are in [`crate::run`], generic over the traits of
//! [`crate::ends`], so that a round trip has no indirect call.

use std::any::Any;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use m3ipc_report::schema::{Family, Placement, Wait};

use crate::error::Error;
use crate::job::{Load, Report, Role};
use crate::measured::Measured;
use crate::run::Run;

/// The binary of the measured processes.
#[derive(Clone, Debug)]
pub struct Site {
    /// A binary whose `main` begins with [`crate::peer::if_asked`].
    pub exe: PathBuf,
}

/// The part of a transport that one process gets.
#[derive(Default)]
pub struct Inherited {
    /// Descriptors, in order.
    pub fds: Vec<OwnedFd>,
    /// Names in place of descriptors.
    pub names: Vec<String>,
}

impl Inherited {
    /// Descriptors alone.
    #[must_use]
    pub const fn fds(fds: Vec<OwnedFd>) -> Self {
        Self { fds, names: vec![] }
    }

    /// Names alone.
    #[must_use]
    pub const fn names(names: Vec<String>) -> Self {
        Self { fds: vec![], names }
    }

    /// The next descriptor.
    ///
    /// # Errors
    /// The supervisor passed fewer.
    pub fn take(&mut self) -> Result<OwnedFd, Error> {
        if self.fds.is_empty() {
            return Err(Error::Usage("the supervisor passed too few descriptors".into()));
        }
        Ok(self.fds.remove(0))
    }

    /// The first name.
    ///
    /// # Errors
    /// The supervisor passed none.
    pub fn name(&self) -> Result<&str, Error> {
        let name = self.names.first().map(String::as_str);
        name.ok_or_else(|| Error::Usage("the supervisor passed no name".into()))
    }
}

/// One process of a measurement.
pub struct Party {
    /// Its part.
    pub role: Role,
    /// Its part of the transport.
    pub inherited: Inherited,
    /// Processes of a later stage start when those of earlier stages run.
    pub stage: u32,
}

/// Adds figures that only the subject knows.
pub type Finish = Box<dyn FnOnce(&[&Report], &mut Measured) -> Result<(), Error>>;

/// An open transport.
#[derive(Default)]
pub struct Opened {
    /// The processes, in the order of their start. Clients come last.
    pub parties: Vec<Party>,
    /// Objects that live as long as the measurement.
    pub keep: Vec<Box<dyn Any>>,
    /// Environment variables of all processes.
    pub environment: Vec<(OsString, OsString)>,
    /// Adds figures at the end, from the reports in the order of `parties`.
    pub finish: Option<Finish>,
}

impl Opened {
    /// One process.
    #[must_use]
    pub fn alone(inherited: Inherited) -> Self {
        Self::default().with(Role::Client, inherited)
    }

    /// One server and one client.
    #[must_use]
    pub fn pair(client: Inherited, server: Inherited) -> Self {
        Self::default().with(Role::Server, server).with(Role::Client, client)
    }

    /// Pairs of client and server; all servers start before all clients.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn pairs(
        number: usize,
        mut open: impl FnMut() -> Result<(Inherited, Inherited), Error>,
    ) -> Result<Self, Error> {
        let (mut opened, mut clients) = (Self::default(), vec![]);
        for _ in 0..number {
            let (client, server) = open()?;
            opened = opened.with(Role::Server, server);
            clients.push(client);
        }
        Ok(clients.into_iter().fold(opened, |opened, it| opened.with(Role::Client, it)))
    }

    /// A further process in the stage of the last one.
    #[must_use]
    pub fn with(self, role: Role, inherited: Inherited) -> Self {
        let stage = self.parties.last().map_or(0, |party| party.stage);
        self.with_in(stage, role, inherited)
    }

    /// A further process in a stage of its own.
    #[must_use]
    pub fn then(self, role: Role, inherited: Inherited) -> Self {
        let stage = self.parties.last().map_or(0, |party| party.stage + 1);
        self.with_in(stage, role, inherited)
    }

    fn with_in(mut self, stage: u32, role: Role, inherited: Inherited) -> Self {
        self.parties.push(Party { role, inherited, stage });
        self
    }

    /// Keeps an object until the end of the measurement.
    #[must_use]
    pub fn keeping(mut self, object: impl Any) -> Self {
        self.keep.push(Box::new(object));
        self
    }
}

/// Removes objects that outlive the supervisor.
pub type Cleanup = Box<dyn FnOnce() -> Result<(), Error>>;

/// Something that is measured.
pub trait Subject: Sync {
    /// Its name in tables and JSON.
    fn name(&self) -> &'static str;

    /// What it stands for.
    fn family(&self) -> Family {
        Family::Kernel
    }

    /// The wait modes in which it does this work; none where it takes no part.
    fn waits(&self, load: &Load) -> &'static [Wait];

    /// Its payload for this work, in bytes.
    fn bytes(&self, load: &Load) -> usize {
        load.bytes
    }

    /// The placement of its processes; a single process has none to choose.
    fn placement(&self, wanted: Placement) -> Placement {
        wanted
    }

    /// Whether a client gets an error when its server dies.
    fn tells_death(&self) -> bool {
        false
    }

    /// Opens the transport of one measurement.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where this machine does not offer it.
    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error>;

    /// Runs one role in a measured process.
    ///
    /// # Errors
    /// The transport fails or a payload is wrong.
    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error>;

    /// The binary of its processes, if it is another one.
    fn exe(&self) -> Option<&Path> {
        None
    }

    /// Removes objects that its killed processes have left behind.
    fn tidy(&self) {}

    /// Prepares the objects that outlive a killed supervisor; the result removes them.
    ///
    /// It runs in a guard process, which ends after the supervisor.
    ///
    /// # Errors
    /// The objects cannot be prepared.
    fn guard(&self, _names: &[String]) -> Result<Cleanup, Error> {
        Ok(Box::new(|| Ok(())))
    }
}
