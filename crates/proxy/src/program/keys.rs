//! `keys`: certificates, and for nodes with addresses all files of a first try.

use std::fmt::Write;
use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::failed::{Done, Failed};
use crate::{NodeName, keys};

/// The registry beside the keys.
pub const REGISTRY: &str = "nodes.toml";
/// The directory of the keys, unless another one is named.
pub const DIRECTORY: &str = "m3-keys";

/// Nodes, and where their files go.
#[derive(Debug, clap::Args)]
pub struct Keys {
    /// The directory of the keys
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    dir: PathBuf,
    /// The name of the cluster, for the registry
    #[arg(long, value_name = "NAME", default_value = "lab")]
    cluster: String,
    /// The names of the nodes, all with their addresses or all without
    #[arg(required = true, value_name = "NODE[=ADDRESS:PORT]", value_parser = named)]
    nodes: Vec<Named>,
}

/// A node, and perhaps its address.
type Named = (NodeName, Option<SocketAddr>);

fn named(written: &str) -> Result<Named, String> {
    let (name, address) = match written.split_once('=') {
        Some((name, address)) => (name, Some(address)),
        None => (written, None),
    };
    let name = NodeName::new(name).map_err(|error| error.to_string())?;
    let address = address.map(|it| {
        it.parse().map_err(|_| format!("{it} is no address with a port, as in 192.0.2.1:7400"))
    });
    Ok((name, address.transpose()?))
}

/// Makes the files.
pub fn run(args: &Keys) -> Done {
    let names: Vec<NodeName> = args.nodes.iter().map(|(name, _)| name.clone()).collect();
    let addressed: Vec<(&NodeName, SocketAddr)> =
        args.nodes.iter().filter_map(|(name, address)| Some((name, (*address)?))).collect();
    if !addressed.is_empty() && addressed.len() < names.len() {
        return Err(Failed::new(
            "some nodes have an address and some have none, so there can be no registry; give all \
             nodes their addresses, or none",
        ));
    }
    for (at, (_, address)) in addressed.iter().enumerate() {
        if addressed[..at].iter().any(|(_, other)| other == address) {
            return Err(Failed::new(format!(
                "two nodes have the address {address}; give each node one of its own"
            )));
        }
    }
    // All or nothing.
    keys::check(&args.dir, &names).map_err(Failed::new)?;
    if !addressed.is_empty() {
        let configurations = names.iter().map(|name| format!("{name}.toml"));
        for name in configurations.chain([REGISTRY.to_owned()]) {
            let path = args.dir.join(name);
            if path.exists() {
                return Err(Failed::new(format!(
                    "{} is there already; a further node takes `keys NAME` without its address, \
                     and an entry in {REGISTRY}; for new files name another directory with --dir",
                    path.display()
                )));
            }
        }
    }
    let mut written = keys::make(&args.dir, &names).map_err(Failed::new)?;
    if !addressed.is_empty() {
        written.extend(configure(&args.dir, &args.cluster, &addressed).map_err(Failed::new)?);
    }
    written.iter().for_each(|path| println!("{}", path.display()));
    let files = if addressed.is_empty() { "its own two files" } else { "nodes.toml and its files" };
    println!("each node needs ca.pem, {files}; keep ca.key off the nodes");
    Ok(ExitCode::SUCCESS)
}

/// Writes the registry, and the configuration of each node.
pub fn configure(
    directory: &Path,
    cluster: &str,
    nodes: &[(&NodeName, SocketAddr)],
) -> io::Result<Vec<PathBuf>> {
    let mut registry = format!("cluster = {cluster:?}\n");
    for (id, (name, address)) in (1..).zip(nodes) {
        let entry = format!("\n[[node]]\nid = {id}\nname = \"{name}\"\naddress = \"{address}\"\n");
        registry.push_str(&entry);
    }
    let mut written = vec![write_new(directory.join(REGISTRY), &registry)?];
    for (name, _) in nodes {
        let mut text = String::new();
        let _ = writeln!(text, "node = \"{name}\"\nregistry = \"{REGISTRY}\"\nkeys = \".\"");
        written.push(write_new(directory.join(format!("{name}.toml")), &text)?);
    }
    Ok(written)
}

fn write_new(path: PathBuf, text: &str) -> io::Result<PathBuf> {
    let opened = OpenOptions::new().write(true).create_new(true).open(&path);
    match opened.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes())) {
        Ok(()) => Ok(path),
        Err(error) => Err(io::Error::other(format!(
            "{}: {error}; move the file away, or name another directory with --dir",
            path.display()
        ))),
    }
}
