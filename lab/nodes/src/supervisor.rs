//! Starts servers and clients, row by row, and lets peers die.

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use m3ipc_report::stats::median;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::acceptance;
use crate::client::{CALM, Figures, Task};
use crate::engines;
use crate::host;
use crate::keys::Keys;
use crate::place::{Node, Place};
use crate::table;

const PORT: u16 = 9_301;
const BROKER_PORT: u16 = crate::engines::nats::PORT;
/// A client that has not ended by then is killed, and its row has no figure.
const LIMIT: Duration = Duration::from_secs(12);

/// The parameters of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// These engines [default: all that were built]
    #[arg(long, value_name = "ENGINE", value_delimiter = ',', num_args = 0..)]
    engines: Vec<String>,
    /// These rows [default: all]
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<RowName>,
    /// Interleaved rounds of each row; a figure is the median of the rounds
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of a measurement
    #[arg(long, value_name = "MS", default_value_t = 700)]
    #[arg(value_parser = clap::value_parser!(u64).range(50..=5_000))]
    millis: u64,
    /// Write the figures of every round to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The rows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RowName {
    /// Round trips of 64 bytes, each after the other
    Hot,
    /// A round trip each millisecond
    Paced,
    /// 64 round trips at once on one line
    Many,
    /// Copies of 4 MB
    Copy,
    /// Hot round trips beside copies
    HotCopy,
    /// A round trip each millisecond, beside copies
    PacedCopy,
    /// The healthy pair when the third node is killed
    Kill,
    /// The healthy pair when the third node is stopped
    Stop,
    /// From the kill of the remote server to the caller's error (ipc2 alone)
    Death,
    /// From the kill of the remote proxy to the caller's error (ipc2 alone)
    Closed,
    /// From the stop of the remote proxy to the caller's error (ipc2 alone)
    Silence,
    /// Local calls without and with the proxy (ipc2 alone)
    Local,
}

/// All rows.
pub const ROWS: [RowName; 12] = [
    RowName::Hot,
    RowName::Paced,
    RowName::Many,
    RowName::Copy,
    RowName::HotCopy,
    RowName::PacedCopy,
    RowName::Kill,
    RowName::Stop,
    RowName::Death,
    RowName::Closed,
    RowName::Silence,
    RowName::Local,
];

impl RowName {
    const fn task(self) -> Task {
        match self {
            Self::Hot => Task::Hot,
            Self::Paced => Task::Paced,
            Self::Many => Task::Many,
            Self::Copy => Task::Copy,
            Self::HotCopy => Task::HotCopy,
            Self::PacedCopy => Task::PacedCopy,
            Self::Kill | Self::Stop => Task::Stall,
            Self::Death => Task::Death,
            Self::Closed => Task::Closed,
            Self::Silence => Task::Silence,
            Self::Local => Task::Local,
        }
    }

    /// Whether an engine has the row.
    fn is_of(self, engine: &str) -> bool {
        let is_ours = engine.starts_with("ipc2");
        match self {
            Self::Hot | Self::Paced | Self::Many => true,
            Self::Copy | Self::HotCopy | Self::PacedCopy => true,
            // The supervisor kills a whole node; tests have the same of m3ipc with three nodes.
            Self::Kill | Self::Stop => !is_ours,
            Self::Death | Self::Closed | Self::Silence | Self::Local => is_ours,
        }
    }

    const fn event(self) -> Option<Signal> {
        match self {
            Self::Kill => Some(Signal::KILL),
            Self::Stop => Some(Signal::STOP),
            _ => None,
        }
    }
}

/// The rounds of a row with one engine.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The engine.
    pub engine: String,
    /// The row.
    pub row: RowName,
    /// Each round.
    pub rounds: Vec<Figures>,
    /// Why rounds have no figure.
    pub failures: Vec<String>,
}

impl Row {
    /// The median of a figure over the rounds.
    pub fn median(&self, of: impl Fn(&Figures) -> f64) -> Option<f64> {
        median(self.rounds.iter().map(of))
    }

    /// The largest of a figure over the rounds.
    pub fn most(&self, of: impl Fn(&Figures) -> u64) -> u64 {
        self.rounds.iter().map(of).max().unwrap_or(0)
    }
}

#[derive(Serialize)]
struct Record<'a> {
    host: &'a str,
    place: &'a str,
    rounds: u32,
    millis: u64,
    rows: &'a [Row],
}

