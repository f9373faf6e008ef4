//! `m3-tests-attacks`: what a pair of one user and the binds of another keep under each attack.
//!
//! The pair runs on the first CPU, and so does the process that binds, while the pair rests. The
//! daemon, the attackers and the victim of the attack share the second CPU. Slices of time with the
//! attack alternate with slices in which the attackers are stopped and a loop of system calls
//! keeps the second CPU as busy: two CPUs of one core slow each other down whatever they do.
//!
//! The bounds are those of the threat model: 90 % of the rate, 10 ms for a bind in the median and
//! 100 ms at worst. A figure beyond its bound is marked with `!`, and the program then fails.

mod attack;

use attack::{ATTACKS, Attack, Target};
use m3ipc::VmConfig;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::signals::{resume, stop};
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, is_root};
use std::process::ExitCode;
use std::time::Duration;

/// The CPU of the pair, and that of the daemon and the attackers.
const OWN_CPU: &str = "0";
const SHARED_CPU: usize = 1;
/// The VM of the pair.
const VM: &str = "measured";
/// One measurement of the pair in milliseconds, and the measurements of one attack.
const SLICE_MS: u64 = 200;
const SLICES: usize = 9;
/// Binds under one attack.
const BINDS: &str = "150";
/// The time in which an attack gets going.
const BEGIN: Duration = Duration::from_millis(500);

/// The pair, the process that binds, the busy neighbour, and the node.
struct Fixture {
    node: UserNode,
    _answerer: MemberProcess,
    caller: MemberProcess,
    binder: MemberProcess,
    neighbour: MemberProcess,
    target: Target,
}

/// The figures of one attack. Rates are calls of one slice.
struct Figures {
    beside_neighbour: u64,
    attacked: u64,
    failed_calls: u64,
    median_us: u64,
    worst_us: u64,
    failed_binds: u64,
}

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect();
    if !is_root("attacks") {
        return ExitCode::SUCCESS;
    }
    if let Err(errno) = m3ipc_sys::pin_to(SHARED_CPU) {
        println!("SKIP attacks: no second CPU for the daemon and the attackers ({errno})");
        return ExitCode::SUCCESS;
    }
    println!("{:<12} {:>10} {:>10} {:>7}  bind ms", "attack", "calls/s", "calls/s", "ratio");
    println!(
        "{:<12} {:>10} {:>10} {:>7} {:>8} {:>8}",
        "", "without", "attacked", "", "median", "worst"
    );
    let wanted = |attack: &&Attack| only.is_empty() || only.iter().any(|name| *name == attack.name);
    let kept = ATTACKS.iter().filter(wanted).filter(|attack| {
        let figures = Fixture::new(attack).measure(attack);
        figures.print(attack.name)
    });
    let (kept, all) = (kept.count(), ATTACKS.iter().filter(wanted).count());
    println!("{kept} of {all} attacks within the bounds");
    if kept == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Fixture {
    fn new(attack: &Attack) -> Self {
        let (name, procs) = (format!("attacks-{}", attack.name), attack.procs.to_string());
        let node = UserNode::start_with(&name, 0, true, &["--procs", &procs]);
        let config = VmConfig::new(VM).mode(0o755).procs(attack.procs);
        let vm = node.node().vm_init(&config).expect("a VM");
        let mut area_owner = vm.bind_any().expect("a slot");
        let area = area_owner.create_area(&m3ipc::AreaConfig::vm(1 << 20)).expect("an area");
        area.keep();
        let member = |user, role, words: &[&str]| {
            let words: Vec<&str> =
                [node.path(), VM, OWN_CPU].iter().chain(words).copied().collect();
            hostile_process(user, role, &words)
        };
        let mut answerer = member(USERS[0], "answerer", &[]);
        let mut caller = member(USERS[0], "caller", &[&answerer.line()]);
        let _address = caller.line();
        let mut binder = member(USERS[1], "binder", &[]);
        assert_eq!(binder.line(), "ready");
        let mut neighbour = hostile_process(USERS[2], "neighbour", &[]);
        assert_eq!(neighbour.line(), "ready");
        stop(neighbour.pid());
        let cpu = SHARED_CPU.to_string();
        let target = Target::new([node.path(), VM, &cpu], area_owner, area.id());
        Self { node, _answerer: answerer, caller, binder, neighbour, target }
    }

    /// Calls of the pair in one slice, and failed ones.
    fn slice(&mut self) -> (u64, u64) {
        let [calls, failed] = numbers(&self.caller.ask(&SLICE_MS.to_string()));
        (calls, failed)
    }

    fn measure(mut self, attack: &Attack) -> Figures {
        let attackers = attack.start(self.node.path(), VM, &self.target);
        std::thread::sleep(BEGIN);
        let (mut without, mut with, mut failed_calls) = (Vec::new(), Vec::new(), 0);
        for _ in 0..SLICES {
            attackers.iter().for_each(|attacker| stop(attacker.pid()));
            resume(self.neighbour.pid());
            without.push(self.slice().0);
            stop(self.neighbour.pid());
            attackers.iter().for_each(|attacker| resume(attacker.pid()));
            let (calls, failed) = self.slice();
            with.push(calls);
            failed_calls += failed;
        }
        let [median_us, worst_us, failed_binds] = numbers(&self.binder.ask(BINDS));
        drop(attackers);
        let (beside_neighbour, attacked) = (median(without), median(with));
        Figures { beside_neighbour, attacked, failed_calls, median_us, worst_us, failed_binds }
    }
}

fn median(mut counts: Vec<u64>) -> u64 {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

/// The numbers of a line; 0 for each one that is missing.
fn numbers<const N: usize>(line: &str) -> [u64; N] {
    let mut words = line.split(' ').map(|word| word.parse().unwrap_or(0));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

impl Figures {
    /// Prints a row; whether all figures are within their bounds.
    #[allow(clippy::cast_precision_loss, reason = "counts of a second are small")]
    fn print(&self, name: &str) -> bool {
        let slices_per_s = 1000 / SLICE_MS;
        let ratio = 100.0 * self.attacked as f64 / self.beside_neighbour.max(1) as f64;
        let (median, worst) = (self.median_us as f64 / 1e3, self.worst_us as f64 / 1e3);
        let within = [ratio >= 90.0, median <= 10.0, worst <= 100.0];
        let mark = |fine: bool| if fine { ' ' } else { '!' };
        println!(
            "{name:<12} {:>10} {:>10} {ratio:>6.1}%{} {median:>7.2}{} {worst:>7.2}{}",
            self.beside_neighbour * slices_per_s,
            self.attacked * slices_per_s,
            mark(within[0]),
            mark(within[1]),
            mark(within[2]),
        );
        let failed = [("calls", self.failed_calls), ("binds", self.failed_binds)];
        for (what, count) in failed.iter().filter(|(_, count)| *count > 0) {
            println!("{name:<12} ! {count} {what} failed");
        }
        within == [true; 3] && failed.iter().all(|(_, count)| *count == 0)
    }
}
