//! Trips of the kernel's mechanisms with stamps around their system calls.
//!
//! ```text
//! pipe, unix-stream   begun  ready |write| gave ... |read| came  done
//! futex               begun  ready (store) gave |wake| ... |wait| ran  came (load)
//! ```
//! Both sides keep the stamps of their last trips by number; the supervisor puts them together.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use m3ipc::trace::stamp;
use rustix::io::{Errno, read, write};
use rustix::thread::futex::{Flags, wait, wake};

use super::Shape;
use super::record::{PARTS, Part};
use super::window::{BLOCK, Window, is_stamped};
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Report, Side};
use crate::mechanism::{self, Inherited, Site, Transport};
use crate::payload::Message;
use crate::peer::Run;
use crate::raw::Page;

/// Trips whose stamps are kept.
const KEPT: usize = 4_096;
/// Trips before anything is measured.
const WARM_TRIPS: u64 = 8;
/// Halves of the futex's page, and what ends it: as the futex of the other tests.
const REQUEST: usize = 0;
const ANSWER: usize = 64;
const STOP: u32 = u32::MAX;

/// One side's stamps of one trip: number; begun, ready, gave, woke; ran, came, done. 0 where there is none.
pub type Stamps = [u64; 8];

/// Opens the mechanism of this name.
///
/// # Errors
/// Where this machine does not offer it.
pub fn open(name: &str) -> Result<Transport, Error> {
    let known = mechanism::by_name(name);
    let known = known.ok_or_else(|| Error::Usage(format!("there is no mechanism {name:?}")))?;
    known.open(&Site { exe: std::path::PathBuf::new() })
}

/// One end of a conversation.
enum End {
    Bytes { input: OwnedFd, output: OwnedFd },
    Futex { page: Page, side: Side, seen: u32 },
}

impl End {
    fn new(run: &Run, mut inherited: Inherited) -> Result<Self, Error> {
        Ok(match run.job().mechanism.as_str() {
            "futex" => {
                Self::Futex { page: Page::map(&inherited.take()?)?, side: run.job().side, seen: 0 }
            }
            "pipe" => Self::Bytes { input: inherited.take()?, output: inherited.take()? },
            _ => {
                let input = inherited.take()?;
                let output = input.try_clone().map_err(Error::os("dup of a socket"))?;
                Self::Bytes { input, output }
            }
        })
    }

    fn words(side: Side) -> (usize, usize) {
        if side == Side::Client { (REQUEST, ANSWER) } else { (ANSWER, REQUEST) }
    }

    /// Gives the message, and stamps when it was published and when a sleeper was woken.
    #[inline]
    fn give(&self, message: &Message, now: impl Fn() -> u64, at: &mut Stamps) -> Result<(), Error> {
        match self {
            Self::Bytes { output, .. } => {
                let sent = write(output, message.bytes()).map_err(Error::os("write"))?;
                if sent != message.bytes().len() {
                    return Err(Error::PeerGone);
                }
                at[3] = now();
            }
            Self::Futex { page, side, .. } => {
                let number = (message.words[0] >> 8 & 0x7fff_ffff) as u32;
                let value = if message.is_stop() { STOP } else { number + 1 };
                let word = page.half(Self::words(*side).0);
                word.store(value, Release); // pairs with the Acquire in `take`
                at[3] = now();
                wake(word, Flags::empty(), 1).map_err(Error::os("futex wake"))?;
                at[4] = now();
            }
        }
        Ok(())
    }

    /// Takes the next message, and stamps when this side ran again and when it had it.
    #[inline]
    fn take(
        &mut self,
        message: &mut Message,
        now: impl Fn() -> u64,
        at: &mut Stamps,
    ) -> Result<(), Error> {
        match self {
            Self::Bytes { input, .. } => {
                let mut got = 0;
                while got < message.bytes().len() {
                    match read(&*input, &mut message.bytes_mut()[got..]) {
                        Ok(0) => return Err(Error::PeerGone),
                        Ok(more) => got += more,
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(Error::os("read")(error)),
                    }
                }
            }
            Self::Futex { page, side, seen } => {
                let word = page.half(Self::words(*side).1);
                loop {
                    let value = word.load(Acquire);
                    if value != *seen {
                        *seen = value;
                        let number = u64::from(value.wrapping_sub(1));
                        *message =
                            if value == STOP { Message::stop() } else { Message::request(number) };
                        break;
                    }
                    match wait(word, Flags::empty(), value, None) {
                        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => at[5] = now(),
                        Err(error) => return Err(Error::os("futex wait")(error)),
                    }
                }
            }
        }
        at[6] = now();
        Ok(())
    }

    /// Whether messages come back as they are: a futex carries nothing that could be checked.
    fn carries(&self) -> bool {
        matches!(self, Self::Bytes { .. })
    }
}

/// The latest stamps of one side.
struct Kept(Vec<Stamps>);

impl Kept {
    fn keep(&mut self, number: u64, mut at: Stamps) {
        at[0] = number;
        let place = usize::try_from(number).unwrap_or(0) % KEPT;
        if self.0.len() <= place {
            self.0.resize(place + 1, [u64::MAX; 8]);
        }
        self.0[place] = at;
    }

    fn report(self, report: Report) -> Report {
        let stamps = self.0.into_iter().filter(|at| at[0] != u64::MAX).collect();
        Report { stamps, ..report }
    }
}