/// Measures and prints.
pub fn run(args: &RunArgs) -> io::Result<()> {
    let engines: Vec<String> = match args.engines.as_slice() {
        [] => engines::NAMES.iter().map(|&name| name.into()).collect(),
        names => names.to_vec(),
    };
    let (engines, missing): (Vec<String>, Vec<String>) =
        engines.into_iter().partition(|engine| engines::is_installed(engine));
    let wanted = |row: &RowName| args.only.is_empty() || args.only.contains(row);
    let rows: Vec<RowName> = ROWS.into_iter().filter(wanted).collect();
    let host = host::kind();
    let (place, described) = Place::make();
    println!("host   {host}\nplace  {described}");
    let directory = std::env::temp_dir().join(format!("m3-nodes-{}", std::process::id()));
    let keys = Keys::make(&directory).map_err(|error| io::Error::other(error.to_string()))?;
    let mut bench = Bench { place, keys, millis: args.millis, rows: vec![] };
    for _ in 0..args.rounds {
        for &row in &rows {
            for engine in engines.iter().filter(|it| row.is_of(it)) {
                bench.measure(engine, row);
            }
        }
    }
    std::fs::remove_dir_all(&directory)?;
    print!("{}", table::text(&engines, &bench.rows));
    print!("{}", acceptance::text(&engines, &bench.rows));
    missing.iter().for_each(|engine| println!("{engine}: not installed"));
    if let Some(path) = &args.json {
        let (rounds, millis, rows) = (args.rounds, args.millis, bench.rows.as_slice());
        let record = Record { host: &host, place: &described, rounds, millis, rows };
        std::fs::write(path, serde_json::to_string_pretty(&record)?)?;
    }
    Ok(())
}

struct Bench {
    place: Place,
    keys: Keys,
    millis: u64,
    rows: Vec<Row>,
}

impl Bench {
    /// One round of a row; a failure is kept beside the figures.
    fn measure(&mut self, engine: &str, row: RowName) {
        let measured = self.round(engine, row);
        let found = self.rows.iter().position(|it| it.engine == engine && it.row == row);
        let at = found.unwrap_or_else(|| {
            let (rounds, failures) = (vec![], vec![]);
            self.rows.push(Row { engine: engine.into(), row, rounds, failures });
            self.rows.len() - 1
        });
        match measured {
            Ok(figures) => self.rows[at].rounds.push(figures),
            Err(error) => self.rows[at].failures.push(error.to_string()),
        }
    }

    fn round(&self, engine: &str, row: RowName) -> io::Result<Figures> {
        let _broker = if engine.starts_with("nats") { Some(self.broker(engine)?) } else { None };
        let mut to = vec![self.place.address(Node::B, PORT)];
        let _healthy = self.serve(engine, Node::B)?;
        let second = if row.event().is_some() {
            to.push(self.place.address(Node::C, PORT));
            Some(self.serve(engine, Node::C)?)
        } else {
            None
        };
        std::thread::sleep(Duration::from_millis(100));
        let task = clap::ValueEnum::to_possible_value(&row.task());
        let task = task.map(|it| it.get_name().to_owned()).unwrap_or_default();
        let mut command = self.role(engine, Node::A, "__client");
        command.args([task, self.millis.to_string()]);
        command.args(to.iter().map(ToString::to_string));
        // A client that fails says why.
        let mut client = Process(command.stdout(Stdio::piped()).spawn()?);
        let output = client.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut output = BufReader::new(output);
        if let (Some(second), Some(signal)) = (&second, row.event()) {
            let mut line = String::new();
            output.read_line(&mut line)?;
            std::thread::sleep(CALM);
            kill_process(second.pid()?, signal)?;
        }
        client.wait()?;
        let mut text = String::new();
        output.read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|_| io::Error::other("the client failed"))
    }

    fn role(&self, engine: &str, node: Node, role: &str) -> std::process::Command {
        let own = std::env::current_exe().unwrap_or_else(|_| "m3-nodes".into());
        let mut command = self.place.command(node, &own.to_string_lossy());
        command.args([role, engine]).arg(&self.keys.0);
        command.arg(self.place.broker(node, BROKER_PORT).to_string()).stdin(Stdio::null());
        command
    }

    fn serve(&self, engine: &str, node: Node) -> io::Result<Process> {
        let mut command = self.role(engine, node, "__serve");
        command.arg(self.place.address(node, PORT).to_string());
        Ok(Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    fn broker(&self, engine: &str) -> io::Result<Process> {
        let at = self.place.address(Node::A, BROKER_PORT);
        let mut command = self.place.command(Node::A, "nats-server");
        command.args(["--addr", &at.ip().to_string(), "--port", &at.port().to_string()]);
        if engine.ends_with("tls") {
            command.args(["--tls", "--tlsverify"]);
            for (flag, name) in
                [("--tlscert", "node.pem"), ("--tlskey", "node.key"), ("--tlscacert", "ca.pem")]
            {
                command.arg(flag).arg(self.keys.file(name));
            }
        }
        let broker = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let broker = Process(broker.spawn()?);
        std::thread::sleep(Duration::from_millis(300));
        Ok(broker)
    }
}

/// A process; the drop kills it, also while it is stopped.
struct Process(Child);

impl Process {
    fn pid(&self) -> io::Result<Pid> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn wait(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while self.0.try_wait()?.is_none() {
            if begin.elapsed() > LIMIT {
                return Err(io::Error::other(format!("no end after {} s", LIMIT.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
