//! Two processes on real sockets: streams of random pieces both ways at once, deaths, speed.
//!
//! The other process is this program again, which runs the test `partner` alone, told by its environment what to do.
//! `M3_PRELOAD_BYTES` is how much each stream carries (CI: 8 MB; 1 GB and more for a long run):
//!
//! ```text
//! M3_PRELOAD_BYTES=1073741824 cargo test --release -p m3ipc-shim --test two -- --nocapture
//! cargo test --release -p m3ipc-shim --test two -- --ignored --nocapture speed
//! ```
#![cfg(not(loom))]
#![allow(unsafe_code, clippy::unwrap_used)]

mod end;

use end::{Dice, End, drain, pour};
use m3ipc_shim::count::{self, Count};
use m3ipc_shim::engine::{Settings, settle};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a partner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    unix: bool,
    ring_bytes: u32,
    always_token: bool,
    spin_ns: u32,
    engine: bool,
}

impl Plan {
    fn settle(self) {
        settle(Settings {
            ring_bytes: self.ring_bytes,
            upgrade_after_calls: 0,
            always_token: self.always_token,
            spin_ns: self.spin_ns,
            same_process: false,
            on: true,
        });
    }

    fn encode(self) -> String {
        let Self { unix, ring_bytes, always_token, spin_ns, engine } = self;
        format!(
            "{} {ring_bytes} {} {spin_ns} {}",
            u8::from(unix),
            u8::from(always_token),
            u8::from(engine)
        )
    }

    fn decode(text: &str) -> Self {
        let parts: Vec<u32> = text.split(' ').map(|part| part.parse().unwrap()).collect();
        Self {
            unix: parts[0] == 1,
            ring_bytes: parts[1],
            always_token: parts[2] == 1,
            spin_ns: parts[3],
            engine: parts[4] == 1,
        }
    }
}

/// A directory for the registry, and the partner; both go when dropped.
struct Field {
    home: PathBuf,
    partner: Option<Child>,
}

impl Drop for Field {
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
        let home = std::env::temp_dir().join(format!("m3-two-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        // SAFETY: before anything here looks at the environment.
        unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
        home
    })
    .clone()
}

/// Starts a partner for this job, and gives our end of the connection.
fn field(plan: Plan, job: &str) -> (Field, End) {
    let home = home();
    let base = home.join(job.replace(' ', "-"));
    std::fs::create_dir_all(&base).unwrap();
    plan.settle();
    let path = base.join("socket");
    let _ = std::fs::remove_file(&path);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let partner = Command::new(std::env::current_exe().unwrap())
        .args(["partner", "--exact", "--nocapture", "--test-threads=1"])
        .env("M3_TWO", plan.encode())
        .env("M3_TWO_JOB", job)
        .env("M3_TWO_PATH", &path)
        .env("M3_TWO_PORT", tcp.local_addr().unwrap().port().to_string())
        .env("M3_RUNTIME_DIR", &home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let fd =
        if plan.unix { unix.accept().unwrap().0.into() } else { tcp.accept().unwrap().0.into() };
    (Field { home: base, partner: Some(partner) }, End::new(fd, plan.engine))
}

fn bytes() -> u64 {
    std::env::var("M3_PRELOAD_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(8 << 20)
}

/// The other process; nothing where nobody asks for one.
#[test]
fn partner() {
    let Ok(plan) = std::env::var("M3_TWO") else { return };
    let plan = Plan::decode(&plan);
    plan.settle();
    let fd = if plan.unix {
        UnixStream::connect(std::env::var("M3_TWO_PATH").unwrap()).unwrap().into()
    } else {
        let port: u16 = std::env::var("M3_TWO_PORT").unwrap().parse().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.into()
    };
    let end = End::new(fd, plan.engine);
    let job = std::env::var("M3_TWO_JOB").unwrap();
    let mut words = job.split(' ');
    match words.next().unwrap() {
        "streams" => streams(&end, 1, bytes()),
        "echo" => echo(&end, words.next().unwrap().parse().unwrap()),
        "die" => {
            // Sends and receives until it is killed.
            std::thread::scope(|scope| {
                scope.spawn(|| pour(&end, 1, u64::MAX, &mut Dice(1)));
                scope.spawn(|| drain(&end, 0, u64::MAX, &mut Dice(2)));
            });
        }
        other => panic!("{other}"),
    }
}

/// A few messages there and back: nobody is behind, so both ways turn to their rings however slow the machine is.
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
            pour(end, own, bytes, &mut Dice(own + 7)).unwrap();
            end.end_sending();
        });
        let got = drain(end, 1 - own, u64::MAX, &mut Dice(own + 11)).unwrap();
        assert_eq!(got, bytes, "the stream ended early, or too late");
    });
}