/// Is one side, in a peer process.
pub fn peer(run: &Run, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let end = End::new(run, inherited)?;
    if run.job().side == Side::Client { client(run, end, shape) } else { server(run, end) }
}

fn client(run: &Run, mut end: End, shape: &Shape) -> Result<Report, Error> {
    let start_ns = run.at_the_start()?;
    let clock = run.job().clock;
    let mut window = Window::new();
    let mut kept = Kept(vec![]);
    let mut trips = 0_u64;
    let mut answer = Message::default();
    let mut until_ns = u64::MAX;
    loop {
        let stamped = is_stamped(trips);
        let mut ticks = [0; BLOCK];
        for (number, ticks) in ticks.iter_mut().enumerate() {
            let now = || if stamped { stamp() } else { 0 };
            let mut at = [0; 8];
            let from = clock.now();
            at[1] = now();
            let request = Message::request(trips);
            at[2] = now();
            end.give(&request, now, &mut at)?;
            end.take(&mut answer, now, &mut at)?;
            if end.carries() {
                answer.check_answer(&request, shape.bytes)?;
            }
            at[7] = now();
            *ticks = clock.now() - from;
            // The first trip of a block is not like the others.
            if until_ns != u64::MAX && stamped && number > 0 {
                kept.keep(trips, at);
            }
            trips += 1;
        }
        let now_ns = monotonic_ns();
        if until_ns != u64::MAX {
            window.keep(stamped, ticks);
        }
        if until_ns == u64::MAX && now_ns >= start_ns && trips >= WARM_TRIPS {
            until_ns = now_ns + shape.span_ns;
        } else if now_ns >= until_ns {
            break;
        }
    }
    end.give(&Message::stop(), || 0, &mut [0; 8])?;
    let mut report = Report { trips, ..Report::default() };
    window.report(clock, &mut report);
    Ok(kept.report(report))
}

fn server(run: &Run, mut end: End) -> Result<Report, Error> {
    run.at_the_start()?;
    let mut kept = Kept(vec![]);
    let mut trips = 0_u64;
    let mut request = Message::default();
    loop {
        let stamped = is_stamped(trips);
        let now = || if stamped { stamp() } else { 0 };
        let mut at = [0; 8];
        end.take(&mut request, now, &mut at)?;
        if request.is_stop() {
            return Ok(kept.report(Report { trips, ..Report::default() }));
        }
        if end.carries() {
            request.check_request(request.bytes().len())?;
        }
        at[7] = now();
        at[1] = at[7];
        // What a futex carries is that it happened: the number goes back as it came.
        let answer = if end.carries() { request.answer() } else { request };
        at[2] = now();
        end.give(&answer, now, &mut at)?;
        if stamped {
            kept.keep(trips, at);
        }
        trips += 1;
    }
}

/// The trips that both sides have kept, each in its parts, in ticks.
#[must_use]
pub fn cuts(client: &[Stamps], server: &[Stamps]) -> Vec<[u64; PARTS]> {
    let theirs: HashMap<u64, &Stamps> = server.iter().map(|at| (at[0], at)).collect();
    client
        .iter()
        .filter_map(|ours| theirs.get(&ours[0]).map(|theirs| of_trip(ours, theirs)))
        .collect()
}

fn of_trip(client: &Stamps, server: &Stamps) -> [u64; PARTS] {
    let mut cut = [0; PARTS];
    for (giver, taker) in [(client, server), (server, client)] {
        let [_, begun, ready, gave, woke, ..] = *giver;
        let [.., ran, came, done] = *taker;
        // Who is awake may have the message before the giver's call returns.
        let gave = gave.min(came);
        let mut add =
            |part: Part, from: u64, to: u64| cut[part as usize] += to.saturating_sub(from);
        add(Part::Prepare, begun, ready);
        add(Part::Deliver, ready, gave);
        if woke != 0 && ran > gave && ran <= came {
            add(Part::ToRun, gave, ran);
            add(Part::ToRead, ran, came);
        } else {
            add(Part::ToRead, gave, came);
        }
        add(Part::Sender, came, done);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_trip_add_up_to_it() {
        let client = [3, 100, 110, 140, 0, 0, 390, 400];
        let server = [3, 210, 220, 250, 0, 0, 200, 210];
        let cut = cuts(&[client], &[server])[0];
        assert_eq!(cut.iter().sum::<u64>(), 300);
        assert_eq!((cut[Part::Deliver as usize], cut[Part::ToRead as usize]), (60, 200));
    }

    #[test]
    fn a_message_that_came_before_its_call_returned_was_delivered_then() {
        let client = [3, 100, 110, 240, 0, 0, 390, 400];
        let server = [3, 210, 220, 450, 0, 0, 200, 210];
        let cut = cuts(&[client], &[server])[0];
        assert_eq!(cut.iter().sum::<u64>(), 300);
        assert_eq!(cut[Part::ToRead as usize], 0);
    }

    #[test]
    fn trips_that_one_side_has_not_kept_are_left_out() {
        assert!(cuts(&[[1; 8]], &[[2; 8]]).is_empty());
    }

    #[test]
    fn the_latest_trips_are_kept() {
        let mut kept = Kept(vec![]);
        (0..KEPT as u64 + 10).for_each(|number| kept.keep(number, [7; 8]));
        let report = kept.report(Report::default());
        assert_eq!(report.stamps.len(), KEPT);
        assert!(report.stamps.iter().all(|at| at[0] >= 10));
    }
}
