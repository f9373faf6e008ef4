//! `m3 vm`: creates, ends, lists and shows VMs.

use super::nodes;
use crate::error::{CliError, Result};
use crate::escape::one_line;
use crate::lookup;
use crate::options::NodeOptions;
use crate::output::{Output, table};
use crate::view::area;
use clap::{Args, Subcommand};
use m3ipc::{EndpointInfo, Parameters, VmConfig, VmInfo, VmLife};
use std::io::{IsTerminal, Write};

/// Create, end, list and show VMs.
#[derive(Subcommand, Debug)]
pub enum Vm {
    Create(Create),
    /// End a VM: its members get SIGPIPE, and SIGKILL after the grace time.
    ///
    /// On a terminal, the command names the members and asks first.
    ///
    /// Example: m3 vm end shop
    End(End),
    /// List the VMs.
    ///
    /// Example: m3 vm ls --json
    Ls(NodeOptions),
    /// Show one VM: its owner, permissions, slots and areas.
    ///
    /// Example: m3 vm info shop
    Info(Named),
}

/// Create a VM; starts the node daemon if none runs.
///
/// Example: m3 vm create shop --mode 770 --group staff
#[derive(Args, Debug)]
pub struct Create {
    #[command(flatten)]
    pub node: NodeOptions,
    /// The name of the VM, of at most 15 bytes.
    name: String,
    /// The id of the VM [default: the lowest free id].
    #[arg(long, allow_negative_numbers = true)]
    id: Option<i32>,
    /// Number of process slots [default: the node's].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    procs: Option<i32>,
    /// Number of task slots [default: the node's].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tasks: Option<i32>,
    /// Permission bits of owner, group and others: 4 list, 2 bind system slots, 1 join.
    #[arg(long, value_name = "OCTAL", default_value = "750", value_parser = octal)]
    mode: u16,
    /// Group of the VM, by name or id [default: the creator's].
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<u32>,
    /// Memory of a waiting member that another member of the same user may copy.
    #[arg(long, value_name = "RULE", value_enum, default_value_t = CopyRule::Open)]
    copy: CopyRule,
    /// Time between SIGPIPE and SIGKILL when the VM ends.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    grace: u32,
    /// End the VM with its last member. A VM that nobody joined yet goes on.
    #[arg(long)]
    ephemeral: bool,
    /// Words KEY=VALUE, file:PATH, program:COMMAND or ldap: where the parameters are. `{}` in a
    /// command is the name. See mnx_vm_init(3).
    #[arg(
        long,
        value_name = "SOURCE",
        conflicts_with_all = ["id", "procs", "tasks", "mode", "grace", "copy", "ephemeral"]
    )]
    from: Option<String>,
    /// Do nothing if the VM exists with the same parameters, and wait for one that is ending.
    #[arg(long)]
    or_open: bool,
    /// Name a domain of com-sockets, for processes of this user id [default: the VM's owner].
    /// Repeatable.
    #[arg(long, value_name = "NAME=NUMBER[:UID]", value_parser = domain)]
    domain: Vec<DomainArg>,
    #[command(flatten)]
    shares: nodes::Shares,
}

/// The rule for copies within one user. Between users, a copy always needs a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CopyRule {
    /// All memory of the member.
    Open,
    /// Memory that the member lent or granted.
    Granted,
}

