//! Two processes on real sockets: streams of random pieces in both directions at once, deaths,
//! speed.
//!
//! The other process is this program again. It runs the test `partner` alone, with a job in its
//! environment. `M3_SHIM_BYTES` sets the length of each stream (CI: 8 MB; 1 GB and more for a long
//! run):
//!
//! ```text
//! M3_SHIM_BYTES=1073741824 cargo test --release -p m3ipc-shim --test processes -- --nocapture
//! cargo test --release -p m3ipc-shim --test processes -- --ignored --nocapture speed
//! ```
#![allow(unsafe_code, clippy::unwrap_used)]

mod end;

use end::{End, drain, pour};
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The settings of both processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    unix: bool,
    ring_bytes: u32,
    always_wake: bool,
    spin_ns: u32,
    through_library: bool,
}

impl Plan {
    fn prepare(self) {
        prepare(Settings {
            ring_bytes: self.ring_bytes,
            upgrade_after_calls: 0,
            always_wake: self.always_wake,
            spin_ns: self.spin_ns,
            same_process: false,
            pins_bulk: false,
            rests: true,
            // Then the kernel may carry all messages.
            by_message: self.spin_ns > 0,
            on: true,
        });
    }

    fn encode(self) -> String {
        let Self { unix, ring_bytes, always_wake, spin_ns, through_library } = self;
        format!(
            "{} {ring_bytes} {} {spin_ns} {}",
            u8::from(unix),
            u8::from(always_wake),
            u8::from(through_library)
        )
    }

    fn decode(text: &str) -> Self {
        let parts: Vec<u32> = text.split(' ').map(|part| part.parse().unwrap()).collect();
        Self {
            unix: parts[0] == 1,
            ring_bytes: parts[1],
            always_wake: parts[2] == 1,
            spin_ns: parts[3],
            through_library: parts[4] == 1,
        }
    }
}

/// A directory for the ring file, and the partner; both end when dropped.
struct Fixture {
    home: PathBuf,
    partner: Option<Child>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(mut partner) = self.partner.take() {
            let _ = partner.kill();
            let _ = partner.wait();
        }
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn home() -> PathBuf {
    static HOME: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    HOME.get_or_init(|| {
        let home = std::env::temp_dir().join(format!("m3-processes-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        // SAFETY: before anything here looks at the environment.
        unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
        home
    })
    .clone()
}

/// Starts a partner for this job; our end of the connection.
fn connect(plan: Plan, job: &str) -> (Fixture, End) {
    let home = home();
    let base = home.join(job.replace(' ', "-"));
    std::fs::create_dir_all(&base).unwrap();
    plan.prepare();
    let path = base.join("socket");
    let _ = std::fs::remove_file(&path);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let partner = Command::new(std::env::current_exe().unwrap())
        .args(["partner", "--exact", "--nocapture", "--test-threads=1"])
        .env("M3_SHIM_TEST", plan.encode())
        .env("M3_SHIM_TEST_JOB", job)
        .env("M3_SHIM_TEST_PATH", &path)
        .env("M3_SHIM_TEST_PORT", tcp.local_addr().unwrap().port().to_string())
        .env("M3_RUNTIME_DIR", &home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let fd =
        if plan.unix { unix.accept().unwrap().0.into() } else { tcp.accept().unwrap().0.into() };
    (Fixture { home: base, partner: Some(partner) }, End::new(fd, plan.through_library))
}

fn rng(seed: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed)
}

fn bytes() -> u64 {
    std::env::var("M3_SHIM_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(8 << 20)
}

/// The other process; does nothing without a job.
#[test]
fn partner() {
    let Ok(plan) = std::env::var("M3_SHIM_TEST") else { return };
    let plan = Plan::decode(&plan);
    plan.prepare();
    let fd = if plan.unix {
        UnixStream::connect(std::env::var("M3_SHIM_TEST_PATH").unwrap()).unwrap().into()
    } else {
        let port: u16 = std::env::var("M3_SHIM_TEST_PORT").unwrap().parse().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.into()
    };
    let end = End::new(fd, plan.through_library);
    let job = std::env::var("M3_SHIM_TEST_JOB").unwrap();
    let mut words = job.split(' ');
    match words.next().unwrap() {
        "streams" => streams(&end, 1, bytes()),
        "echo" => echo(&end, words.next().unwrap().parse().unwrap()),
        "die" => {
            // The partner sends and receives until it is killed.
            std::thread::scope(|scope| {
                scope.spawn(|| pour(&end, 1, u64::MAX, &mut rng(1)));
                scope.spawn(|| drain(&end, 0, u64::MAX, &mut rng(2)));
            });
        }
        other => panic!("{other}"),
    }
}

/// A few round trips: neither end is behind, so both directions switch to their rings, however slow
/// the machine is.
fn greet(end: &End, own: u64) {
    let mut message = [7; 32];
    for _ in 0..50 {
        if own == 0 {
            end.send_all(&message).unwrap();
        }
        end.receive_all(&mut message).unwrap();
        if own == 1 {
            end.send_all(&message).unwrap();
        }
    }
    assert_eq!(message, [7; 32]);
}

/// Sends one stream and receives the other, at the same time.
fn streams(end: &End, own: u64, bytes: u64) {
    greet(end, own);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pour(end, own, bytes, &mut rng(own + 7)).unwrap();
            end.end_sending();
        });
        let got = drain(end, 1 - own, u64::MAX, &mut rng(own + 11)).unwrap();
        assert_eq!(got, bytes, "the stream ended early, or too late");
    });
}

