//! Trips of the kernel's mechanisms with stamps around their system calls.
//!
//! ```text
//! pipe, unix-stream   begun  ready |write| gave ... |read| came  done
//! futex               begun  ready (store) gave |wake| ... |wait| ran  came (load)
//! ```
//! Both sides keep the stamps of their last trips by number. The supervisor joins them.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Release};

use m3ipc::trace::stamp;
use m3ipc_report::schema::Wait;
use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};

use super::stamps::phase_trips;
use super::window::{self, is_stamped};
use crate::error::Error;
use crate::job::{Load, Report};
use crate::payload::Message;
use crate::phase_math::{PARTS, Part};
use crate::raw::Page;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::{self, Channel, Ends, duplicate, get_all, put_all};

/// Trips whose stamps are kept.
const KEPT: usize = 4_096;
/// Futex words of requests and answers, 256 bytes apart; `STOP` ends.
const REQUEST: usize = 0;
const ANSWER: usize = 64;
const STOP: u32 = u32::MAX;

/// Stamps of one side of a trip: number; begun, ready, gave, woke; ran, came, done. 0 if none.
type Stamps = [u64; 8];

/// A mechanism that is cut.
pub struct KernelInPhases {
    name: &'static str,
    /// Opens a channel; without it, a page with futex words.
    open: Option<fn() -> Result<Ends, Error>>,
}

/// The mechanisms.
pub const ALL: [KernelInPhases; 3] = [
    KernelInPhases { name: "pipe", open: Some(channel::pipes) },
    KernelInPhases { name: "unix-stream", open: Some(channel::unix_stream) },
    KernelInPhases { name: "futex", open: None },
];

impl Subject for KernelInPhases {
    fn name(&self) -> &'static str {
        self.name
    }

    fn waits(&self, _: &Load) -> &'static [Wait] {
        &[Wait::Block]
    }

    fn open(&self, _: &Site, _: &Load) -> Result<Opened, Error> {
        let mut opened = match self.open {
            Some(open) => {
                let (client, server) = open()?;
                Opened::pair(client.into_inherited(), server.into_inherited())
            }
            None => {
                let page = Page::create()?;
                Opened::pair(Inherited::fds(vec![duplicate(&page)?]), Inherited::fds(vec![page]))
            }
        };
        opened.finish = Some(Box::new(|reports, found| {
            let [server, client] = *reports else { return Err(Error::PeerGone) };
            found.phases = Some(phase_trips(client, cuts(&client.stamps, &server.stamps))?);
            Ok(())
        }));
        Ok(opened)
    }

    fn run(&self, run: &Run, mut inherited: Inherited) -> Result<Report, Error> {
        let end = if self.open.is_some() {
            End::Bytes(Channel::from_inherited(inherited)?)
        } else {
            let words = (REQUEST, ANSWER);
            let (output, input) = if run.is_client() { words } else { (words.1, words.0) };
            End::Futex { page: Page::map(&inherited.take()?)?, output, input, seen: 0 }
        };
        if run.is_client() { client(run, end) } else { server(run, end) }
    }
}

/// One end of a conversation.
enum End {
    Bytes(Channel),
    Futex { page: Page, output: usize, input: usize, seen: u32 },
}

impl End {
    /// Gives the message; stamps its publication and the wake-up of a sleeper.
    #[inline]
    fn give(&self, message: &Message, now: impl Fn() -> u64, at: &mut Stamps) -> Result<(), Error> {
        match self {
            Self::Bytes(channel) => {
                put_all(&channel.output, message.bytes())?;
                at[3] = now();
            }
            Self::Futex { page, output, .. } => {
                let number = (message.number() & 0x7fff_ffff) as u32;
                let word = page.futex(*output);
                // Pairs with the Acquire load of `take`.
                word.store(if message.is_stop() { STOP } else { number + 1 }, Release);
                at[3] = now();
                wake(word, Flags::empty(), 1).map_err(Error::os("futex wake"))?;
                at[4] = now();
            }
        }
        Ok(())
    }

