//! Messages one way, none awaited: the paper's figure.
//!
//! ```text
//! sender                                    receiver
//!   messages that are not timed ────────────> checks every byte of them
//!   <─────────────────────────────── a byte   (the clock starts)
//!   messages, for a time or up to a number ─> reads as they come, checks the number in each
//!   end of what is sent ────────────────────>
//!   <───────────── how many bytes have come   (the clock stops)
//! ```

use super::line::{Line, Port};
use super::way::Way;
use super::{Shape, line};
use crate::clock::monotonic_ns;
use crate::copy::buffer::{Buffer, LEAST_BYTES};
use crate::error::Error;
use crate::job::Report;
use crate::mechanism::Inherited;
use crate::peer::Run;
use crate::raw;

/// The receiver asks for so many bytes at least, as programs that read streams do.
const READ_BYTES: usize = 64 << 10;
/// From this size on a message carries its number.
const NUMBERED_BYTES: usize = 64;
/// Bytes, and messages, that are not timed.
const WARM: (usize, usize) = (1 << 20, 4_096);
/// Bytes between two looks at the clock.
const LOOK_BYTES: usize = 64 << 10;

fn warm_messages(bytes: usize) -> usize {
    (WARM.0 / bytes).clamp(4, WARM.1)
}

/// Room that begins with a page: how a copy goes depends on where both its ends lie, on some machines twentyfold.
struct Room(Buffer, usize);

impl Room {
    fn new(bytes: usize) -> Result<Self, Error> {
        Ok(Self(Buffer::new(bytes.max(LEAST_BYTES), 0)?, bytes))
    }

    /// A message as it is before it has its number.
    fn message(bytes: usize) -> Result<Self, Error> {
        let mut room = Self::new(bytes)?;
        room.bytes_mut().iter_mut().zip((0_u8..=u8::MAX).cycle()).for_each(|(to, from)| *to = from);
        Ok(room)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.0.bytes()[..self.1]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes_mut()[..self.1]
    }
}

#[inline]
fn stamp(message: &mut [u8], number: u64) {
    if message.len() >= NUMBERED_BYTES {
        message[..8].copy_from_slice(&number.to_le_bytes());
    }
}

/// Sends.
///
/// # Errors
/// Where the connection fails, or less came than was sent.
pub fn send(run: &Run, way: Way, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let mut line = match way {
        Way::Pipe => Line::pipe(inherited)?,
        way => Port::client(way, &inherited)?.next()?.without_delay()?,
    };
    run.at_the_start()?;
    let mut message = Room::message(shape.bytes)?;
    let mut number = 0;
    for _ in 0..warm_messages(shape.bytes) {
        stamp(message.bytes_mut(), number);
        line.put(message.bytes())?;
        number += 1;
    }
    if !line.get(&mut [0])? {
        return Err(Error::PeerGone);
    }
    let (first, before) = (number, raw::usage());
    let mut report = timed(run, shape, |_| {
        stamp(message.bytes_mut(), number);
        number += 1;
        line.put(message.bytes())
    })?;
    let start_ns = report.window_ns;
    line.end()?;
    let mut came = [0; 8];
    line.get(&mut came)?;
    let after = raw::usage();
    report.window_ns = monotonic_ns() - start_ns;
    if u64::from_le_bytes(came) != number * shape.bytes as u64 {
        return Err(Error::Usage(format!(
            "{} messages of {} bytes were sent, {} bytes came; no figure is given",
            number,
            shape.bytes,
            u64::from_le_bytes(came)
        )));
    }
    report.trips = number - first;
    report.window_trips = report.trips;
    report.cpu_ns = after.cpu_ns - before.cpu_ns;
    report.switches = after.voluntary_switches - before.voluntary_switches;
    report.bells = line.bells();
    Ok(report)
}

