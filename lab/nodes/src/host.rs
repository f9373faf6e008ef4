//! The two CPUs: two cores or two threads of one core, by the time a cache line takes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const TRIPS: u32 = 200_000;
/// The bound of `m3 bench` for the same question.
const THREADS_BELOW_NS: f64 = 160.0;

/// Round trips of a cache line between two threads, and the kind of host that they tell.
pub fn kind() -> String {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return "one CPU".into();
    }
    let mut times: Vec<f64> = (0..5).map(|_| bounce_ns()).collect();
    times.sort_by(f64::total_cmp);
    let ns = times[2];
    let kind = if ns < THREADS_BELOW_NS { "two threads of one core" } else { "two cores" };
    format!("{kind}; bounce {ns:.0} ns")
}

fn bounce_ns() -> f64 {
    let word = AtomicU32::new(0);
    let wait = |value: u32| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..TRIPS {
                wait(2 * trip + 1);
                word.store(2 * trip + 2, Ordering::Release);
            }
        });
        let begin = Instant::now();
        for trip in 0..TRIPS {
            word.store(2 * trip + 1, Ordering::Release);
            wait(2 * trip + 2);
        }
        begin.elapsed().as_nanos() as f64 / f64::from(TRIPS)
    })
}