/// The VM to end.
#[derive(Args, Debug)]
pub struct End {
    #[command(flatten)]
    vm: Named,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// A VM.
#[derive(Args, Debug)]
pub struct Named {
    #[command(flatten)]
    pub node: NodeOptions,
    /// The VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: String,
}

fn octal(written: &str) -> std::result::Result<u16, String> {
    match u16::from_str_radix(written, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("write a mode as three octal digits, as in 750".to_owned()),
    }
}

/// The id of a group, from a number or from a name in /etc/group.
fn group(written: &str) -> std::result::Result<u32, String> {
    if let Ok(number) = written.parse() {
        return Ok(number);
    }
    let known = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let mut fields = known.lines().map(|line| line.split(':'));
    let found =
        fields.find_map(|mut line| (line.next() == Some(written)).then(|| line.nth(1)).flatten());
    found.and_then(|gid| gid.parse().ok()).ok_or_else(|| {
        format!("/etc/group has no group {written:?}; write the number of the group")
    })
}

/// The name and the number of a domain, and its user.
type DomainArg = (String, u32, Option<u32>);

fn domain(written: &str) -> std::result::Result<DomainArg, String> {
    let parts = written.rsplit_once('=').and_then(|(name, rest)| {
        let (number, user) = match rest.split_once(':') {
            Some((number, user)) => (number, Some(user.parse().ok()?)),
            None => (rest, None),
        };
        Some((name.to_owned(), number.parse().ok()?, user))
    });
    parts.ok_or_else(|| {
        "write a domain as NAME=NUMBER or NAME=NUMBER:UID, as in front=0 or front=0:1001".to_owned()
    })
}

/// Runs the subcommand.
pub fn run(args: &Vm, out: Output) -> Result<()> {
    match args {
        Vm::Create(args) => create(args, out),
        Vm::End(args) => end(args, out),
        Vm::Ls(common) => list(common, out),
        Vm::Info(args) => info(args, out),
    }
}

fn create(args: &Create, out: Output) -> Result<()> {
    let mut config = match &args.from {
        Some(source) => from_source(source, &args.name)?,
        None => VmConfig::new(&args.name)
            .mode(args.mode)
            .grace_ms(args.grace)
            .copy_granted(args.copy == CopyRule::Granted),
    };
    let mut names = std::collections::BTreeSet::new();
    for (name, number, user) in &args.domain {
        if !names.insert(name) {
            return Err(CliError::usage(format!("--domain names {name:?} twice"))
                .advice("give each domain a name of its own"));
        }
        config = config.domain(name, *number);
        if let Some(uid) = user {
            config = config.domain_user(name, *uid);
        }
    }
    let shared = nodes::share(&args.shares, &args.name, args.id, [args.procs, args.tasks])?;
    if let Some(id) = shared.or(args.id) {
        config = config.id(id);
    }
    if let Some(slots) = args.procs {
        config = config.procs(slots);
    }
    if let Some(slots) = args.tasks {
        config = config.tasks(slots);
    }
    if let Some(gid) = args.group {
        config = config.group(gid);
    }
    if args.ephemeral {
        config = config.life(VmLife::Members);
    }
    let mut node = lookup::node_or_start(&args.node)?;
    let vm = if args.or_open { node.vm_open_or_create(&config) } else { node.vm_init(&config) }?;
    out.either(&json(vm.info()), format!("VM {} is named {}", vm.id(), vm.name()))
}

fn from_source(source: &str, name: &str) -> Result<VmConfig> {
    let config = Parameters::read(source, name).and_then(|parameters| parameters.vm(name));
    config.map_err(|cause| CliError::usage(format!("--from {source}: {cause}")))
}

fn end(args: &End, out: Output) -> Result<()> {
    let mut node = lookup::node(&args.vm.node)?;
    let vm = lookup::vm(&mut node, &args.vm.vm)?;
    // A caller that may not list the members learns from the node whether it may end them.
    let members = node.endpoints(vm.id()).unwrap_or_default();
    let named = format!("VM {} ({}) with {}", vm.id(), vm.name(), count(&members));
    if !args.yes && !members.is_empty() && std::io::stdin().is_terminal() {
        let list: Vec<String> = members.iter().map(member).collect();
        m3ipc_sys::tell!("{named}:\n    {}", list.join("\n    "));
        if !confirmed("End it")? {
            return Err(CliError::failure("the VM was not ended").advice("--yes ends it unasked"));
        }
    }
    node.vm_end(vm.id())?;
    out.either(&json(vm.info()), format!("{named} has ended"))
}

/// The number of members, in words.
fn count(members: &[EndpointInfo]) -> String {
    match members.len() {
        1 => "1 member".to_owned(),
        number => format!("{number} members"),
    }
}

/// A member in one line.
fn member(endpoint: &EndpointInfo) -> String {
    let names = one_line(&endpoint.names.join(","));
    format!("endpoint {} {names} of process {}", endpoint.address, endpoint.pid)
}

/// Asks on the terminal. Every answer but yes is no.
fn confirmed(question: &str) -> Result<bool> {
    // The answer counts, also where standard error is closed.
    let _ = write!(std::io::stderr(), "{question}? [y/N] ");
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|cause| CliError::system("cannot read the answer", cause))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn list(common: &NodeOptions, out: Output) -> Result<()> {
    let vms = lookup::node(common)?.vms()?;
    let rows: Vec<_> = vms.iter().map(row).collect();
    let head = ["ID", "NAME", "OWNER", "GROUP", "MODE", "MEMBERS", "PROCS", "TASKS", "STATE"];
    let text = if rows.is_empty() {
        "the node has no VM; create one: m3 vm create NAME".to_owned()
    } else {
        table(&head, &rows)
    };
    out.either(&vms.iter().map(json).collect::<Vec<_>>(), text)
}

/// A VM as JSON, with the mode in octal digits.
pub fn json(vm: &VmInfo) -> serde_json::Value {
    let mut value = serde_json::json!(vm);
    value["mode"] = format!("{:03o}", vm.mode).into();
    value
}

fn row(vm: &VmInfo) -> Vec<String> {
    vec![
        vm.id.to_string(),
        vm.name.clone(),
        vm.uid.to_string(),
        vm.gid.to_string(),
        format!("{:03o}", vm.mode),
        vm.endpoints.to_string(),
        vm.procs.to_string(),
        vm.tasks.to_string(),
        if vm.ending { "ending" } else { "running" }.to_owned(),
    ]
}

fn info(args: &Named, out: Output) -> Result<()> {
    let mut node = lookup::node(&args.node)?;
    let vm = lookup::vm(&mut node, &args.vm)?;
    let info = vm.info();
    let members = node.endpoints(info.id)?;
    let areas = node.areas(info.id)?;
    if out.is_json() {
        return out
            .json(&serde_json::json!({ "vm": json(info), "endpoints": members, "areas": areas }));
    }
    let allowed = |shift: u16| {
        let bits = info.mode >> shift & 7;
        let words = [(4, "list"), (2, "bind system slots"), (1, "join")];
        let words: Vec<_> =
            words.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| *word).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    };
    let lines = [
        format!(
            "VM {} ({}), {}",
            info.id,
            info.name,
            if info.ending { "ending" } else { "running" }
        ),
        format!("    owner  user {} may {}", info.uid, allowed(6)),
        format!("    group  {} may {}", info.gid, allowed(3)),
        format!("    others may {}", allowed(0)),
        format!("    slots  {} to {}, user slots from 29", -info.tasks, info.procs - 1),
        format!(
            "    copies {} among members of one user",
            if info.copy_granted { "of granted memory" } else { "open" }
        ),
        format!("    grace  {} ms between SIGPIPE and SIGKILL", info.grace_ms),
        format!("    end    {}", end_of(info)),
        format!(
            "    members {}{}",
            info.endpoints,
            if members.is_empty() { "" } else { "; `m3 ps` lists them" }
        ),
    ];
    lines.iter().try_for_each(|line| out.line(one_line(line)))?;
    let mut domains = info.domains.iter();
    domains.try_for_each(|(name, number)| {
        out.line(format!("    domain {number} of com-sockets is {}", one_line(name)))
    })?;
    areas.iter().try_for_each(|area| out.line(format!("    {}", area::text(area))))
}

/// When a VM ends.
fn end_of(vm: &VmInfo) -> String {
    match vm.life {
        VmLife::UntilEnded => "by `m3 vm end` alone".to_owned(),
        VmLife::Creator => format!("with process {}, which created it", vm.creator_pid),
        VmLife::Members => "with its last member".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_groups_have_names_and_domains_numbers() {
        assert_eq!(octal("750"), Ok(0o750));
        assert!(octal("888").is_err() && octal("1777").is_err());
        assert_eq!((group("12"), group("root")), (Ok(12), Ok(0)));
        assert!(group("no such group").is_err());
        assert_eq!(domain("a=b=7"), Ok(("a=b".to_owned(), 7, None)));
        assert_eq!(domain("a=7:1001"), Ok(("a".to_owned(), 7, Some(1001))));
        assert!(domain("a=7:").is_err());
        assert!(domain("front").is_err() && domain("front=-1").is_err());
    }
}
