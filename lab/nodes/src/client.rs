//! The client's loops. Each row is one of them, in a process of its own.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engines::Work;
use crate::line::{COPY, COPY_BYTES, ECHO, Engine, Line, SMALL_BYTES, start};

/// The bytes of a frame of a copy.
pub const CHUNK_BYTES: usize = 64 << 10;
const WARM: Duration = Duration::from_millis(200);
/// Time without an event in [`Task::Stall`].
pub const CALM: Duration = Duration::from_millis(1_000);
/// Time with the event.
pub const EVENT: Duration = Duration::from_millis(3_500);

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Task {
    /// Round trips, each after the other
    Hot,
    /// A round trip each millisecond
    Paced,
    /// 64 round trips at once on one line
    Many,
    /// Copies of 4 MB, one after the other
    Copy,
    /// `Hot`, beside copies
    HotCopy,
    /// `Paced`, beside copies
    PacedCopy,
    /// `Paced` to the first peer, while something happens to the second
    Stall,
    /// From the kill of the remote server to the caller's error
    Death,
    /// From the kill of the remote proxy to the error of a caller whose request was taken
    Closed,
    /// The same for a remote proxy that stops
    Silence,
    /// Local round trips without and with the proxy
    Local,
}

/// The figures of a row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// The median of the round trips in nanoseconds.
    pub p50_ns: u64,
    /// 99 in 100 of them are below this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Round trips, or bytes of copies, a second.
    pub per_s: f64,
    /// In `Stall`: the longest of the healthy pair before the event. In `Local`: the median
    /// without the proxy.
    pub calm_max_ns: u64,
    /// In `Stall`: frames to the second peer for which `send` returned `Ok`.
    pub sent: u64,
    /// In `Stall`: those of them without an answer.
    pub unanswered: u64,
    /// In `Stall`: after the event, when the line to the second peer failed, in nanoseconds.
    pub failed_ns: Option<u64>,
}

/// A client's work.
pub struct Client {
    /// The row.
    pub task: Task,
    /// The peers.
    pub to: Vec<SocketAddr>,
    /// Its length.
    pub length: Duration,
    /// The directory of the run.
    pub keys: PathBuf,
}

impl Work for Client {
    async fn run<E: Engine>(self, engine: &'static E) -> io::Result<()> {
        let (to, length) = (self.to[0], self.length);
        let mut line = engine.connect(to).await?;
        let figures = match self.task {
            Task::Hot => round_trips(&mut line, length, Duration::ZERO).await?,
            Task::Paced => round_trips(&mut line, length, PACE).await?,
            Task::Many => match line.callers(length) {
                Ok(per_s) => Figures { per_s: per_s?, ..Figures::default() },
                Err(mut line) => many(&mut line, length).await?,
            },
            Task::Copy => copies(&mut line, length).await?,
            Task::HotCopy | Task::PacedCopy => {
                start(engine, async move |engine: &'static E| {
                    if let Ok(mut line) = engine.connect(to).await {
                        match copies(&mut line, Duration::from_secs(60)).await {
                            Ok(_) => {}
                            Err(error) => eprintln!("m3-nodes: copies: {error}"),
                        }
                    }
                });
                tokio::time::sleep(WARM).await;
                let pace = if self.task == Task::HotCopy { Duration::ZERO } else { PACE };
                let before = COPIED.load(Relaxed);
                let begin = Instant::now();
                let figures = round_trips(&mut line, length, pace).await?;
                let copied = COPIED.load(Relaxed) - before;
                Figures { per_s: copied as f64 / begin.elapsed().as_secs_f64(), ..figures }
            }
            task @ (Task::Death | Task::Closed | Task::Silence | Task::Local) => {
                line.special(task, &self.keys, length)?
            }
            Task::Stall => stall(engine, &mut line, self.to[1]).await?,
        };
        println!("{}", serde_json::to_string(&figures)?);
        // Threads may hang at the peer.
        std::process::exit(0)
    }
}

const PACE: Duration = Duration::from_millis(1);
/// The bytes of finished copies and frames of this process.
static COPIED: AtomicU64 = AtomicU64::new(0);

async fn exchange(line: &mut impl Line, number: u64, frame: &mut Vec<u8>) -> io::Result<u64> {
    let mut message = [ECHO; SMALL_BYTES];
    message[8..16].copy_from_slice(&number.to_le_bytes());
    let begin = Instant::now();
    line.send(&message, true).await?;
    line.receive(frame).await?;
    let ns = u64::try_from(begin.elapsed().as_nanos()).map_err(io::Error::other)?;
    if frame[..] == message { Ok(ns) } else { Err(io::Error::other("an answer has changed")) }
}

