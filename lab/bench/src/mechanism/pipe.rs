//! Two anonymous pipes.

use rustix::pipe::{PipeFlags, pipe_with};

use super::bytes::Bytes;
use super::{Inherited, Mechanism, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::peer::Run;

/// pipe(2), one per direction.
pub struct Pipe;

impl Mechanism for Pipe {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        let (request_out, request_in) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe"))?;
        let (answer_out, answer_in) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe"))?;
        Ok(Transport {
            client: vec![answer_out, request_in],
            server: vec![request_out, answer_in],
            ..Transport::default()
        })
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Bytes::pair(inherited, run)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Bytes::pair(inherited, run)?)
    }
}
