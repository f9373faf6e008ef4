//! `m3 demo`: all of it in five seconds.

use crate::cli::Format;
use crate::demo::acts::{self, Death};
use crate::demo::remains::{Before, Left};
use crate::demo::scene::Scene;
use crate::demo::{BYTES, Handed, Measured, median};
use crate::fail::{Fail, Result};
use crate::out::{Out, time};
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the whole may take before it is given up.
const LIMIT: Duration = Duration::from_secs(60);
/// The bound of the promise: from kill to error, in the middle.
const DEATH_BOUND_NS: u64 = 1_000_000;

/// Show it: calls and their time beside pipe and socket, a server killed under a call, nothing left.
///
/// It starts a private node in a directory of its own and touches no other. Exit code 1 where
/// something is left behind, or where the error of a killed server took over 1 ms (median).
#[derive(Args, Debug)]
pub struct Demo {
    #[command(flatten)]
    pub format: Format,
    /// How often the server is killed.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    kills: u32,
}

/// Tells the show, or keeps still where JSON is wanted.
struct Teller {
    out: Out,
    act: u32,
}

impl Teller {
    fn act(&mut self, title: &str, text: &str) -> Result<()> {
        self.act += 1;
        self.tell(&format!("{} {}{text}", self.act, self.out.bold(&format!("{title:<9}"))))
    }

    fn more(&self, text: &str) -> Result<()> {
        self.tell(&format!("           {text}"))
    }

    fn tell(&self, text: &str) -> Result<()> {
        if self.out.is_json() { Ok(()) } else { self.out.line(text) }
    }
}

/// The show.
pub fn run(args: &Demo, out: Out) -> Result<ExitCode> {
    give_up_after_limit();
    let begun = Instant::now();
    let mut before = Before::look();
    let mut teller = Teller { out, act: 0 };
    let mut scene = Scene::open()?;
    let started = begin(&mut scene, &mut teller)?;
    let calls = live_calls(&mut scene, &mut teller)?;
    let measured = beside(&mut scene, &mut teller)?;
    let handed = block(&mut scene, &mut teller)?;
    before.note(&scene.pids);
    let deaths = deaths(&mut scene, &mut before, started, args.kills, &mut teller)?;
    let again = go_on(&mut scene, &mut before, &mut teller)?;
    scene.close()?;
    let (pids, directory) = (scene.pids.clone(), scene.directory.clone());
    drop(scene);
    teller.act("end", "client, VM, server and node have ended")?;
    let left = before.left(&pids, &directory);
    tell_left(&left, &teller)?;

    let mut times: Vec<u64> = deaths.iter().map(|death| death.took_ns).collect();
    let worst_ns = times.iter().copied().max().unwrap_or(0);
    let middle_ns = median(&mut times);
    let good = left.is_nothing() && middle_ns <= DEATH_BOUND_NS;
    if out.is_json() {
        out.json(&serde_json::json!({
            "calls_ns": calls, "round_trips": measured, "block": handed, "calls_after_restart": again,
            "deaths_ns": times, "death_median_ns": middle_ns, "death_worst_ns": worst_ns,
            "error": deaths.first().map(|death| &death.error), "code": deaths.first().map(|death| death.code),
            "left": left, "good": good,
        }))?;
    } else {
        out.line(summary(&measured, middle_ns, worst_ns, &left, begun.elapsed(), out))?;
    }
    Ok(ExitCode::from(u8::from(!good)))
}

/// A show that hangs is ended: its parts die with it.
fn give_up_after_limit() {
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        Fail::plain("the demo hangs and is given up").next("see where: m3 doctor").report(false);
        std::process::exit(1);
    });
}

fn begin(scene: &mut Scene, teller: &mut Teller) -> Result<i32> {
    teller.act(
        "start",
        &format!("a private node under {}, VM \"demo\"", scene.directory.display()),
    )?;
    let server = scene.start_server()?;
    let client = scene.start_client()?;
    let address = acts::find(scene)?;
    let place = match scene.cpus {
        Some((first, second)) => format!("client on CPU {first}, server on CPU {second}"),
        None => "client and server share the one CPU".to_owned(),
    };
    teller.more(&format!(
        "server {server} is endpoint {address}, named \"server\"; client {client}; {place}"
    ))?;
    Ok(client)
}

fn live_calls(scene: &mut Scene, teller: &mut Teller) -> Result<Vec<u64>> {
    let times = acts::calls(scene, 1_000)?;
    let (first, rest) = times.split_first().ok_or_else(|| Fail::plain("no call was made"))?;
    teller.act("calls", &format!("{} for the first one, which makes the link", time(*first)))?;
    let shown: Vec<String> = rest.iter().rev().take(6).map(|ns| time(*ns)).collect();
    teller.more(&format!("{} for six of the next {}", shown.join(", "), rest.len()))?;
    Ok(times)
}

