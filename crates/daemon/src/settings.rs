//! Settings: from flags, then the file, then the environment, then the program that calls
//! `drvs_init`. Each source gets the same checks.

use crate::network::Network;
use clap::{Parser, ValueEnum};
use m3ipc_abi::NodeLimits;
use m3ipc_wire::NodeParams;
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::Targets;

/// The node daemon of m3ipc.
///
/// It keeps the tables of one node: VMs, endpoints, names and rights. Programs start it when they
/// need it (mnx_drvs_init, the m3 command). A person or systemd may start it as well.
///
/// Settings come from these flags, then from the file, then from the environment (M3_NODEID,
/// M3_VMS, M3_NODES, M3_PROCS, M3_TASKS), then from the program that calls drvs_init.
#[derive(Parser, Clone, Debug, Default)]
#[command(name = "m3d", version)]
pub struct Args {
    /// Runtime directory (default: M3_RUNTIME_DIR, $XDG_RUNTIME_DIR/m3 or /tmp/m3-UID).
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// Serve all users of the machine from /run/m3. The mode of a VM decides which users may join.
    #[arg(long)]
    pub system: bool,
    /// Settings file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The id of this node: from 0 to the number of nodes minus 1.
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub nodeid: Option<i32>,
    /// The number of VMs that the node may have.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub vms: Option<i32>,
    /// The number of nodes of the system.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub nodes: Option<i32>,
    /// The number of process slots that a VM may have.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub procs: Option<i32>,
    /// The number of task slots that a VM may have.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub tasks: Option<i32>,
    /// The network of com-sockets, as A.B.C.D/BITS [default: 192.168.0.0/24].
    #[arg(long, value_name = "NETWORK")]
    pub sock_network: Option<String>,
    /// Leave after this many seconds without VMs and members, or `never` [default: never].
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<String>,
    /// Run in the background, and return when the daemon serves. The log then goes to the file
    /// m3d.log in the runtime directory.
    #[arg(long)]
    pub detach: bool,
    /// Wait for drvs_init. Until then every other call fails: the node is not initialised.
    #[arg(long)]
    pub uninitialised: bool,
    /// The user of the proxy that connects this node with others (m3-proxy), beside root and the
    /// user of the daemon. A name of /etc/passwd, or a number.
    #[arg(long, value_name = "USER")]
    pub proxy_user: Option<String>,
    /// Lowest level of the log [default: info]. The variable M3_LOG wins: a level, or TARGET=LEVEL
    /// items between commas.
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Form of the log [default: human].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

/// The lowest level of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// The daemon cannot do what it must.
    Error,
    /// Something needs a look.
    Warn,
    /// VMs, deaths, start and end.
    #[default]
    Info,
    /// Each refused request.
    Debug,
    /// Everything.
    Trace,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// The settings file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    nodeid: Option<i32>,
    vms: Option<i32>,
    nodes: Option<i32>,
    procs: Option<i32>,
    tasks: Option<i32>,
    sock_network: Option<String>,
    idle_exit: Option<String>,
    proxy_user: Option<String>,
    log_level: Option<LogLevel>,
    log_format: Option<LogFormat>,
}

/// The longest settings file.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// An error in a setting.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("the settings file {path} cannot be read: {cause}; check the path and its permissions")]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The file is not TOML, or has an unknown setting.
    #[error(
        "the settings file {path} has an error: {}; correct that line",
        cause.to_string().trim_end()
    )]
    Malformed {
        /// Its path.
        path: PathBuf,
        /// The cause.
        cause: toml::de::Error,
    },
    /// A value is not a number.
    #[error("{name} is {value:?}, which is not a number; unset it or give a number")]
    NotANumber {
        /// Its environment variable.
        name: String,
        /// The value.
        value: String,
    },
    /// A limit is out of bounds.
    #[error(
        "the limits of the node are out of bounds: {} VMs, {} nodes, {} process slots, {} task \
         slots; give 1 to {}, 1 to {}, 1 to {} and 0 to {}",
        .0.vms, .0.nodes, .0.procs, .0.tasks,
        NodeLimits::MAX.vms, NodeLimits::MAX.nodes, NodeLimits::MAX.procs, NodeLimits::MAX.tasks
    )]
    Limits(NodeLimits),
    /// The node id is out of range.
    #[error(
        "node id {nodeid} is out of range; give 0 to {last} with {nodes} nodes",
        last = nodes - 1
    )]
    NodeId {
        /// The id.
        nodeid: i32,
        /// The number of nodes.
        nodes: i32,
    },
    /// `--sock-network` is not a network.
    #[error(
        "sock-network is {0:?}; give A.B.C.D/BITS with 16 to 30 bits and zeros behind them, such \
         as 192.168.0.0/24"
    )]
    SockNetwork(String),
    /// `--proxy-user` is no user.
    #[error(
        "proxy-user is {0:?}, which /etc/passwd does not have; make that user, or give its number"
    )]
    ProxyUser(String),
    /// `M3_LOG` is no filter.
    #[error(
        "M3_LOG is {0:?}; unset it, or give a level (error, warn, info, debug, trace) or \
         TARGET=LEVEL items between commas"
    )]
    LogFilter(String),
    /// `--idle-exit` is neither a number nor `never`.
    #[error("idle-exit is {0:?}; give a number of seconds or `never`")]
    IdleExit(String),
}

