//! The proxy of a node as a program.

use std::process::ExitCode;

<<<<<<< HEAD
use clap::Parser;
use m3ipc_proxy::run::{Config, RunError};
use m3ipc_proxy::{NodeName, keys, run};

/// Connects this node with others
#[derive(Debug, Parser)]
#[command(name = "m3-proxy", version, max_term_width = 100)]
enum CommandLine {
    /// Make a CA and certificates for these nodes; existing files stay as they are
    ///
    /// Example: m3-proxy keys --dir keys a b c
    Keys {
        /// The directory of the keys
        #[arg(long, value_name = "DIR", default_value = "m3-keys")]
        dir: PathBuf,
        /// The names of the nodes
        #[arg(required = true, value_name = "NODE", value_parser = NodeName::new)]
        nodes: Vec<NodeName>,
    },
    /// Run the proxy of this node, until it is killed
    #[command(after_help = EXAMPLE)]
    Run {
        /// The configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

const EXAMPLE: &str = "\
The configuration (relative paths begin at its directory):
  node = \"alpha\"              # this node, as the registry names it
  registry = \"nodes.toml\"     # the same file on all nodes
  keys = \"m3-keys\"            # made by `m3-proxy keys alpha beta`
  runtime_dir = \"/run/m3\"     # that of the daemon; default: as for all programs
  state = \"/var/lib/m3-proxy\" # counts starts; default: where this file is
  user = \"m3-proxy\"           # what root becomes; default: it stays root

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

fn make_keys(dir: &std::path::Path, nodes: &[NodeName]) -> Result<(), keys::KeyError> {
    let written = keys::make(dir, nodes)?;
    written.iter().for_each(|path| println!("{}", path.display()));
    println!("each node needs ca.pem and its own two files; keep ca.key off the nodes");
    Ok(())
}

fn run_with(config: &std::path::Path) -> Result<std::convert::Infallible, RunError> {
    run::run(&Config::read(config)?)
}

=======
>>>>>>> cd79758 (proxy, cli: node keys, join, leave and ls; a cluster demonstration)
fn main() -> ExitCode {
    m3ipc_proxy::program::main(std::env::args_os())
}
