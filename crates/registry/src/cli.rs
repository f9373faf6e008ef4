//! The command line of `m3-registry`.

use crate::backend::{BackendError, Wanted};
use crate::cache::Cache;
use crate::ldap::schema;
use crate::serve::{self, Plan, ServeError};
use crate::source::{Directory, Source};
use crate::{file, output};
use clap::{Parser, Subcommand};
use m3ipc_abi::Slot;
use m3ipc_fabric::{Registry, RegistryError};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Nodes, VMs and owners of slots, from a file, an LDAP directory or etcd
#[derive(Debug, Parser)]
#[command(name = "m3-registry", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// An LDAP directory (also: m3 ldap)
    #[command(subcommand)]
    Ldap(LdapCommand),
    /// Print the registry with all claims, as a file for proxies
    Show {
        #[command(flatten)]
        source: Source,
    },
    /// Print the parameters of a VM or of a node
    Get {
        #[command(flatten)]
        source: Source,
        #[command(subcommand)]
        what: Get,
    },
    /// Give free slots to a node, for ever
    ///
    /// Running proxies learn of it. Example: m3-registry claim --source nodes.toml --etcd
    /// http://127.0.0.1:2379 --node alpha --vm shop --slots 200..263
    Claim {
        #[command(flatten)]
        source: Source,
        /// The node
        #[arg(long)]
        node: String,
        /// The VM
        #[arg(long)]
        vm: String,
        /// The slots, first and last
        #[arg(
            long,
            value_name = "FIRST..LAST",
            value_parser = slots,
            required_unless_present = "count",
            allow_hyphen_values = true
        )]
        slots: Option<(Slot, Slot)>,
        /// So many that the node has this many in all
        #[arg(long, conflicts_with = "slots")]
        count: Option<u32>,
    },
    /// Tell a proxy the registry and its changes; proxies start this
    Serve {
        #[command(flatten)]
        source: Source,
        /// The node of the proxy
        #[arg(long)]
        node: String,
        /// Slots of a VM that the node needs at least; claims what it lacks
        #[arg(long, value_name = "VM=COUNT", value_parser = count_of_vm)]
        claim: Vec<(String, u32)>,
        /// Milliseconds between two reads
        #[arg(
            long,
            value_name = "MS",
            default_value_t = 1_000,
            value_parser = clap::value_parser!(u64).range(50..=2_000)
        )]
        every_ms: u64,
        /// Keeps the last registry, for a start without the directory
        #[arg(long, value_name = "FILE")]
        cache: Option<PathBuf>,
    },
}

/// Commands for a directory.
#[derive(Debug, Subcommand)]
enum LdapCommand {
    /// Print the schema: for `include` in slapd.conf, or for ldapadd
    Schema {
        /// For ldapadd below cn=schema,cn=config
        #[arg(long)]
        ldif: bool,
    },
    /// Write a registry from a file to the directory
    ///
    /// Entries that exist get the values of the file. No entry is deleted.
    Import {
        #[command(flatten)]
        at: At,
        /// The file
        file: PathBuf,
    },
    /// Print what the directory has
    Get {
        #[command(flatten)]
        at: At,
        #[command(subcommand)]
        what: Get,
    },
}

/// The entry of a cluster.
#[derive(clap::Args, Debug)]
struct At {
    /// The entry of the cluster: ldapi://SOCKET/DN, ldaps://HOST/DN
    #[arg(long, value_name = "URL", env = "M3_LDAP_URL")]
    url: String,
    #[command(flatten)]
    directory: Directory,
}

/// What to print.
#[derive(Debug, Subcommand)]
enum Get {
    /// The whole registry, as a file for proxies
    Nodes,
    /// The parameters of a VM, as mnx_vm_init takes them
    Vm {
        /// Its name or its id
        name: String,
    },
    /// The parameters of a node, as mnx_drvs_init takes them
    Drvs {
        /// The node
        #[arg(long)]
        node: Option<String>,
    },
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The registry.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The service.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A text.
    #[error(transparent)]
    Text(#[from] RegistryError),
    /// The registry lacks it.
    #[error("the registry has no {what} `{name}`; it has: {known}")]
    Absent {
        /// Node or VM.
        what: &'static str,
        /// The name.
        name: String,
        /// Those it has.
        known: String,
    },
}

fn slots(text: &str) -> Result<(Slot, Slot), String> {
    let parts = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| "write FIRST..LAST, such as 200..263".to_owned())
}

fn count_of_vm(text: &str) -> Result<(String, u32), String> {
    let parts = text.split_once('=').and_then(|(vm, n)| Some((vm.to_owned(), n.parse().ok()?)));
    parts.ok_or_else(|| "write VM=COUNT, such as shop=64".to_owned())
}

/// Carries out a command.
///
/// # Errors
/// `CommandError`, which names the cause and the next step.
pub fn execute(line: CommandLine) -> Result<(), CommandError> {
    match line.command {
        Command::Ldap(command) => execute_ldap(command),
        Command::Show { source } => {
            print!("{}", source.open()?.read()?.to_toml()?);
            Ok(())
        }
        Command::Get { source, what } => get(&source.open()?.read()?, what),
        Command::Claim { source, node, vm, slots, count } => {
            let wanted = slots.map(|(first, last)| Wanted::Range(first, last));
            let wanted = wanted.unwrap_or(Wanted::InAll(count.unwrap_or(0)));
            for range in source.open()?.claim(&node, &vm, wanted)? {
                println!("{node} has {range} of {vm} now");
            }
            Ok(())
        }
        Command::Serve { source, node, claim, every_ms, cache } => {
            let every = Duration::from_millis(every_ms);
            let plan = Plan { node, claims: claim, every, cache: cache.map(Cache::new) };
            Ok(serve::serve(&mut *source.open()?, &plan, io::stdout())?)
        }
    }
}

fn execute_ldap(command: LdapCommand) -> Result<(), CommandError> {
    use crate::backend::Backend;
    match command {
        LdapCommand::Schema { ldif } => {
            print!("{}", if ldif { schema::ldif() } else { schema::text() });
            Ok(())
        }
        LdapCommand::Import { at, file } => {
            let registry = file::read(&file)?;
            let done = at.directory.open(&at.url)?.import(&registry)?;
            done.added.iter().for_each(|dn| println!("added    {dn}"));
            done.changed.iter().for_each(|dn| println!("written  {dn}"));
            done.left.iter().for_each(|dn| println!("kept     {dn}  (not in the file)"));
            Ok(())
        }
        LdapCommand::Get { at, what } => get(&at.directory.open(&at.url)?.read()?, what),
    }
}

fn get(registry: &Registry, what: Get) -> Result<(), CommandError> {
    let text = match what {
        Get::Nodes => registry.to_toml()?,
        Get::Vm { name } => {
            let vms = &registry.vms;
            let found = vms.iter().find(|it| it.name == name || it.id.to_string() == name);
            let known = || vms.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
            output::of_vm(found.ok_or_else(|| absent("VM", &name, &known()))?)
        }
        Get::Drvs { node } => {
            let nodes: Vec<&str> = registry.nodes.iter().map(|it| it.name.as_str()).collect();
            if let Some(name) = node.as_deref().filter(|name| !nodes.contains(name)) {
                return Err(absent("node", name, &nodes));
            }
            output::of_drvs(registry, node.as_deref())
        }
    };
    print!("{text}");
    Ok(())
}

fn absent(what: &'static str, name: &str, known: &[&str]) -> CommandError {
    CommandError::Absent { what, name: name.to_owned(), known: known.join(", ") }
}
