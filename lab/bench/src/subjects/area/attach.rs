//! Single attaches, each timed alone.

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::Report;
use crate::raw;
use crate::run::Run;

/// Times attaches for the span of the job. `detach` is not timed; both work with `on`.
pub fn time_attaches<S, T>(
    run: &Run,
    on: &mut S,
    mut attach: impl FnMut(&mut S) -> Result<T, Error>,
    mut detach: impl FnMut(&mut S, T) -> Result<(), Error>,
) -> Result<Report, Error> {
    let start_ns = run.at_the_start()?;
    let clock = run.job().clock;
    let mut report = Report::default();
    // The first attaches find cold tables of the kernel.
    let mut warm = 0;
    while warm < 2 || monotonic_ns() < start_ns {
        let attached = attach(on)?;
        detach(on, attached)?;
        warm += 1;
    }
    let before = raw::usage();
    let window_ns = monotonic_ns();
    while report.trips < 2 || monotonic_ns() < window_ns + run.load().span_ns {
        let begin = clock.now();
        let attached = attach(on)?;
        report.samples.record(clock.ns(clock.now() - begin));
        detach(on, attached)?;
        report.trips += 1;
    }
    report.add_usage(before);
    report.window_ns = monotonic_ns() - window_ns;
    report.window_trips = report.trips;
    Ok(report)
}
