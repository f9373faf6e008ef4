//! The proxy of a node as a program; `m3-proxy keys` executes it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use m3ipc_proxy::{NodeName, keys};

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
}

fn main() -> ExitCode {
    let CommandLine::Keys { dir, nodes } = CommandLine::parse();
    match keys::make(&dir, &nodes) {
        Ok(written) => {
            written.iter().for_each(|path| println!("{}", path.display()));
            println!("each node needs ca.pem and its own two files; keep ca.key off the nodes");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("m3-proxy: {error}");
            ExitCode::from(4)
        }
    }
}