/// The settings of a daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The runtime directory.
    pub runtime_dir: PathBuf,
    /// Whether the daemon serves all users.
    pub system: bool,
    /// The node, from flags, file and environment. The program that calls `drvs_init` fills the
    /// gaps.
    pub node: NodeParams,
    /// The network of com-sockets.
    pub sock_network: Network,
    /// The time without VMs and members after which the daemon leaves.
    pub idle_exit_ns: Option<u64>,
    /// The user of the proxy, beside root and the user of the daemon.
    pub proxy_user: Option<u32>,
    /// Whether the daemon waits for `drvs_init`.
    pub uninitialised: bool,
    /// The lowest level of the log.
    pub log_level: LogLevel,
    /// The filter of the log that wins over the level.
    pub log_filter: Option<Targets>,
    /// The form of the log.
    pub log_format: LogFormat,
}

impl Settings {
    /// Combines flags, file and environment.
    ///
    /// # Errors
    /// [`SettingsError`] for the first wrong setting.
    pub fn resolve(
        args: &Args,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let file = read_file(args)?;
        let number = |flag: Option<i32>, file: Option<i32>, name: &str| match flag.or(file) {
            Some(value) => Ok(Some(value)),
            None => env_number(env, name),
        };
        let node = NodeParams {
            nodeid: number(args.nodeid, file.nodeid, "M3_NODEID")?,
            vms: number(args.vms, file.vms, "M3_VMS")?,
            nodes: number(args.nodes, file.nodes, "M3_NODES")?,
            procs: number(args.procs, file.procs, "M3_PROCS")?,
            tasks: number(args.tasks, file.tasks, "M3_TASKS")?,
            ..NodeParams::default()
        };
        resolve_node(&node, &NodeParams::default())?;
        let idle = args.idle_exit.clone().or(file.idle_exit).unwrap_or_else(|| "never".to_owned());
        Ok(Self {
            runtime_dir: args.runtime_dir.clone().unwrap_or_else(|| {
                if args.system {
                    m3ipc::runtime::SYSTEM_DIRECTORY.into()
                } else {
                    named_or_user_directory(env)
                }
            }),
            system: args.system,
            node,
            sock_network: parse_network(args.sock_network.clone().or(file.sock_network))?,
            idle_exit_ns: parse_idle(&idle)?,
            proxy_user: parse_user(args.proxy_user.clone().or(file.proxy_user))?,
            uninitialised: args.uninitialised,
            log_level: args.log_level.or(file.log_level).unwrap_or_default(),
            log_filter: env_filter(env)?,
            log_format: args.log_format.or(file.log_format).unwrap_or_default(),
        })
    }
}

fn named_or_user_directory(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    env("M3_RUNTIME_DIR")
        .filter(|named| !named.is_empty())
        .map_or_else(m3ipc::runtime::user_directory, PathBuf::from)
}

fn read_file(args: &Args) -> Result<File, SettingsError> {
    let Some(path) = &args.config else { return Ok(File::default()) };
    let text =
        read_text(path).map_err(|cause| SettingsError::Unreadable { path: path.clone(), cause })?;
    toml::from_str(&text).map_err(|cause| SettingsError::Malformed { path: path.clone(), cause })
}