/// Gives back messages of this size until the end.
fn echo(end: &End, size: usize) {
    let mut message = vec![0; size];
    while end.receive_all(&mut message).is_ok() {
        if end.send_all(&message).is_err() {
            return;
        }
    }
}

const PLANS: [Plan; 6] = [
    Plan { unix: false, ring_bytes: 65536, always_token: false, spin_ns: 50_000, engine: true },
    Plan { unix: true, ring_bytes: 65536, always_token: false, spin_ns: 50_000, engine: true },
    Plan { unix: false, ring_bytes: 64, always_token: false, spin_ns: 0, engine: true },
    Plan { unix: true, ring_bytes: 64, always_token: true, spin_ns: 20_000, engine: true },
    Plan { unix: false, ring_bytes: 4096, always_token: true, spin_ns: 0, engine: true },
    Plan { unix: true, ring_bytes: 4096, always_token: false, spin_ns: 0, engine: true },
];

#[test]
fn streams_of_random_pieces_arrive_as_they_were_sent() {
    if std::env::var_os("M3_TWO").is_some() {
        return;
    }
    for plan in PLANS {
        let before = [Count::RingBytes, Count::KernelBytes, Count::Tokens, Count::Overflows]
            .map(count::read);
        let began = Instant::now();
        let (mut field, end) = field(plan, "streams");
        streams(&end, 0, bytes());
        drop(end);
        assert!(field.partner.take().unwrap().wait().unwrap().success(), "{plan:?}");
        let after = [Count::RingBytes, Count::KernelBytes, Count::Tokens, Count::Overflows]
            .map(count::read);
        let [ring, kernel, tokens, overflows] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
        println!(
            "{plan:?}: ring {ring} kernel {kernel} tokens {tokens} overflows {overflows} {:?}",
            began.elapsed()
        );
        assert!(ring > 0, "{plan:?}: nothing went through the ring");
    }
    assert_eq!(count::read(Count::Nonsense), 0);
    deaths();
    let _ = std::fs::remove_dir_all(home());
}

/// Kills a partner that sends and receives at any moment: what came before its end is right, then there is an end or an error.
fn deaths() {
    for (number, plan) in PLANS.into_iter().cycle().take(12).enumerate() {
        let (mut field, end) = field(plan, "die");
        let mut killed = field.partner.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let error = pour(&end, 0, u64::MAX, &mut Dice(3)).unwrap_err();
                assert!(
                    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                    "{error}"
                );
            });
            scope.spawn(|| {
                if let Err(error) = drain(&end, 1, u64::MAX, &mut Dice(4)) {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{plan:?}");
                }
            });
            std::thread::sleep(Duration::from_millis(3 + 7 * number as u64));
            killed.kill().unwrap();
            killed.wait().unwrap();
        });
    }
}

/// Round trips of small messages, native and through the engine. Prints; asserts nothing about time.
#[test]
#[ignore = "measures"]
fn speed() {
    for unix in [false, true] {
        for size in [1, 64, 1024, 16_384] {
            let mut line = format!("{} {size:>6} B:", if unix { "unix" } else { "tcp " });
            for (name, engine, spin_ns) in
                [("native", false, 0), ("ring", true, 50_000), ("ring, no spin", true, 0)]
            {
                let plan = Plan { unix, ring_bytes: 65536, always_token: false, spin_ns, engine };
                let (_field, end) = field(plan, &format!("echo {size}"));
                let (mut message, rounds) = (vec![7; size], 40_000);
                let mut trip = || {
                    end.send_all(&message).unwrap();
                    end.receive_all(&mut message).unwrap();
                };
                (0..1000).for_each(|_| trip());
                let counts = [Count::Tokens, Count::SpinHits, Count::SpinMisses, Count::SpinNs];
                let before = counts.map(count::read);
                let began = Instant::now();
                (0..rounds).for_each(|_| trip());
                let [tokens, hits, misses, spin_ns] =
                    [0, 1, 2, 3].map(|at| count::read(counts[at]) - before[at]);
                let took = began.elapsed();
                if engine {
                    println!(
                        "    {name}: {tokens} tokens, {hits} looks paid, {misses} not, {} us each",
                        spin_ns / 1000 / (hits + misses).max(1)
                    );
                }
                line += &format!("  {name} {:.2} us", took.as_secs_f64() * 1e6 / f64::from(rounds));
            }
            println!("{line}");
        }
    }
}