    /// Takes the next message; stamps the moments when this side ran again and had the message.
    #[inline]
    fn take(
        &mut self,
        message: &mut Message,
        now: impl Fn() -> u64,
        at: &mut Stamps,
    ) -> Result<(), Error> {
        match self {
            Self::Bytes(channel) => get_all(&channel.input, message.bytes_mut())?,
            Self::Futex { page, input, seen, .. } => {
                let word = page.futex(*input);
                let mut value = word.load(Acquire);
                while value == *seen {
                    match wait(word, Flags::empty(), value, None) {
                        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => at[5] = now(),
                        Err(error) => return Err(Error::os("futex wait")(error)),
                    }
                    value = word.load(Acquire);
                }
                *seen = value;
                let number = u64::from(value.wrapping_sub(1));
                *message = if value == STOP { Message::stop() } else { Message::request(number) };
            }
        }
        at[6] = now();
        Ok(())
    }

    /// Whether messages arrive as a whole. A futex carries no content to check.
    const fn carries(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

/// The latest stamps of one side.
struct Kept(Vec<Stamps>);

impl Kept {
    fn keep(&mut self, number: u64, mut at: Stamps) {
        at[0] = number;
        let index = usize::try_from(number).unwrap_or(0) % KEPT;
        if self.0.len() <= index {
            self.0.resize(index + 1, [u64::MAX; 8]);
        }
        self.0[index] = at;
    }

    fn stamps(self) -> Vec<Stamps> {
        self.0.into_iter().filter(|at| at[0] != u64::MAX).collect()
    }
}

fn client(run: &Run, mut end: End) -> Result<Report, Error> {
    let start_ns = run.at_the_start()?;
    let clock = run.job().clock;
    let (mut kept, mut answer) = (Kept(vec![]), Message::default());
    let report = window::drive(run, start_ns, |trip| {
        let now = || if trip.stamped { stamp() } else { 0 };
        let mut at = [0; 8];
        let from = clock.now();
        at[1] = now();
        let request = Message::request(trip.number);
        at[2] = now();
        end.give(&request, now, &mut at)?;
        end.take(&mut answer, now, &mut at)?;
        if end.carries() {
            answer.check_answer(&request, run.load().bytes)?;
        }
        at[7] = now();
        let ticks = clock.now() - from;
        if trip.counts {
            kept.keep(trip.number, at);
        }
        Ok(ticks)
    })?;
    end.give(&Message::stop(), || 0, &mut [0; 8])?;
    Ok(Report { stamps: kept.stamps(), ..report })
}

fn server(run: &Run, mut end: End) -> Result<Report, Error> {
    run.at_the_start()?;
    let (mut kept, mut trips, mut request) = (Kept(vec![]), 0_u64, Message::default());
    loop {
        let stamped = is_stamped(trips);
        let now = || if stamped { stamp() } else { 0 };
        let mut at = [0; 8];
        end.take(&mut request, now, &mut at)?;
        if request.is_stop() {
            return Ok(Report { trips, stamps: kept.stamps(), ..Report::default() });
        }
        if end.carries() {
            request.check_request(request.bytes().len())?;
        }
        at[7] = now();
        at[1] = at[7];
        // A futex carries no content, so the number goes back unchanged.
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
fn cuts(client: &[Stamps], server: &[Stamps]) -> Vec<[u64; PARTS]> {
    let servers: HashMap<u64, &Stamps> = server.iter().map(|at| (at[0], at)).collect();
    let both = client.iter().filter_map(|client| Some((client, *servers.get(&client[0])?)));
    both.map(|(client, server)| cut(client, server)).collect()
}

fn cut(client: &Stamps, server: &Stamps) -> [u64; PARTS] {
    let mut cut = [0; PARTS];
    for (giver, taker) in [(client, server), (server, client)] {
        let [_, begun, ready, gave, woke, ..] = *giver;
        let [.., ran, came, done] = *taker;
        // An awake taker may have the message before the giver's call returns.
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
    fn a_message_that_came_before_the_return_of_its_call_was_delivered_then() {
        let client = [3, 100, 110, 240, 0, 0, 390, 400];
        let server = [3, 210, 220, 450, 0, 0, 200, 210];
        let cut = cuts(&[client], &[server])[0];
        assert_eq!(cut.iter().sum::<u64>(), 300);
        assert_eq!(cut[Part::ToRead as usize], 0);
    }

    #[test]
    fn trips_that_one_side_has_dropped_are_left_out() {
        assert!(cuts(&[[1; 8]], &[[2; 8]]).is_empty());
    }

    #[test]
    fn the_latest_trips_are_kept() {
        let mut kept = Kept(vec![]);
        (0..KEPT as u64 + 10).for_each(|number| kept.keep(number, [7; 8]));
        let stamps = kept.stamps();
        assert_eq!(stamps.len(), KEPT);
        assert!(stamps.iter().all(|at| at[0] >= 10));
    }
}