async fn round_trips(
    line: &mut impl Line,
    length: Duration,
    pace: Duration,
) -> io::Result<Figures> {
    let (mut times, mut frame) = (vec![], vec![]);
    let begin = Instant::now();
    let mut number = 0;
    while begin.elapsed() < length + WARM {
        let ns = exchange(line, number, &mut frame).await?;
        number += 1;
        if begin.elapsed() > WARM {
            times.push(ns);
        }
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
    }
    let count = times.len() as f64;
    Ok(Figures { per_s: count / length.as_secs_f64(), ..figures(times) })
}

pub fn figures(mut times: Vec<u64>) -> Figures {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(0);
    let max_ns = times.last().copied().unwrap_or(0);
    Figures { p50_ns: at(50), p99_ns: at(99), max_ns, ..Figures::default() }
}

async fn many(line: &mut impl Line, length: Duration) -> io::Result<Figures> {
    let (message, mut frame) = ([ECHO; SMALL_BYTES], vec![]);
    for number in 1..=64 {
        line.send(&message, number == 64).await?;
    }
    let begin = Instant::now();
    let mut trips = 0_u64;
    while begin.elapsed() < length {
        line.receive(&mut frame).await?;
        trips += 1;
        line.send(&message, !line.has_more()).await?;
    }
    Ok(Figures { per_s: trips as f64 / begin.elapsed().as_secs_f64(), ..Figures::default() })
}

async fn copies(line: &mut impl Line, length: Duration) -> io::Result<Figures> {
    let data = vec![COPY; CHUNK_BYTES];
    let mut frame = vec![];
    let begin = Instant::now();
    let mut bytes = 0_u64;
    while begin.elapsed() < length {
        if let Some(copied) = line.copy() {
            copied?;
            COPIED.fetch_add(COPY_BYTES as u64, Relaxed);
            bytes += COPY_BYTES as u64;
            continue;
        }
        for _ in 0..COPY_BYTES / CHUNK_BYTES {
            line.send(&data, true).await?;
            COPIED.fetch_add(CHUNK_BYTES as u64, Relaxed);
        }
        line.receive(&mut frame).await?;
        bytes += COPY_BYTES as u64;
    }
    Ok(Figures { per_s: bytes as f64 / begin.elapsed().as_secs_f64(), ..Figures::default() })
}

static SENT: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// When the line to the second peer failed, in nanoseconds after the begin; 0 before.
static FAILED: AtomicU64 = AtomicU64::new(0);

/// The healthy pair beside a second peer with small frames and copies.
async fn stall<E: Engine>(
    engine: &'static E,
    line: &mut E::Line,
    second: SocketAddr,
) -> io::Result<Figures> {
    let begin = Instant::now();
    start(engine, async move |engine: &'static E| {
        if let Err(error) = to_second(engine, second).await {
            let ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            FAILED.store(ns, Relaxed);
            eprintln!("m3-nodes: the line to the second peer failed: {error}");
        }
    });
    start(engine, async move |engine: &'static E| {
        if let Ok(mut line) = engine.connect(second).await {
            // Its end is reported by the other line.
            let _ = copies(&mut line, Duration::from_secs(60)).await;
        }
    });
    let (mut calm, mut times, mut frame, mut number) = (0, vec![], vec![], 0);
    // The supervisor reads this line, waits for the calm, and then lets the event happen.
    println!("begin");
    while begin.elapsed() < CALM + EVENT {
        let at = begin.elapsed();
        let ns = exchange(line, number, &mut frame).await?;
        number += 1;
        if at > CALM {
            times.push(ns);
        } else if at > WARM {
            calm = ns.max(calm);
        }
        tokio::time::sleep(PACE).await;
    }
    let (sent, answered) = (SENT.load(Relaxed), ANSWERED.load(Relaxed));
    let event_ns = u64::try_from(CALM.as_nanos()).map_err(io::Error::other)?;
    let failed_ns = Some(FAILED.load(Relaxed)).filter(|&at| at > 0);
    Ok(Figures {
        calm_max_ns: calm,
        sent,
        unanswered: sent - answered,
        failed_ns: failed_ns.map(|at| at.saturating_sub(event_ns)),
        ..figures(times)
    })
}

/// One frame each two milliseconds, sent whether or not answers come.
async fn to_second<E: Engine>(engine: &'static E, second: SocketAddr) -> io::Result<()> {
    let mut line = engine.connect(second).await?;
    let mut frame = vec![];
    loop {
        line.send(&[ECHO; SMALL_BYTES], true).await?;
        SENT.fetch_add(1, Relaxed);
        // A receiver that waits for each answer would stop sending.
        let answer = tokio::time::timeout(2 * PACE, line.receive(&mut frame)).await;
        if let Ok(answer) = answer {
            answer?;
            ANSWERED.fetch_add(1, Relaxed);
        }
        tokio::time::sleep(PACE).await;
    }
}
