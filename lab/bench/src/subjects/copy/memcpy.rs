//! memcpy within one process: the floor of every copy, measured as bw_mem of lmbench does it.

use std::hint::black_box;

use m3ipc_report::schema::{Family, Wait};

use super::block::{self, PrivateBlock};
use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::payload::Message;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};

/// One block over another, again and again.
pub struct Memcpy;

impl Subject for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        if load.test == Test::Stream { &[] } else { &[Wait::Spin] }
    }

    fn open(&self, _: &Site, _: &Load) -> Result<Opened, Error> {
        Ok(Opened::alone(Inherited::default()))
    }

    fn run(&self, run: &Run, _: Inherited) -> Result<Report, Error> {
        let skew = block::skews(run.load().test);
        let mut from = PrivateBlock::new(run.load().bytes, skew.0)?;
        block::fill(from.bytes_mut());
        run.drive(Both { from, to: PrivateBlock::new(run.load().bytes, skew.1)? })
    }
}

struct Both {
    from: PrivateBlock,
    to: PrivateBlock,
}

impl ClientEnd for Both {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        block::stamp(self.from.bytes_mut(), request.number());
        self.to.bytes_mut().copy_from_slice(black_box(self.from.bytes()));
        black_box(self.to.bytes());
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Error> {
        block::fill_last(self.from.bytes_mut());
        self.to.bytes_mut().copy_from_slice(self.from.bytes());
        block::check_last(self.to.bytes())
    }
}
