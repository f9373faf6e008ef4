//! `m3-proxy`: its command line. `m3 node` and `m3 cluster` execute it.
//!
//! ```text
//! keys    a CA and certificates; with addresses a registry and configurations too
//! run     the proxy in the foreground            join    the proxy in the background, and its VMs
//! ls      the other nodes, as the proxy sees them  leave   the end of the proxy
//! share   an entry of a VM in the registry       demo    three nodes, a death, a return
//! ```

mod demo;
mod demo_node;
mod failed;
mod keys;
mod membership;
mod network;
mod share;
mod table;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::run::{self, Config};
use failed::{Done, Failed};

/// Connects this node with others
#[derive(Debug, Parser)]
#[command(name = "m3-proxy", version, max_term_width = 100)]
enum CommandLine {
    /// Make a CA and certificates for these nodes; existing files stay as they are
    ///
    /// Where each node has its address, the registry and a configuration for each node are made
    /// too.
    ///
    /// Example: m3 node keys alpha=192.0.2.1:7400 beta=192.0.2.2:7400
    Keys(keys::Keys),
    /// Run the proxy of this node, until it is killed
    #[command(after_help = EXAMPLE)]
    Run {
        /// The configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Bound the file that is the standard error, in bytes
        #[arg(long, value_name = "BYTES", hide = true)]
        log_bytes: Option<u64>,
    },
    /// Start the daemon, the VMs of the registry and the proxy of this node, in the background
    ///
    /// Example: m3 node join --config m3-keys/alpha.toml
    #[command(after_help = EXAMPLE)]
    Join(membership::Join),
    /// End the proxy of this node; the daemon and the programs go on
    ///
    /// Calls to other nodes then fail with -64, or with -501 and -505 where they were sent.
    ///
    /// Example: m3 node leave
    Leave(membership::Leave),
    /// List the other nodes: state, round trip, traffic, incarnation
    ///
    /// The round trip is that of the connection, as the kernel has smoothed it. Packets and bytes
    /// count messages, answers, acknowledgements and heartbeats, without TLS and TCP.
    ///
    /// Example: m3 node ls --json
    Ls(membership::Ls),
    /// Give the slots of a VM to these nodes, in the registry; prints the id of the VM
    ///
    /// `m3 vm create NAME --nodes A,B` does this first.
    ///
    /// Example: m3-proxy share shop --nodes alpha,beta
    Share(share::Share),
    /// Show three nodes on this machine: calls, the death of a node, its return
    ///
    /// As root the nodes have network namespaces of their own, otherwise ports of loopback.
    /// Nothing is left behind, also after ^C or kill -9.
    ///
    /// Example: m3 cluster demo
    Demo(demo::Demo),
    /// Keep the program of the registry
    #[command(name = "__keep", hide = true)]
    Keep {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Read the keys of a node for its proxy
    #[command(name = "__keys", hide = true)]
    ReadKeys { directory: PathBuf, node: String },
    #[command(flatten)]
    Role(demo_node::Role),
}

const EXAMPLE: &str = "\
The configuration (relative paths begin at its directory):
  node = \"alpha\"              # this node, as the registry names it
  registry = \"nodes.toml\"     # the same file on all nodes
  keys = \"m3-keys\"            # made by `m3-proxy keys alpha beta`
  runtime_dir = \"/run/m3\"     # that of the daemon; default: as for all programs
  state = \"/var/lib/m3-proxy\" # counts starts; default: where this file is
  user = \"m3-proxy\"           # what root becomes; default: it stays root
  node_bytes = 268435456      # most bytes that another node may have at receivers here
  without_security = false    # true: bare TCP, and nothing proves who the other nodes are

The registry:
  cluster = \"lab\"
  [[node]]
  id = 1
  name = \"alpha\"
  address = \"192.0.2.1:7400\"
  [[node]]
  id = 2
  name = \"beta\"
  address = \"192.0.2.2:7400\"
  [[vm]]
  id = 3                        # the id of the VM on all nodes
  name = \"shop\"
  slots = { alpha = [[-35, 9], [100, 999]], beta = [[10, 28], [1000, 1999]] }

Each slot of the VM belongs to one node. See m3-proxy(1).";

/// The exit code where the reader of standard output has gone: as by SIGPIPE.
const OUTPUT_CLOSED: u8 = 128 + 13;

/// Runs the program with these words.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    m3ipc_sys::end_without_output("m3-proxy", OUTPUT_CLOSED, failed::SYSTEM);
    m3ipc_sys::notice_children();
    m3ipc_sys::survive_file_limit();
    run::keeper::offer();
    let done = match CommandLine::parse_from(words) {
        CommandLine::Keys(args) => keys::run(&args),
        CommandLine::Run { config, log_bytes } => {
            m3ipc_sys::bound_standard_error(log_bytes.unwrap_or(0));
            run_with(&config)
        }
        CommandLine::Join(args) => membership::join(&args),
        CommandLine::Leave(args) => membership::leave(&args),
        CommandLine::Ls(args) => membership::list(&args),
        CommandLine::Share(args) => share::run(&args),
        CommandLine::Demo(args) => demo::run(&args),
        CommandLine::Keep { program, arguments } => {
            let kept = run::keeper::run(&program, &arguments);
            kept.map(|()| ExitCode::SUCCESS).map_err(Failed::new)
        }
        CommandLine::ReadKeys { directory, node } => crate::NodeName::new(&node)
            .map_err(Failed::new)
            .and_then(|node| run::renewal::read(&directory, &node).map_err(Failed::new))
            .map(|()| ExitCode::SUCCESS),
        CommandLine::Role(role) => demo_node::play(&role),
    };
    done.unwrap_or_else(|failed| {
        m3ipc_sys::tell!("m3-proxy: {}", failed.text);
        ExitCode::from(failed.code)
    })
}

fn run_with(config: &std::path::Path) -> Done {
    let ended = Config::read(config).map_err(Into::into).and_then(|it| run::run(&it));
    ended.map(|()| ExitCode::SUCCESS).map_err(|error| match error {
        run::RunError::Present { .. } => Failed::busy(error),
        other => Failed::new(other),
    })
}
