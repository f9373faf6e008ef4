//! Messages one way, none awaited: the figure of the com-socket paper.
//!
//! ```text
//! sender                                    receiver
//!   messages before the window ─────────────> checks every byte of them
//!   <─────────────────────────────── a byte   (the clock starts)
//!   messages, for a time or up to a number ─> reads, checks the number in each
//!   end of the stream ──────────────────────>
//!   <──────────── the number of bytes         (the clock stops)
//! ```

use std::hint::black_box;

use super::kinds::SocketKind;
use super::line::{Line, Port, gone};
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Load, Report};
use crate::raw;
use crate::run::Run;
use crate::subject::Inherited;
use crate::subjects::copy::block::{LEAST_BYTES, PrivateBlock};

/// The receiver reads at least this much at once, as programs that read streams do.
const READ_BYTES: usize = 64 << 10;
/// From this size on a message carries its number.
const NUMBERED_BYTES: usize = 64;
/// Bytes and messages before the window.
const WARM: (usize, usize) = (1 << 20, 4_096);
/// Bytes between two clock reads.
const BATCH_BYTES: usize = 64 << 10;

fn warm_messages(bytes: usize) -> u64 {
    (WARM.0 / bytes).clamp(4, WARM.1) as u64
}

/// Page-aligned room: the alignment of both ends changes the time of a copy up to twentyfold.
struct Room(PrivateBlock, usize);

impl Room {
    fn new(bytes: usize) -> Result<Self, Error> {
        Ok(Self(PrivateBlock::new(bytes.max(LEAST_BYTES), 0)?, bytes))
    }

    /// A message without its number.
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

/// Sends messages.
pub fn send(run: &Run, kind: SocketKind, inherited: Inherited) -> Result<Report, Error> {
    let mut line = match kind {
        SocketKind::Pipe => Line::pipe(inherited)?,
        kind => Port::client(kind, &inherited)?.next_without_delay()?,
    };
    run.at_the_start()?;
    let bytes = run.load().bytes;
    let mut message = Room::message(bytes)?;
    let mut put = |number| {
        stamp(message.bytes_mut(), number);
        line.put(message.bytes())
    };
    let warm = warm_messages(bytes);
    (0..warm).try_for_each(&mut put)?;
    line.get_all(&mut [0])?;
    let before = raw::usage();
    let (mut report, start_ns) = timed(run, |number| put(warm + number))?;
    line.end()?;
    let mut came = [0; 8];
    line.get(&mut came)?;
    report.add_usage(before);
    report.window_ns = monotonic_ns() - start_ns;
    report.bells = line.wakeups();
    let (sent, came) = (warm + report.trips, u64::from_le_bytes(came));
    if came != sent * bytes as u64 {
        return Err(Error::Usage(format!(
            "{sent} messages of {bytes} bytes were sent, {came} bytes came; no figure is given"
        )));
    }
    Ok(report)
}

/// Repeats some work until the time or the bytes are over; returns the times and the begin.
fn timed(
    run: &Run,
    mut work: impl FnMut(u64) -> Result<(), Error>,
) -> Result<(Report, u64), Error> {
    let Load { bytes, span_ns, limit, .. } = *run.load();
    let clock = run.job().clock;
    let cost_ns = clock.cost_ns();
    let batch = (BATCH_BYTES / bytes).max(1) as u64;
    let most = (limit.unwrap_or(u64::MAX) / bytes as u64).max(1);
    let (mut report, start_ns) = (Report::default(), monotonic_ns());
    let mut last = clock.now();
    while report.trips < most && monotonic_ns() - start_ns < span_ns {
        for _ in 0..batch {
            work(report.trips)?;
            report.trips += 1;
        }
        let now = clock.now();
        report.samples.record(clock.ns(now - last).saturating_sub(cost_ns) / batch);
        last = now;
    }
    report.window_trips = report.trips;
    Ok((report, start_ns))
}

/// Receives messages.
pub fn receive(run: &Run, kind: SocketKind, inherited: Inherited) -> Result<Report, Error> {
    let line = if kind == SocketKind::Pipe {
        let line = Line::pipe(inherited)?;
        run.at_the_start()?;
        line
    } else {
        let port = Port::server(kind, inherited)?;
        run.at_the_start()?;
        port.next_without_delay()?
    };
    let bytes = run.load().bytes;
    let (mut wanted, mut got) = (Room::message(bytes)?, Room::new(bytes)?);
    let warm = warm_messages(bytes);
    for number in 0..warm {
        line.get_all(got.bytes_mut())?;
        stamp(wanted.bytes_mut(), number);
        if got.bytes() != wanted.bytes() {
            return Err(wrong(number));
        }
    }
    line.put(&[1])?;
    let before = raw::usage();
    let mut at = warm * bytes as u64;
    let mut room = Room::new(bytes.max(READ_BYTES))?;
    loop {
        let count = line.get_some(room.bytes_mut()).map_err(gone)?;
        if count == 0 {
            break;
        }
        check(&room.bytes()[..count], at, bytes as u64)?;
        at += count as u64;
    }
    let report = Report { bells: line.wakeups(), ..Report::since(before) };
    line.put(&at.to_le_bytes())?;
    Ok(report)
}

/// Checks the last number that lies wholly in `bytes`, which begin at this offset of the stream.
///
/// Messages without a number are checked at their last byte.
#[inline]
fn check(bytes: &[u8], at: u64, size: u64) -> Result<(), Error> {
    let end = at + bytes.len() as u64;
    if size < NUMBERED_BYTES as u64 {
        let (last, byte) = (end - 1, bytes[bytes.len() - 1]);
        return if u64::from(byte) == last % size { Ok(()) } else { Err(wrong(last / size)) };
    }
    let Some(number) = end.checked_sub(8).map(|last| last / size) else { return Ok(()) };
    let from = (number * size).checked_sub(at).and_then(|from| usize::try_from(from).ok());
    let found = from.and_then(|from| bytes.get(from..from + 8));
    match found {
        Some(found) if found != number.to_le_bytes() => Err(wrong(number)),
        _ => Ok(()),
    }
}

fn wrong(number: u64) -> Error {
    Error::Usage(format!("message {number} changed on its way; no figure is given"))
}

/// Copies within this process, one message at a time.
pub fn within(run: &Run) -> Result<Report, Error> {
    run.at_the_start()?;
    let mut from = Room::message(run.load().bytes)?;
    let mut to = Room::new(run.load().bytes)?;
    let before = raw::usage();
    let (mut report, start_ns) = timed(run, |number| {
        stamp(from.bytes_mut(), number);
        black_box(to.bytes_mut()).copy_from_slice(black_box(from.bytes()));
        Ok(())
    })?;
    report.window_ns = monotonic_ns() - start_ns;
    report.add_usage(before);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_at_the_wrong_offset_is_found() {
        for size in [64_usize, 100, 8_192] {
            let mut stream = vec![];
            for number in 0..5 {
                let mut message = Room::message(size).expect("there is room");
                stamp(message.bytes_mut(), number);
                stream.extend_from_slice(message.bytes());
            }
            for (from, to) in [(0, 5 * size), (3, 2 * size), (size + 1, 4 * size + 8), (0, 7)] {
                let checked = check(&stream[from..to], from as u64, size as u64);
                assert!(checked.is_ok(), "{size} {from} {to}");
            }
            assert!(check(&stream[size..2 * size], 0, size as u64).is_err());
        }
        assert!(check(&[0, 1, 2], 9, 3).is_ok() && check(&[0, 1, 2], 10, 3).is_err());
    }
}
