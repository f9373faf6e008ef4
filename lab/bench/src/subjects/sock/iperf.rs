//! A bulk stream of a program that is not ours: iperf3 over one connection of TCP.
//!
//! Each measured process starts a side of iperf3 and waits for its end. The figure is iperf3's own:
//! the bytes that its server received, and the time. Under the preload library both sides have it.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};

use m3ipc_report::schema::{Family, Wait};
use serde_json::Value;

use super::kinds::{self, preload};
use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::outside;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};

const PROGRAM: &str = "iperf3";
/// The variable that names the program.
const VARIABLE: &str = "M3_IPERF3";
const INSTALL: &str = "install the package iperf3, or name the program with M3_IPERF3";
/// The end of a side whose other side never comes, in seconds.
const LIMIT_S: &str = "60";
/// The word in the line of a server that listens.
const LISTENING: &str = "listening";

/// iperf3, natively or under the preload library.
pub struct Iperf {
    is_preloaded: bool,
}

impl Iperf {
    /// Both of them, ours first.
    pub const ALL: [Self; 2] = [Self { is_preloaded: true }, Self { is_preloaded: false }];
}

impl Subject for Iperf {
    fn name(&self) -> &'static str {
        if self.is_preloaded { "shim-iperf3" } else { "iperf3" }
    }

    fn family(&self) -> Family {
        if self.is_preloaded { Family::Ours } else { Family::Kernel }
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        let takes_part = load.test == Test::SockBulk;
        let has_library = !self.is_preloaded || kinds::library().is_some();
        if takes_part && has_library { &[Wait::Block] } else { &[] }
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        if outside::program(PROGRAM, VARIABLE).is_none() {
            let why = format!("there is no program {PROGRAM}");
            return Err(Error::Unavailable { why, next: INSTALL });
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.map_err(Error::os("find a free port"))?.port();
        let names = || Inherited::names(vec![port.to_string()]);
        let mut opened = Opened::default().with(Role::Server, names()).then(Role::Client, names());
        if self.is_preloaded {
            preload(&mut opened, load)?;
        }
        Ok(opened)
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let port = inherited.name()?;
        match run.job().role {
            Role::Client => send(run, port),
            _ => receive(run, port),
        }
    }
}

/// One side of iperf3; killed when it is dropped.
struct Side(Child);

impl Side {
    fn start(arguments: &[&str]) -> Result<(Self, ChildStdout), Error> {
        let program = outside::program(PROGRAM, VARIABLE).unwrap_or_else(|| PROGRAM.into());
        // A side that waits for ever would outlive a killed measurement.
        let mut command = Command::new("timeout");
        command.arg(LIMIT_S).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::os("start iperf3"))?;
        let output = child.stdout.take().ok_or(Error::PeerGone)?;
        Ok((Self(child), output))
    }

    fn end(mut self) -> Result<(), Error> {
        self.0.wait().map(drop).map_err(Error::os("wait for iperf3"))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn receive(run: &Run, port: &str) -> Result<Report, Error> {
    let arguments = ["-s", "-1", "-B", "127.0.0.1", "-p", port, "--forceflush"];
    let (side, output) = Side::start(&arguments)?;
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while !line.contains(LISTENING) {
        line.clear();
        if output.read_line(&mut line).map_err(Error::os("read from iperf3"))? == 0 {
            return Err(Error::Usage("iperf3 -s does not listen".into()));
        }
    }
    run.at_the_start()?;
    output.read_to_string(&mut line).map_err(Error::os("read from iperf3"))?;
    side.end()?;
    Ok(Report::default())
}

fn send(run: &Run, port: &str) -> Result<Report, Error> {
    run.at_the_start()?;
    // It takes whole seconds.
    let seconds = run.load().span_ns.div_ceil(1_000_000_000).max(1).to_string();
    let bytes = run.load().bytes;
    let length = bytes.to_string();
    let arguments = ["-c", "127.0.0.1", "-p", port, "-t", &seconds, "-l", &length, "-J"];
    let (side, mut output) = Side::start(&arguments)?;
    let mut text = String::new();
    output.read_to_string(&mut text).map_err(Error::os("read from iperf3"))?;
    side.end()?;
    read(&text, bytes as u64)
}

/// The report of a client of iperf3. A trip is a block of this size.
fn read(text: &str, bytes: u64) -> Result<Report, Error> {
    let value: Value = serde_json::from_str(text).map_err(Error::json("the report of iperf3"))?;
    if let Some(why) = value["error"].as_str() {
        return Err(Error::Usage(format!("iperf3: {why}")));
    }
    let received = &value["end"]["sum_received"];
    let (Some(came), Some(seconds)) = (received["bytes"].as_u64(), received["seconds"].as_f64())
    else {
        return Err(Error::Usage("the report of iperf3 has no bytes".into()));
    };
    let window_ns = m3ipc_report::stats::whole(seconds * 1e9).max(1);
    let trips = came / bytes;
    if trips == 0 {
        return Err(Error::Usage("no byte came through iperf3".into()));
    }
    let cpu = &value["end"]["cpu_utilization_percent"];
    let percent: f64 =
        ["host_total", "remote_total"].iter().filter_map(|it| cpu[it].as_f64()).sum();
    let cpu_ns = m3ipc_report::stats::whole(percent / 100.0 * window_ns as f64);
    let mut report = Report { trips, window_trips: trips, window_ns, cpu_ns, ..Report::default() };
    report.samples.record(window_ns / trips);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_iperf3_is_read_and_its_errors_are_told() {
        let text = r#"{"end": {"sum_received": {"seconds": 2.0, "bytes": 4000},
            "cpu_utilization_percent": {"host_total": 50.0, "remote_total": 75.0}}}"#;
        let report = read(text, 100).expect("it is complete");
        assert_eq!((report.trips, report.window_ns), (40, 2_000_000_000));
        assert_eq!(report.cpu_ns, 2_500_000_000);
        for text in ["", "{}", r#"{"error": "no route"}"#, &text.replace("4000", "40")] {
            assert!(read(text, 100).is_err(), "{text}");
        }
    }
}
