//! The figures of one row in one round.

use std::cell::RefCell;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::stack::Work;

/// Calls before the measurement begins.
const WARM_UP: usize = 300;

/// What a client found.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The median call in nanoseconds.
    pub p50_ns: f64,
    /// 99 of 100 calls are faster.
    pub p99_ns: f64,
    /// Calls per second.
    pub per_s: f64,
    /// Time of the client's CPU per call, in the program and in the kernel, in nanoseconds.
    pub program_ns: f64,
    pub kernel_ns: f64,
}

/// The time that this process has had of its CPU, in the program and in the kernel, in ticks of
/// 10 ms.
fn cpu_ticks() -> Result<[f64; 2], Failure> {
    let line = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in brackets, may have spaces.
    let rest = line.rsplit(')').next().ok_or("no /proc/self/stat")?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<f64>);
    match (fields.next(), fields.next()) {
        (Some(Ok(program)), Some(Ok(kernel))) => Ok([program, kernel]),
        _ => Err("no times in /proc/self/stat".into()),
    }
}

impl Figures {
    /// From the times of all calls, and the time that they took together.
    fn new(mut times: Vec<u64>, took: Duration, before: [f64; 2]) -> Result<Self, Failure> {
        if times.is_empty() {
            return Err("no call ended in time".into());
        }
        times.sort_unstable();
        let at = |part: f64| times[(times.len() as f64 * part) as usize] as f64;
        let per_s = times.len() as f64 / took.as_secs_f64();
        let after = cpu_ticks()?;
        let per_call = |at: usize| (after[at] - before[at]) * 10e6 / times.len() as f64;
        let (program_ns, kernel_ns) = (per_call(0), per_call(1));
        Ok(Self { p50_ns: at(0.5), p99_ns: at(0.99), per_s, program_ns, kernel_ns })
    }

    /// Prints them for the supervisor.
    pub fn print(self) {
        let Self { p50_ns, p99_ns, per_s, program_ns, kernel_ns } = self;
        println!("{p50_ns} {p99_ns} {per_s} {program_ns} {kernel_ns}");
    }
}

impl FromStr for Figures {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let numbers: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [p50_ns, p99_ns, per_s, program_ns, kernel_ns] = numbers[..] else {
            return Err(format!("these are no figures: {line}").into());
        };
        Ok(Self { p50_ns, p99_ns, per_s, program_ns, kernel_ns })
    }
}

/// Calls one after the other.
pub fn measure(
    length: Duration,
    mut call: impl FnMut() -> Result<(), Failure>,
) -> Result<Figures, Failure> {
    for _ in 0..WARM_UP {
        call()?;
    }
    let (mut times, before, begin) = (vec![], cpu_ticks()?, Instant::now());
    let mut now = begin;
    while now - begin < length {
        call()?;
        let end = Instant::now();
        times.push((end - now).as_nanos() as u64);
        now = end;
    }
    Figures::new(times, now - begin, before)
}

/// Keeps calls in flight, each from a task of its own that calls again and again.
pub async fn measure_tasks<F>(work: &Work, call: impl Fn() -> F) -> Result<Figures, Failure>
where
    F: Future<Output = Result<(), Failure>> + 'static,
{
    for _ in 0..WARM_UP {
        call().await?;
    }
    let times = Rc::new(RefCell::new(vec![]));
    let (before, begin) = (cpu_ticks()?, Instant::now());
    let caller = || async {
        let mut now = Instant::now();
        while now - begin < work.length {
            call().await?;
            let end = Instant::now();
            times.borrow_mut().push((end - now).as_nanos() as u64);
            now = end;
        }
        Ok::<(), Failure>(())
    };
    futures_util::future::try_join_all((0..work.in_flight).map(|_| caller())).await?;
    Figures::new(times.take(), begin.elapsed(), before)
}

/// Whether the answer is the request.
pub fn check(answer: &[u8], request: &[u8]) -> Result<(), Failure> {
    if answer == request { Ok(()) } else { Err("the answer is not the request".into()) }
}
