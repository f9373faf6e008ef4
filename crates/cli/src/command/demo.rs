//! `m3 demo`: calls, latencies, a killed server and the clean-up, in five seconds.

use crate::demo::baseline::Baseline;
use crate::demo::leaks::LeakCheck;
use crate::demo::printer::{DeathNews, StepPrinter, p99, summary};
use crate::demo::protocol::{BlockTransfer, MESSAGE_BYTES, RoundTrips, median};
use crate::demo::session::Session;
use crate::demo::steps::{self, ServerDeath};
use crate::error::{CliError, Result};
use crate::output::{Output, time};
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The time limit of a step. A slow machine may take longer for all of them.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Show calls, latencies beside pipe and socket, a killed server, and the clean-up.
///
/// The demonstration starts a private node in a directory of its own and touches no other node.
/// Exit code 1 if anything is left behind.
///
/// Example: m3 demo --kills 100
#[derive(Args, Debug)]
pub struct Demo {
    /// Kill the server N times.
    #[arg(
        long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    kills: u32,
}

/// Runs all steps and prints their results.
pub fn run(args: &Demo, out: Output) -> Result<ExitCode> {
    exit_without_progress();
    let start = Instant::now();
    let mut leaks = LeakCheck::start();
    let mut printer = StepPrinter::new(out);
    let mut session = Session::start()?;
    let client = start_processes(&mut session, &mut printer)?;
    let calls_ns = first_calls(&mut session, &mut printer)?;
    let round_trips = compare(&mut session, &mut printer)?;
    let block = transfer_block(&mut session, &mut printer)?;
    leaks.record(&session.pids);
    let (deaths, sockets_ns) =
        kill_servers(&mut session, &mut leaks, client, args.kills, &mut printer)?;
    let calls_after_restart = restart(&mut session, &mut leaks, &mut printer)?;
    session.end()?;
    let (pids, directory) = (session.pids.clone(), session.directory.clone());
    drop(session);
    printer.step("end", "client, VM, server and node have ended")?;
    let leaked = leaks.search(&pids, &directory);
    printer.leaks(&leaked)?;

    let mut deaths_ns: Vec<u64> = deaths.iter().map(|death| death.took_ns).collect();
    let worst_ns = deaths_ns.iter().copied().max().unwrap_or(0);
    let median_ns = median(&mut deaths_ns);
    // A slow machine is no fault: the summary says what was slow.
    let is_good = leaked.is_clean();
    if out.is_json() {
        let first = deaths.first();
        out.json(&serde_json::json!({
            "calls_ns": calls_ns, "round_trips": round_trips, "block": block,
            "calls_after_restart": calls_after_restart,
            "deaths_ns": deaths_ns, "death_median_ns": median_ns, "death_worst_ns": worst_ns,
            "socket_deaths_ns": sockets_ns,
            "error": first.map(|death| &death.error), "code": first.map(|death| death.code),
            "left": leaked, "good": is_good,
        }))?;
    } else {
        let took = start.elapsed();
        let news = DeathNews { own_ns: &deaths_ns, socket_ns: &sockets_ns };
        out.line(summary(&round_trips, news, &leaked, took, out))?;
    }
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Ends this process when no step has begun within the time limit; the other processes then end
/// too.
fn exit_without_progress() {
    std::thread::spawn(|| {
        let mut begun = steps::begun();
        loop {
            std::thread::sleep(TIME_LIMIT);
            let before = std::mem::replace(&mut begun, steps::begun());
            if before == begun {
                break;
            }
        }
        CliError::failure(format!("a step of the demonstration took {} s", TIME_LIMIT.as_secs()))
            .advice("check this machine with `m3 doctor`")
            .report(false);
        std::process::exit(1);
    });
}

fn start_processes(session: &mut Session, printer: &mut StepPrinter) -> Result<i32> {
    let directory = session.directory.display();
    printer.step("start", &format!("a private node under {directory}, VM \"demo\""))?;
    let server = session.start_server()?;
    let client = session.start_client()?;
    let address = steps::find_server(session)?;
    let placement = match session.cpus {
        Some((first, second)) => format!("client on CPU {first}, server on CPU {second}"),
        None => "client and server share the one CPU".to_owned(),
    };
    printer.detail(&format!(
        "server {server} is endpoint {address}, named \"server\"; client {client}; {placement}"
    ))?;
    Ok(client)
}

fn first_calls(session: &mut Session, printer: &mut StepPrinter) -> Result<Vec<u64>> {
    let calls_ns = steps::call(session, 1_000)?;
    let (first, others) =
        calls_ns.split_first().ok_or_else(|| CliError::failure("the client made no call"))?;
    printer
        .step("calls", &format!("{} for the first call, which creates the link", time(*first)))?;
    let shown: Vec<String> = others.iter().rev().take(6).map(|ns| time(*ns)).collect();
    printer.detail(&format!("{} for six of the next {}", shown.join(", "), others.len()))?;
    Ok(calls_ns)
}

fn compare(session: &mut Session, printer: &mut StepPrinter) -> Result<Vec<RoundTrips>> {
    let cpus = if session.cpus.is_some() { "two CPUs" } else { "one CPU" };
    let text = format!(
        "median round trips of {MESSAGE_BYTES} bytes, two processes on {cpus}, measured in turn"
    );
    printer.step("beside", &text)?;
    let results = steps::measure_round_trips(session)?;
    let best_ns = results.iter().map(|result| result.median_ns).min().unwrap_or(1).max(1);
    for result in &results {
        let RoundTrips { name, waits, median_ns, trips } = result;
        // The conversion may round: two digits are printed.
        let ratio = *median_ns as f64 / best_ns as f64;
        let median = time(*median_ns);
        printer
            .detail(&format!("{name:<16} {median:>9}  {ratio:>5.1} x  {waits:<30}{trips} trips"))?;
    }
    Ok(results)
}

fn transfer_block(session: &mut Session, printer: &mut StepPrinter) -> Result<BlockTransfer> {
    let transfer = steps::measure_block(session)?;
    let megabytes = transfer.bytes >> 20;
    let text = format!(
        "{megabytes} MB go to the server without a copy in {} (median of {}); it writes in place",
        time(transfer.hand_over_ns),
        transfer.hand_overs
    );
    printer.step("block", &text)?;
    // The conversion may round: whole numbers are printed.
    let ratio = transfer.socket_ns as f64 / transfer.hand_over_ns.max(1) as f64;
    printer.detail(&format!(
        "a copy through a Unix socket takes {} (median of {}), {ratio:.0} times as long",
        time(transfer.socket_ns),
        transfer.sendings
    ))?;
    Ok(transfer)
}

fn kill_servers(
    session: &mut Session,
    leaks: &mut LeakCheck,
    client: i32,
    kills: u32,
    printer: &mut StepPrinter,
) -> Result<(Vec<ServerDeath>, Vec<u64>)> {
    let first = steps::kill_server(session, client)?;
    let text = format!(
        "kill -9 of the server while a call waits for its answer: {} later",
        time(first.took_ns)
    );
    printer.step("death", &text)?;
    printer.detail(&format!("the call returned: {} (code {})", first.error, first.code))?;
    let mut deaths = vec![first];
    for _ in 1..kills {
        session.start_server()?;
        steps::find_server(session)?;
        steps::call(session, 10)?;
        leaks.record(&session.pids);
        deaths.push(steps::kill_server(session, client)?);
    }
    let durations_ns: Vec<u64> = deaths.iter().map(|death| death.took_ns).collect();
    let sockets_ns = kill_socket_partners(session, kills)?;
    printer.detail(&format!("{kills} kills: {}", quantiles(&durations_ns)))?;
    printer.detail(&format!("the end of file of a Unix socket: {}", quantiles(&sockets_ns)))?;
    Ok((deaths, sockets_ns))
}

/// The times from the kill of a process to the end of file of its Unix socket.
fn kill_socket_partners(session: &Session, kills: u32) -> Result<Vec<u64>> {
    let cpu = session.cpus.map(|(_, second)| second);
    let kill = |_| {
        steps::note_begin();
        Baseline::socket(&session.directory, cpu)?.kill_partner()
    };
    (0..kills).map(kill).collect()
}

/// The median and the 99th percentile, as text.
fn quantiles(times_ns: &[u64]) -> String {
    let mut sorted_ns = times_ns.to_vec();
    let median_ns = median(&mut sorted_ns);
    format!("median {}, p99 {}", time(median_ns), time(p99(times_ns)))
}

fn restart(
    session: &mut Session,
    leaks: &mut LeakCheck,
    printer: &mut StepPrinter,
) -> Result<usize> {
    let server = session.start_server()?;
    let address = steps::find_server(session)?;
    let mut calls_ns = steps::call(session, 1_000)?;
    leaks.record(&session.pids);
    let text = format!(
        "server {server} took over the name, as endpoint {address}: {} calls, median {}",
        calls_ns.len(),
        time(median(&mut calls_ns))
    );
    printer.step("restart", &text)?;
    Ok(calls_ns.len())
}