/// A file of settings. A device may have no end.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let bytes = std::fs::File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    if bytes as u64 > FILE_MAX_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn env_number(
    env: &dyn Fn(&str) -> Option<String>,
    name: &str,
) -> Result<Option<i32>, SettingsError> {
    let Some(value) = env(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.trim().parse();
    number.map(Some).map_err(|_cause| SettingsError::NotANumber { name: name.to_owned(), value })
}

fn env_filter(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Targets>, SettingsError> {
    let Some(text) = env("M3_LOG").filter(|text| !text.is_empty()) else { return Ok(None) };
    // A word alone that is no level would be a target, and silence all others.
    let is_known = |item: &str| item.contains('=') || item.trim().parse::<tracing::Level>().is_ok();
    match text.parse() {
        Ok(filter) if text.split(',').all(is_known) => Ok(Some(filter)),
        _ => Err(SettingsError::LogFilter(text)),
    }
}

fn parse_network(text: Option<String>) -> Result<Network, SettingsError> {
    match text {
        None => Ok(Network::DEFAULT),
        Some(text) => Network::parse(&text).ok_or(SettingsError::SockNetwork(text)),
    }
}

fn parse_user(text: Option<String>) -> Result<Option<u32>, SettingsError> {
    let Some(text) = text else { return Ok(None) };
    let user = text.parse().ok().or_else(|| m3ipc_sys::user_named(&text));
    user.map(Some).ok_or(SettingsError::ProxyUser(text))
}

fn parse_idle(text: &str) -> Result<Option<u64>, SettingsError> {
    if text == "never" {
        return Ok(None);
    }
    let seconds: u64 = text.parse().map_err(|_cause| SettingsError::IdleExit(text.to_owned()))?;
    Ok(Some(seconds.saturating_mul(1_000_000_000)))
}

/// Combines the node of the settings with that of the program; the settings win.
///
/// # Errors
/// [`SettingsError::Limits`] and [`SettingsError::NodeId`].
pub(crate) fn resolve_node(
    settings: &NodeParams,
    program: &NodeParams,
) -> Result<(i32, NodeLimits), SettingsError> {
    let default = NodeLimits::DEFAULT;
    let limits = NodeLimits {
        vms: settings.vms.or(program.vms).unwrap_or(default.vms),
        nodes: settings.nodes.or(program.nodes).unwrap_or(default.nodes),
        procs: settings.procs.or(program.procs).unwrap_or(default.procs),
        tasks: settings.tasks.or(program.tasks).unwrap_or(default.tasks),
    };
    if !limits.in_bounds() {
        return Err(SettingsError::Limits(limits));
    }
    let nodeid = settings.nodeid.or(program.nodeid).unwrap_or(0);
    if !(0..limits.nodes).contains(&nodeid) {
        return Err(SettingsError::NodeId { nodeid, nodes: limits.nodes });
    }
    Ok((nodeid, limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(args: &Args, env: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::resolve(args, &|name| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn flags_beat_the_environment_and_the_environment_beats_the_program() {
        let args = Args { nodeid: Some(3), ..Args::default() };
        let settings = resolve(&args, &[("M3_NODEID", "4"), ("M3_PROCS", "100")]).unwrap();
        let program =
            NodeParams { nodeid: Some(5), procs: Some(7), vms: Some(2), ..NodeParams::default() };
        let (nodeid, limits) = resolve_node(&settings.node, &program).unwrap();
        assert_eq!((nodeid, limits.procs, limits.vms), (3, 100, 2));
    }

    #[test]
    fn each_source_gets_the_same_checks() {
        let wrong = Args { nodeid: Some(32), ..Args::default() };
        assert!(matches!(
            resolve(&wrong, &[]),
            Err(SettingsError::NodeId { nodeid: 32, nodes: 32 })
        ));
        assert!(matches!(
            resolve(&Args::default(), &[("M3_VMS", "many")]),
            Err(SettingsError::NotANumber { .. })
        ));
        assert!(matches!(
            resolve(&Args::default(), &[("M3_VMS", "0")]),
            Err(SettingsError::Limits(_))
        ));
        let filter = resolve(&Args::default(), &[("M3_LOG", "loud")]);
        assert!(matches!(filter, Err(SettingsError::LogFilter(_))), "{filter:?}");
        assert!(Args::try_parse_from(["m3d", "--log-level", "loud"]).is_err());
        let idle = Args { idle_exit: Some("soon".to_owned()), ..Args::default() };
        assert!(matches!(resolve(&idle, &[]), Err(SettingsError::IdleExit(_))));
    }
}
