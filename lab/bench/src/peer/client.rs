//! The client's loops: round trips against the clock, and waiting for a death.
//!
//! Two ways of timing take turns, block by block. *Single*: one look at the
//! clock per trip, from the end of one trip to the end of the next, less what
//! such a look costs (measured in this process); these samples give the
//! percentiles. *Whole*: a block of trips between two looks; its mean per trip
//! is free of the clock's cost. Where the medians of both agree the clock did
//! not distort the figure.

use crate::clock::{Clock, cpu_ns, monotonic_ns};
use crate::error::Error;
use crate::job::{Job, Report};
use crate::mechanism::ClientEnd;
use crate::payload::Message;
use crate::raw;

/// How long a block should last, and its least and greatest number of trips.
const BLOCK_NS: u64 = 200_000;
const BLOCK_TRIPS: (u64, u64) = (8, 256);
/// Trips before anything is measured, whatever the start time.
const WARM_TRIPS: u64 = 8;

/// Round trips as the task says: warm until `start_ns`, then measured.
pub fn drive(job: &Job, end: impl ClientEnd, start_ns: u64) -> Result<Report, Error> {
    let Some((pace_ns, span_ns, limit)) = job.task.window() else {
        return Err(Error::Usage("a client was given a task that is not a client's".into()));
    };
    let cost_ns = job.clock.cost_ns();
    let before = raw::usage();
    let mut talk = Talk { end, bytes: job.bytes, trips: 0, answer: Message::default() };
    let mut report = Report::default();

    let (warm_start, warm_from) = (monotonic_ns(), talk.trips);
    while talk.trips < WARM_TRIPS || monotonic_ns() < start_ns {
        talk.trip()?;
    }
    let per_trip_ns = (monotonic_ns() - warm_start) / (talk.trips - warm_from);

    let window = Window {
        start_ns: monotonic_ns(),
        span_ns,
        limit: limit.unwrap_or(u64::MAX),
        first: talk.trips,
    };
    match pace_ns {
        Some(pace_ns) => talk.paced(job.clock, cost_ns, pace_ns, &window, &mut report)?,
        None => {
            let block = (BLOCK_NS / per_trip_ns.max(1)).clamp(BLOCK_TRIPS.0, BLOCK_TRIPS.1);
            talk.back_to_back(job.clock, cost_ns, block, &window, &mut report)?;
        }
    }
    report.window_ns = monotonic_ns() - window.start_ns;
    report.window_trips = talk.trips - window.first;
    let after = raw::usage();
    talk.end.stop()?;
    report.trips = talk.trips;
    if pace_ns.is_none() {
        report.cpu_ns = after.cpu_ns - before.cpu_ns;
    }
    report.switches = after.voluntary_switches - before.voluntary_switches;
    Ok(report)
}

/// One trip that must end with an error; notes when.
pub fn await_death(mut end: impl ClientEnd) -> Result<Report, Error> {
    match end.trip(&Message::request(1), &mut Message::default()) {
        Err(_) => Ok(Report { error_at_ns: monotonic_ns(), trips: 1, ..Report::default() }),
        Ok(()) => Err(Error::Usage(
            "the server was killed with the request in its hands, yet an answer came".into(),
        )),
    }
}

/// One trip, and the end; notes when its answer came.
pub fn first(mut end: impl ClientEnd) -> Result<Report, Error> {
    end.trip(&Message::request(1), &mut Message::default())?;
    let error_at_ns = monotonic_ns();
    end.stop()?;
    Ok(Report { error_at_ns, trips: 1, ..Report::default() })
}

struct Window {
    start_ns: u64,
    span_ns: u64,
    limit: u64,
    first: u64,
}

impl Window {
    fn is_open(&self, trips: u64) -> bool {
        monotonic_ns() < self.start_ns + self.span_ns && trips - self.first < self.limit
    }
}

struct Talk<E> {
    end: E,
    bytes: usize,
    trips: u64,
    answer: Message,
}

impl<E: ClientEnd> Talk<E> {
    #[inline(always)]
    fn trip(&mut self) -> Result<(), Error> {
        let request = Message::request(self.trips);
        self.trips += 1;
        self.end.trip(&request, &mut self.answer)?;
        if self.bytes > 0 {
            self.answer.check_answer(&request, self.bytes)?;
        }
        Ok(())
    }

    fn back_to_back(
        &mut self,
        clock: Clock,
        cost_ns: u64,
        block: u64,
        window: &Window,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut ticks = Vec::with_capacity(usize::try_from(block).unwrap_or(0));
        loop {
            // The first trip after the bookkeeping is not like the others.
            self.trip()?;
            ticks.clear();
            let mut last = clock.now();
            for _ in 0..block {
                self.trip()?;
                let now = clock.now();
                ticks.push(now - last);
                last = now;
            }
            ticks
                .iter()
                .for_each(|&ticks| report.samples.record(clock.ns(ticks).saturating_sub(cost_ns)));

            self.trip()?;
            let start = clock.now();
            for _ in 0..block {
                self.trip()?;
            }
            let whole_ns = clock.ns(clock.now() - start);
            report.blocks_ns.push(whole_ns as f64 / block as f64);
            if !window.is_open(self.trips) {
                return Ok(());
            }
        }
    }

    /// One trip per period. Between trips the client looks at the clock and never
    /// sleeps, so that only the server's wake-up is measured; that looking is no part
    /// of its CPU time.
    fn paced(
        &mut self,
        clock: Clock,
        cost_ns: u64,
        pace_ns: u64,
        window: &Window,
        report: &mut Report,
    ) -> Result<(), Error> {
        let mut due = monotonic_ns() + pace_ns;
        while window.is_open(self.trips) {
            while monotonic_ns() < due {
                std::hint::spin_loop();
            }
            due = monotonic_ns() + pace_ns;
            let cpu_before = cpu_ns();
            let start = clock.now();
            self.trip()?;
            report.samples.record(clock.ns(clock.now() - start).saturating_sub(cost_ns));
            report.cpu_ns += cpu_ns() - cpu_before;
        }
        Ok(())
    }
}
