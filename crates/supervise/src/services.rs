//! `m3 services`: asks a supervisor, and prints its answer.

use crate::failure::Failure;
use crate::policy::seconds;
use crate::requests::{Answer, Request, ServiceInfo};
use clap::{Args, ValueEnum};
use m3ipc::{NameError, Node, NodeError};
use m3ipc_sys::{json_escaped, printable};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long the supervisor may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// List the services of a supervisor, or change one.
///
/// Example: m3 services shop restart front
#[derive(Args, Debug)]
pub struct Services {
    /// The VM of the services, by name.
    vm: String,
    /// What to do [default: list].
    #[arg(value_enum)]
    act: Option<Act>,
    /// The service to start, stop or restart.
    service: Option<String>,
    /// Print JSON, one service per line.
    #[arg(long)]
    json: bool,
    /// The name of the supervisor's endpoint.
    #[arg(long, value_name = "NAME", default_value = "supervisor")]
    supervisor: String,
    /// Runtime directory of the node.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Act {
    List,
    Start,
    Stop,
    Restart,
    Reload,
}

/// Asks and prints.
pub fn run(args: &Services) -> Result<(), Failure> {
    let request = match (args.act.unwrap_or(Act::List), args.service.clone()) {
        (Act::List, None) => Request::List,
        (Act::Reload, None) => Request::Reload,
        (Act::Start, Some(service)) => Request::Start(service),
        (Act::Stop, Some(service)) => Request::Stop(service),
        (Act::Restart, Some(service)) => Request::Restart(service),
        (Act::List | Act::Reload, Some(_)) => {
            return Err(Failure::usage("list and reload take no service; remove its name"));
        }
        (_, None) => return Err(Failure::usage("name the service, as in: stop front")),
    };
    match ask(args, &request)? {
        Answer::Refused(why) => Err(Failure::failed(why)),
        Answer::Done(what) if args.json => print(&[json(&serde_json::json!({ "done": what }))?]),
        Answer::Done(what) => print(&[what]),
        Answer::Services(services) if args.json => {
            let lines: Result<Vec<String>, _> = services.iter().map(json).collect();
            print(&lines?)
        }
        Answer::Services(services) => print(&table(&services)),
    }
}

fn ask(args: &Services, request: &Request) -> Result<Answer, Failure> {
    let failed = |error: NodeError| Failure::failed(error.to_string());
    let directory = args.runtime_dir.clone().unwrap_or_else(m3ipc::runtime::directory);
    let mut node = Node::find(&directory).map_err(failed)?;
    let vm = node.vm_named(&args.vm).map_err(|error| match error {
        NodeError::Unknown(_) => {
            let vm = &args.vm;
            Failure::failed(format!("there is no VM {vm:?}; list the VMs with `m3 vm ls`"))
        }
        other => failed(other),
    })?;
    let mut own = vm.bind_any().map_err(|error| Failure::failed(error.to_string()))?;
    let to = own.name_locate(&args.supervisor).map_err(|error| match error {
        NameError::Unknown(_) => Failure::failed(format!(
            "no supervisor serves VM {}; start one with `m3 supervise services.toml`",
            args.vm
        )),
        other => Failure::failed(other.to_string()),
    })?;
    let bytes = serde_json::to_vec(request).map_err(|error| Failure::failed(error.to_string()))?;
    let answer = own.call(to, &bytes, LIMIT);
    let answer = answer.map_err(|error| Failure::failed(format!("the supervisor: {error}")))?;
    serde_json::from_slice(&answer)
        .map_err(|error| Failure::failed(format!("no answer of this version: {error}")))
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value);
    text.map(|text| json_escaped(&text)).map_err(|error| Failure::failed(error.to_string()))
}

fn print(lines: &[String]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = lines.iter().try_for_each(|line| writeln!(out, "{}", printable(line)));
    written.and_then(|()| out.flush()).or_else(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::failed(format!("cannot write: {error}"))),
    })
}

fn table(services: &[ServiceInfo]) -> Vec<String> {
    let head = ["SERVICE", "STATE", "FOR", "PID", "ENDPOINT", "RESTARTS", "LAST END"];
    let mut rows = vec![head.map(str::to_owned)];
    let dash = |number: Option<i32>| number.map_or("-".to_owned(), |number| number.to_string());
    rows.extend(services.iter().map(|it| {
        [
            it.service.clone(),
            it.state.to_string(),
            seconds(it.for_ms.saturating_mul(1_000_000)),
            dash(it.pid),
            dash(it.address),
            it.restarts.to_string(),
            it.reason.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
