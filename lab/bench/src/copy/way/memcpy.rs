//! memcpy within one process: the floor of every copy, measured as bw_mem of lmbench does it.

use std::hint::black_box;

use super::{Opened, Requester, Way, drive};
use crate::copy::buffer::{self, Buffer};
use crate::copy::{Kind, Shape};
use crate::error::Error;
use crate::job::{Report, Side, Wait};
use crate::mechanism::{Family, Inherited, Site};
use crate::peer::Run;

/// One block over another, again and again.
pub struct Memcpy;

impl Way for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn wait(&self) -> Wait {
        Wait::Spin
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Copy1, Kind::Copy2]
    }

    fn is_between_processes(&self) -> bool {
        false
    }

    fn open(&self, _: &Site, _: &Shape) -> Result<Opened, Error> {
        let nothing = Inherited { fds: vec![], names: vec![] };
        Ok(Opened { sides: vec![(Side::Client, nothing)], ..Opened::default() })
    }

    fn requester(&self, _: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let mut from = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(from.bytes_mut());
        let to = Buffer::new(shape.bytes, shape.destination_skew())?;
        drive(run, Both { from, to })
    }

    fn destination(&self, _: Inherited, _: &Run, _: &Shape) -> Result<Report, Error> {
        Err(Error::Usage("memcpy has one process only".into()))
    }

    fn source(&self, _: Inherited, _: &Run, _: &Shape) -> Result<Report, Error> {
        Err(Error::Usage("memcpy has one process only".into()))
    }
}

struct Both {
    from: Buffer,
    to: Buffer,
}

impl Requester for Both {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        buffer::stamp(self.from.bytes_mut(), trip);
        self.to.bytes_mut().copy_from_slice(black_box(self.from.bytes()));
        black_box(self.to.bytes());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        buffer::fill_last(self.from.bytes_mut());
        self.to.bytes_mut().copy_from_slice(self.from.bytes());
        buffer::check_last(self.to.bytes())
    }
}