/// Does something until time or bytes are over; gives the times of it, and in `window_ns` when it began.
fn timed(
    run: &Run,
    shape: &Shape,
    mut once: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Report, Error> {
    let clock = run.job().clock;
    let cost_ns = clock.cost_ns();
    let batch = (LOOK_BYTES / shape.bytes).max(1);
    let most = (shape.most / shape.bytes as u64).max(1);
    let mut report = Report { window_ns: monotonic_ns(), ..Report::default() };
    let mut number = 0;
    let mut last = clock.now();
    while number < most && monotonic_ns() - report.window_ns < shape.span_ns {
        for _ in 0..batch {
            once(number)?;
            number += 1;
        }
        let now = clock.now();
        report.samples.record(clock.ns(now - last).saturating_sub(cost_ns) / batch as u64);
        last = now;
    }
    report.trips = number;
    report.window_trips = number;
    Ok(report)
}

/// Receives.
///
/// # Errors
/// Where the connection fails, or what came is not what was sent.
pub fn receive(run: &Run, way: Way, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let line = if way == Way::Pipe {
        let line = Line::pipe(inherited)?;
        run.at_the_start()?;
        line
    } else {
        let port = Port::server(way, inherited)?;
        run.at_the_start()?;
        port.next()?.without_delay()?
    };
    let mut wanted = Room::message(shape.bytes)?;
    let mut got = Room::new(shape.bytes)?;
    for number in 0..warm_messages(shape.bytes) {
        if !line.get(got.bytes_mut())? {
            return Err(Error::PeerGone);
        }
        stamp(wanted.bytes_mut(), number as u64);
        if got.bytes() != wanted.bytes() {
            return Err(spoilt(number as u64));
        }
    }
    line.put(&[1])?;
    let before = raw::usage();
    let mut at = (warm_messages(shape.bytes) * shape.bytes) as u64;
    let mut room = Room::new(shape.bytes.max(READ_BYTES))?;
    loop {
        let count = line.some(room.bytes_mut()).map_err(line::gone)?;
        if count == 0 {
            break;
        }
        check(&room.bytes()[..count], at, shape.bytes as u64)?;
        at += count as u64;
    }
    let after = raw::usage();
    line.put(&at.to_le_bytes())?;
    Ok(Report {
        cpu_ns: after.cpu_ns - before.cpu_ns,
        switches: after.voluntary_switches - before.voluntary_switches,
        bells: line.bells(),
        ..Report::default()
    })
}

/// Looks at the last number that lies wholly in `bytes`, which begin at this place of the stream; of messages without one at the
/// last byte.
#[inline]
fn check(bytes: &[u8], at: u64, size: u64) -> Result<(), Error> {
    let end = at + bytes.len() as u64;
    if size < NUMBERED_BYTES as u64 {
        let last = end - 1;
        let is = bytes[bytes.len() - 1];
        return if u64::from(is) == last % size { Ok(()) } else { Err(spoilt(last / size)) };
    }
    let Some(number) = end.checked_sub(8).map(|last| last / size) else { return Ok(()) };
    let Some(from) = (number * size).checked_sub(at).and_then(|from| usize::try_from(from).ok())
    else {
        return Ok(());
    };
    match bytes.get(from..from + 8) {
        Some(found) if found != number.to_le_bytes() => Err(spoilt(number)),
        _ => Ok(()),
    }
}

fn spoilt(number: u64) -> Error {
    Error::Usage(format!("message {number} is not what was sent; no figure is given"))
}

/// Copies within this process, one message's length each.
///
/// # Errors
/// Where the supervisor has gone.
pub fn within(run: &Run, shape: &Shape) -> Result<Report, Error> {
    run.at_the_start()?;
    let mut from = Room::message(shape.bytes)?;
    let mut to = Room::new(shape.bytes)?;
    let before = raw::usage();
    let mut report = timed(run, shape, |number| {
        stamp(from.bytes_mut(), number);
        std::hint::black_box(to.bytes_mut()).copy_from_slice(std::hint::black_box(from.bytes()));
        Ok(())
    })?;
    report.window_ns = monotonic_ns() - report.window_ns;
    let after = raw::usage();
    report.cpu_ns = after.cpu_ns - before.cpu_ns;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_the_wrong_place_is_seen() {
        for size in [64_usize, 100, 8_192] {
            let mut stream = vec![];
            for number in 0..5 {
                let mut one = Room::message(size).expect("there is room");
                stamp(one.bytes_mut(), number);
                stream.extend_from_slice(one.bytes());
            }
            for (from, to) in [(0, 5 * size), (3, 2 * size), (size + 1, 4 * size + 8), (0, 7)] {
                assert!(
                    check(&stream[from..to], from as u64, size as u64).is_ok(),
                    "{size} {from} {to}"
                );
            }
            assert!(check(&stream[size..2 * size], 0, size as u64).is_err());
        }
        assert!(check(&[0, 1, 2], 9, 3).is_ok() && check(&[0, 1, 2], 10, 3).is_err());
    }
}
