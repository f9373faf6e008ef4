//! What areas are measured beside, and areas themselves, behind one trait.

mod file;
pub mod pool;

use super::{Shape, Test};
use crate::copy::way::Opened;
use crate::error::Error;
use crate::job::{Report, Wait};
use crate::mechanism::{Family, Inherited, Site};
use crate::ours::areas;
use crate::peer::Run;

/// Something that has memory to map, to take, or to hand over.
pub trait Way: Sync {
    /// Its name in tables and JSON.
    fn name(&self) -> &'static str;

    /// What it stands for.
    fn family(&self) -> Family {
        Family::Kernel
    }

    /// How its sides wait.
    fn wait(&self) -> Wait {
        Wait::Spin
    }

    /// What can be measured of it.
    fn test(&self) -> Test;

    /// Opens what one measurement needs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where this machine does not offer it.
    fn open(&self, site: &Site, shape: &Shape) -> Result<Opened, Error>;

    /// Is the side that keeps the time.
    ///
    /// # Errors
    /// Where a call fails.
    fn client(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error>;

    /// Is the other side, where there is one.
    ///
    /// # Errors
    /// Where a call fails.
    fn server(&self, _: Inherited, _: &Run, _: &Shape) -> Result<Report, Error> {
        Err(Error::Usage(format!("{} has one process only", self.name())))
    }
}

/// All that is measured.
#[must_use]
pub fn all() -> Vec<&'static dyn Way> {
    let mut all: Vec<&'static dyn Way> = areas::ALL.to_vec();
    all.extend(file::ALL.iter().map(|way| way as &dyn Way));
    all.extend([&pool::Private as &dyn Way, &pool::Malloc]);
    all
}

/// The one of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Way> {
    all().into_iter().find(|way| way.name() == name)
}
