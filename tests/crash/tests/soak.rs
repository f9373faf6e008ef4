//! T13: up to 200 processes bind, call and die at random. Afterwards the daemon holds what it held
//! before.
//!
//! 60 seconds, or `M3_SOAK_SECONDS`.

use m3ipc::VmConfig;
use m3ipc_crash::CrashFixture;
use m3ipc_test_fixture::Rng;
use m3ipc_test_fixture::program;
use m3ipc_test_fixture::resources::{
    ProcessResources, left_in_directory, left_in_shm, unix_sockets,
};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROCESSES_MAX: usize = 200;
/// Processes that start at once, so that the number grows while others call.
const STARTS: usize = 8;
/// The heap of the daemon may grow by this between the warm-up and the end, in kB.
const RSS_SLACK_KB: u64 = 1_024;

fn seconds() -> u64 {
    std::env::var("M3_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// The living processes, and counts of all.
#[derive(Default)]
struct Processes {
    living: Vec<Child>,
    started: u64,
    peak: usize,
    wrong: u64,
    killed: u64,
}

impl Processes {
    fn start(&mut self, fixture: &CrashFixture, rng: &mut Rng) {
        let mut command = Command::new(program("m3-tests-peer"));
        let seed = rng.below(u64::MAX).to_string();
        let actions = (1 + rng.below(60)).to_string();
        command.arg("soak").arg(fixture.directory()).args(["soak", &seed, &actions]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a process starts");
        self.living.push(child);
        self.started += 1;
        self.peak = self.peak.max(self.living.len());
    }

    fn kill(&mut self, rng: &mut Rng) {
        if !self.living.is_empty() {
            let at = rng.index(self.living.len());
            let _ = self.living[at].kill();
            self.killed += 1;
        }
    }

    /// Waits for the processes that have ended; an exit code other than 0 is a fault.
    fn reap(&mut self) {
        let mut wrong = 0;
        self.living.retain_mut(|child| match child.try_wait() {
            Ok(Some(status)) => {
                wrong += u64::from(status.code().is_some_and(|code| code != 0));
                false
            }
            _ => true,
        });
        self.wrong += wrong;
    }

    fn run(&mut self, fixture: &CrashFixture, rng: &mut Rng, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for _ in 0..STARTS.min(PROCESSES_MAX - self.living.len()) {
                self.start(fixture, rng);
            }
            std::thread::sleep(Duration::from_millis(10));
            if rng.below(4) == 0 {
                self.kill(rng);
            }
            self.reap();
        }
    }

    fn end(&mut self) {
        while !self.living.is_empty() {
            self.reap();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What the daemon holds once it has no records.
fn at_rest(fixture: &CrashFixture, daemon: i32) -> ProcessResources {
    fixture.until("the daemon has no records", || {
        let info = fixture.info();
        info.endpoints == 0 && info.links == 0
    });
    // The connections of these requests close a moment later.
    ProcessResources::at_rest(daemon, fixture.directory())
}

#[test]
fn what_the_daemon_holds_returns_to_what_it_was() {
    m3ipc_test_fixture::watchdog(seconds() + 240);
    let fixture = CrashFixture::with("soak", &["--procs", "1000"]);
    fixture.node().vm_init(&VmConfig::new("soak").procs(1_000)).expect("a VM");
    let daemon = fixture.daemon_pid().expect("a daemon");
    let mut rng = Rng::new();
    println!("seed {}", rng.seed());
    let mut processes = Processes::default();
    processes.run(&fixture, &mut rng, Duration::from_secs((seconds() / 4).clamp(3, 15)));
    processes.end();
    let before = at_rest(&fixture, daemon);
    let sockets = unix_sockets(fixture.directory());
    processes.run(&fixture, &mut rng, Duration::from_secs(seconds()));
    processes.end();
    let after = at_rest(&fixture, daemon);
    let differences = before.differences(&after);
    let left = unix_sockets(fixture.directory()).saturating_sub(sockets);
    let growth_kb = after.rss_kb.saturating_sub(before.rss_kb);
    println!(
        "T13 soak: {} s, {} processes ({} at once, {} killed), wrong ends {}, \
         daemon: descriptors {} -> {}, mappings {} -> {}, threads {} -> {}, sockets left {left}, \
         memory +{growth_kb} kB of {RSS_SLACK_KB} allowed ({} kB/h), seed {}",
        seconds(),
        processes.started,
        processes.peak,
        processes.killed,
        processes.wrong,
        before.open(),
        after.open(),
        before.maps.values().sum::<usize>(),
        after.maps.values().sum::<usize>(),
        before.threads,
        after.threads,
        growth_kb * 3_600 / seconds().max(1),
        rng.seed()
    );
    assert_eq!(differences, [""; 0], "what the daemon holds");
    assert_eq!((processes.wrong, left), (0, 0));
    assert!(growth_kb <= RSS_SLACK_KB, "the daemon grows");
    assert_eq!(left_in_shm(), [""; 0]);
    assert_eq!(left_in_directory(fixture.directory()), [""; 0]);
}

/// The suite can fail: a member that stays behind shows in every column.
#[test]
fn a_member_left_behind_is_found() {
    let fixture = CrashFixture::new("soak-planted");
    fixture.node().vm_init(&VmConfig::new("soak")).expect("a VM");
    let daemon = fixture.daemon_pid().expect("a daemon");
    let before = at_rest(&fixture, daemon);
    let mut leak = fixture.peer("serve", &["soak", "1", "any", "0"]);
    leak.bound();
    // The bind returns before the daemon has mapped the member's page.
    for wanted in
        ["mappings of m3-control", "descriptors of socket", "descriptors of /memfd:m3-status"]
    {
        fixture.until(wanted, || {
            before.differences(&ProcessResources::of(daemon)).join("; ").contains(wanted)
        });
    }
}
