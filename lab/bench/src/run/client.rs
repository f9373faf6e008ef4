//! The client's loops: round trips against the clock, and the wait for a death.
//!
//! Two methods of timing take turns, block by block. *Single*: one clock read per trip, from the
//! end of one trip to the end of the next, less the cost of a read (measured in this process).
//! These samples give the percentiles. *Whole*: a block of trips between two reads; its mean per
//! trip is free of the clock's cost. Equal medians of both show that the clock did not distort.

use crate::clock::{Clock, cpu_ns, monotonic_ns};
use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Job, Report};
use crate::payload::Message;
use crate::raw;

/// Length of a block, and its least and greatest number of trips.
const BLOCK_NS: u64 = 200_000;
const BLOCK_TRIPS: (u64, u64) = (8, 256);
/// Trips before the window, whatever the start time.
const WARM_TRIPS: u64 = 8;

/// Makes round trips: warm until `start_ns`, then measured.
pub fn drive(job: &Job, end: impl ClientEnd, start_ns: u64) -> Result<Report, Error> {
    let load = &job.load;
    let bytes = if load.test.is_message() { load.bytes } else { 0 };
    let mut trips = Trips {
        end,
        bytes,
        done: 0,
        answer: Message::default(),
        clock: job.clock,
        cost_ns: job.clock.cost_ns(),
        report: Report::default(),
    };
    let before = raw::usage();
    let warm_start = monotonic_ns();
    let warm_trips = WARM_TRIPS.max(trips.end.warm_trips());
    while trips.done < warm_trips || monotonic_ns() < start_ns {
        trips.trip()?;
    }
    trips.end.begin_window()?;
    let per_trip_ns = (monotonic_ns() - warm_start) / trips.done;
    let window = Window {
        start_ns: monotonic_ns(),
        span_ns: load.span_ns,
        limit: load.limit.unwrap_or(u64::MAX),
        first: trips.done,
    };
    match load.pace_ns {
        Some(pace_ns) => trips.paced(pace_ns, &window)?,
        None => {
            let block = (BLOCK_NS / per_trip_ns.max(1)).clamp(BLOCK_TRIPS.0, BLOCK_TRIPS.1);
            trips.back_to_back(block, &window)?;
        }
    }
    let mut report = std::mem::take(&mut trips.report);
    report.window_ns = monotonic_ns() - window.start_ns;
    report.window_trips = trips.done - window.first;
    report.trips = trips.done;
    let paced_cpu_ns = report.cpu_ns;
    report.add_usage(before);
    if load.pace_ns.is_some() {
        report.cpu_ns = paced_cpu_ns;
    }
    trips.end.stop()?;
    Ok(report)
}

/// Makes one trip that must end with an error; notes the time.
pub fn await_death(mut end: impl ClientEnd) -> Result<Report, Error> {
    match end.trip(&Message::request(1), &mut Message::default()) {
        Err(_) => Ok(Report { ended_at_ns: monotonic_ns(), trips: 1, ..Report::default() }),
        Ok(()) => {
            Err(Error::Usage("the server was killed before its answer, yet an answer came".into()))
        }
    }
}

/// Makes one trip and the stop; notes the time of the answer.
pub fn first(mut end: impl ClientEnd) -> Result<Report, Error> {
    end.trip(&Message::request(1), &mut Message::default())?;
    let ended_at_ns = monotonic_ns();
    end.stop()?;
    Ok(Report { ended_at_ns, trips: 1, ..Report::default() })
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

struct Trips<E> {
    end: E,
    bytes: usize,
    done: u64,
    answer: Message,
    clock: Clock,
    cost_ns: u64,
    report: Report,
}

impl<E: ClientEnd> Trips<E> {
    #[inline(always)]
    fn trip(&mut self) -> Result<(), Error> {
        let request = Message::request(self.done);
        self.done += 1;
        self.end.trip(&request, &mut self.answer)?;
        if self.bytes > 0 {
            self.answer.check_answer(&request, self.bytes)?;
        }
        Ok(())
    }

    fn record(&mut self, ticks: u64) {
        self.report.samples.record(self.clock.ns(ticks).saturating_sub(self.cost_ns));
    }

    fn back_to_back(&mut self, block: u64, window: &Window) -> Result<(), Error> {
        let mut ticks = Vec::with_capacity(usize::try_from(block).unwrap_or(0));
        loop {
            // The first trip after the bookkeeping differs from the others.
            self.trip()?;
            ticks.clear();
            let mut last = self.clock.now();
            for _ in 0..block {
                self.trip()?;
                let now = self.clock.now();
                ticks.push(now - last);
                last = now;
            }
            ticks.iter().for_each(|&ticks| self.record(ticks));

            self.trip()?;
            let start = self.clock.now();
            for _ in 0..block {
                self.trip()?;
            }
            let whole_ns = self.clock.ns(self.clock.now() - start);
            self.report.blocks_ns.push(whole_ns as f64 / block as f64);
            if !window.is_open(self.done) {
                return Ok(());
            }
        }
    }

    /// One trip per period.
    ///
    /// Between trips the client polls the clock and never sleeps, so that only the server's
    /// wake-up is measured. The polling is no part of its CPU time.
    fn paced(&mut self, pace_ns: u64, window: &Window) -> Result<(), Error> {
        let mut due = monotonic_ns() + pace_ns;
        while window.is_open(self.done) {
            while monotonic_ns() < due {
                std::hint::spin_loop();
            }
            due = monotonic_ns() + pace_ns;
            let cpu_before = cpu_ns();
            let start = self.clock.now();
            self.trip()?;
            let ticks = self.clock.now() - start;
            self.record(ticks);
            self.report.cpu_ns += cpu_ns() - cpu_before;
        }
        Ok(())
    }
}
