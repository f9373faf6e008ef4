//! Both halves of IPC2 in one process, in turn: nothing ever waits, so the
//! instructions of a trip can be counted.
//!
//! The client's half is a request begun and its answer taken, which is what
//! sendrec does around its wait.

use std::sync::mpsc::channel;

use m3ipc::Source;

use super::m3ipc::{Place, inward, outward, told};
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::peer::Run;

/// So many trips.
pub fn trips(place: &Place, run: &Run, trips: u64) -> Result<Report, Error> {
    let mut server = place.vm.bind_any().map_err(told("bind"))?;
    // A process has one endpoint for each thread: the client's belongs to one that sleeps.
    let (say, hear) = channel();
    let vm = place.vm.clone();
    std::thread::spawn(move || {
        let _ = say.send(vm.bind_thread(None));
        loop {
            std::thread::park();
        }
    });
    let mut client = hear.recv().map_err(|_| Error::PeerGone)?.map_err(told("bind a thread"))?;
    run.at_the_start()?;
    let to = server.address();
    let mut answer = Message::default();
    for trip in 0..trips {
        let request = Message::request(trip);
        let mut pending = client.begin_request(to, &outward(&request)).map_err(told("request"))?;
        let taken = server.receive(Source::Any).map_err(told("receive"))?;
        let mut heard = Message::default();
        inward(&taken, &mut heard);
        heard.check_request(run.bytes())?;
        server.send(taken.source, &outward(&heard.answer())).map_err(told("answer"))?;
        let back = client.poll_request(&mut pending).map_err(told("take the answer"))?;
        inward(&back.ok_or(Error::PeerGone)?, &mut answer);
        answer.check_answer(&request, run.bytes())?;
    }
    Ok(Report { trips, ..Report::default() })
}