/// Sends messages of this size back until the end.
fn echo(end: &End, size: usize) {
    let mut message = vec![0; size];
    while end.receive_all(&mut message).is_ok() {
        if end.send_all(&message).is_err() {
            return;
        }
    }
}

const PLANS: [Plan; 6] = [
    Plan {
        unix: false,
        ring_bytes: 65536,
        always_wake: false,
        spin_ns: 50_000,
        through_library: true,
    },
    Plan {
        unix: true,
        ring_bytes: 65536,
        always_wake: false,
        spin_ns: 50_000,
        through_library: true,
    },
    Plan { unix: false, ring_bytes: 64, always_wake: false, spin_ns: 0, through_library: true },
    Plan { unix: true, ring_bytes: 64, always_wake: true, spin_ns: 20_000, through_library: true },
    Plan { unix: false, ring_bytes: 4096, always_wake: true, spin_ns: 0, through_library: true },
    Plan { unix: true, ring_bytes: 4096, always_wake: false, spin_ns: 0, through_library: true },
];

#[test]
fn streams_of_random_pieces_arrive_as_they_were_sent() {
    if std::env::var_os("M3_SHIM_TEST").is_some() {
        return;
    }
    for plan in PLANS {
        let before =
            [Counter::RingBytes, Counter::KernelBytes, Counter::Wakeups, Counter::Overflows]
                .map(counters::read);
        let began = Instant::now();
        let (mut fixture, end) = connect(plan, "streams");
        streams(&end, 0, bytes());
        drop(end);
        assert!(fixture.partner.take().unwrap().wait().unwrap().success(), "{plan:?}");
        let after =
            [Counter::RingBytes, Counter::KernelBytes, Counter::Wakeups, Counter::Overflows]
                .map(counters::read);
        let [ring, kernel, wakeups, overflows] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
        println!(
            "{plan:?}: ring {ring} kernel {kernel} wakeups {wakeups} overflows {overflows} {:?}",
            began.elapsed()
        );
        assert!(ring > 0 || plan.spin_ns > 0, "{plan:?}: no byte went through the ring");
    }
    assert_eq!(counters::read(Counter::Corrupt), 0);
    deaths();
    let _ = std::fs::remove_dir_all(home());
}

/// Kills a partner that sends and receives, at any moment. The bytes before its end are right; then
/// the stream ends or fails.
fn deaths() {
    for (number, plan) in PLANS.into_iter().cycle().take(12).enumerate() {
        let (mut fixture, end) = connect(plan, "die");
        let mut killed = fixture.partner.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let error = pour(&end, 0, u64::MAX, &mut rng(3)).unwrap_err();
                assert!(
                    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                    "{error}"
                );
            });
            scope.spawn(|| {
                if let Err(error) = drain(&end, 1, u64::MAX, &mut rng(4)) {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{plan:?}");
                }
            });
            std::thread::sleep(Duration::from_millis(3 + 7 * number as u64));
            killed.kill().unwrap();
            killed.wait().unwrap();
        });
    }
}

/// Round trips of small messages, native and through the library. Prints; asserts nothing on time.
#[test]
#[ignore = "measures"]
fn speed() {
    for unix in [false, true] {
        for size in [1, 64, 1024, 16_384] {
            let mut line = format!("{} {size:>6} B:", if unix { "unix" } else { "tcp " });
            for (name, through_library, spin_ns) in
                [("native", false, 0), ("ring", true, 50_000), ("ring, no spin", true, 0)]
            {
                let plan =
                    Plan { unix, ring_bytes: 65536, always_wake: false, spin_ns, through_library };
                let (_fixture, end) = connect(plan, &format!("echo {size}"));
                let (mut message, rounds) = (vec![7; size], 40_000);
                let mut trip = || {
                    end.send_all(&message).unwrap();
                    end.receive_all(&mut message).unwrap();
                };
                (0..1000).for_each(|_| trip());
                let counts =
                    [Counter::Wakeups, Counter::SpinHits, Counter::SpinMisses, Counter::SpinNs];
                let before = counts.map(counters::read);
                let began = Instant::now();
                (0..rounds).for_each(|_| trip());
                let [wakeups, hits, misses, spin_ns] =
                    [0, 1, 2, 3].map(|at| counters::read(counts[at]) - before[at]);
                let took = began.elapsed();
                if through_library {
                    println!(
                        "    {name}: {wakeups} wakeups, {hits} spins of {} us paid, {misses} not",
                        spin_ns / 1000 / (hits + misses).max(1)
                    );
                }
                line += &format!("  {name} {:.2} us", took.as_secs_f64() * 1e6 / f64::from(rounds));
            }
            println!("{line}");
        }
    }
}