fn beside(scene: &mut Scene, teller: &mut Teller) -> Result<Vec<Measured>> {
    let where_ = if scene.cpus.is_some() { "two CPUs" } else { "one CPU" };
    teller.act(
        "beside",
        &format!("round trips of {BYTES} bytes, two processes on {where_}, medians of turns taken"),
    )?;
    let measured = acts::measure(scene)?;
    let best_ns = measured.iter().map(|way| way.median_ns).min().unwrap_or(1).max(1);
    for way in &measured {
        // Lossy on purpose: two digits are shown.
        let ratio = way.median_ns as f64 / best_ns as f64;
        let trips = format!("{} trips", way.trips);
        let line = format!(
            "{:<16} {:>9}  {ratio:>5.1} x  {:<30}{trips}",
            way.name,
            time(way.median_ns),
            way.waits
        );
        teller.more(&line)?;
    }
    Ok(measured)
}

fn block(scene: &mut Scene, teller: &mut Teller) -> Result<Handed> {
    let handed = acts::hand_over(scene)?;
    let megabytes = handed.bytes >> 20;
    let text = format!(
        "{megabytes} MB change hands in {} (median of {}): the server writes in them where they lie",
        time(handed.hand_over_ns),
        handed.hand_overs
    );
    teller.act("block", &text)?;
    // Lossy on purpose: what is shown is rounded.
    let ratio = handed.socket_ns as f64 / handed.hand_over_ns.max(1) as f64;
    teller.more(&format!(
        "the same {megabytes} MB copied through a Unix socket take {} (median of {}), {ratio:.0} times as long",
        time(handed.socket_ns),
        handed.sendings
    ))?;
    Ok(handed)
}

fn deaths(
    scene: &mut Scene,
    before: &mut Before,
    client: i32,
    kills: u32,
    teller: &mut Teller,
) -> Result<Vec<Death>> {
    let first = acts::kill(scene, client)?;
    teller.act(
        "death",
        &format!(
            "kill -9 of the server while a call waits for its answer: {} later",
            time(first.took_ns)
        ),
    )?;
    teller.more(&format!("the call returned: {} (code {})", first.error, first.code))?;
    let mut deaths = vec![first];
    for _ in 1..kills {
        scene.start_server()?;
        acts::find(scene)?;
        acts::calls(scene, 10)?;
        before.note(&scene.pids);
        deaths.push(acts::kill(scene, client)?);
    }
    let mut times: Vec<u64> = deaths.iter().map(|death| death.took_ns).collect();
    let worst = times.iter().copied().max().unwrap_or(0);
    teller.more(&format!(
        "{kills} times: median {}, worst {}",
        time(median(&mut times)),
        time(worst)
    ))?;
    Ok(deaths)
}

fn go_on(scene: &mut Scene, before: &mut Before, teller: &mut Teller) -> Result<usize> {
    let server = scene.start_server()?;
    let address = acts::find(scene)?;
    let mut times = acts::calls(scene, 1_000)?;
    before.note(&scene.pids);
    let text = format!(
        "server {server} has the name, as endpoint {address}: {} calls answered, median {}",
        times.len(),
        time(median(&mut times))
    );
    teller.act("restart", &text)?;
    Ok(times.len())
}

fn tell_left(left: &Left, teller: &Teller) -> Result<()> {
    let rows = [
        ("processes", left.processes, format!("of {} that were started", left.of_processes)),
        ("descriptors", left.descriptors, format!("in {} processes looked into", left.looked_into)),
        (
            "mappings",
            left.mappings,
            format!("of {} pieces of memory that were seen", left.of_memory),
        ),
        (
            "files",
            left.shared_files + usize::from(left.directory),
            "in /dev/shm and the runtime directory".to_owned(),
        ),
    ];
    for (what, count, of) in rows {
        let count =
            if count == 0 { teller.out.good("0") } else { teller.out.bad(&count.to_string()) };
        teller.more(&format!("{what:<12} {count} left {of}"))?;
    }
    Ok(())
}

fn summary(
    measured: &[Measured],
    middle_ns: u64,
    worst_ns: u64,
    left: &Left,
    took: Duration,
    out: Out,
) -> String {
    let of = |name: &str| {
        measured.iter().find(|way| way.name.starts_with(name)).map_or(0, |way| way.median_ns)
    };
    let (ours, pipe, socket) = (of("m3ipc, adaptive"), of("pipe"), of("Unix"));
    // Lossy on purpose: one digit is shown.
    let ratio = |other: u64| other as f64 / ours.max(1) as f64;
    let nothing =
        if left.is_nothing() { out.good("nothing is left") } else { out.bad("SOMETHING IS LEFT") };
    let death = time(middle_ns);
    let death = if middle_ns <= DEATH_BOUND_NS {
        out.good(&death)
    } else {
        out.bad(&format!("{death} (over 1 ms)"))
    };
    format!(
        "\na call takes {}; a pipe {:.1} times as long, a Unix socket {:.1} times\na killed server is known after {death} \
         (worst {})\n{nothing}; it took {:.1} s. Next: m3 up, m3 vm create shop, m3 --help",
        out.bold(&time(ours)),
        ratio(pipe),
        ratio(socket),
        time(worst_ns),
        took.as_secs_f64()
    )
}
