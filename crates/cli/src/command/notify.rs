//! `m3 notify`: notifies an endpoint.
//!
//! A notification arrives without its sender too. This process stays until the target received it,
//! died, or the time limit is over, to tell which it is. A target that began to wait for any sender
//! after the notification has received all pending notifications.

use super::target::TargetArgs;
use crate::error::{CliError, Result};
use crate::options::{self, TimeLimit, count};
use crate::output::Output;
use clap::Args;
use m3ipc::{ANY, Address, Node, NodeError, Timeout};
use m3ipc_abi::Code;
use std::time::{Duration, Instant};

/// The time limit without --timeout, from the notification on.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two checks of the target.
const CHECK_INTERVAL: Duration = Duration::from_micros(500);
/// The time for a wake-up, where the node refuses to list endpoints.
const WAKE_UP_TIME: Duration = Duration::from_millis(20);

/// Notify an endpoint; returns when the target has received the notification.
///
/// Without --timeout, the target has 1 second.
///
/// Example: m3 notify shop/server
#[derive(Args, Debug)]
pub struct Notify {
    #[command(flatten)]
    target: TargetArgs,
    /// Set of pending bits, for HARDWARE (--as -1) and SYSTEM (--as -2).
    #[arg(long, value_name = "SET", default_value_t = 0, value_parser = count::<u64>)]
    bits: u64,
}

/// Notifies the target and waits until it has received the notification.
pub fn run(args: &Notify, out: Output) -> Result<()> {
    let mut session = args.target.open()?;
    let to = session.to;
    session.own.notify_set(to, args.bits)?;
    let (notified, notified_ns) = (Instant::now(), m3ipc_sys::monotonic_ns());
    let limit = limit(args.target.timeout, options::begin());
    while !session.own.is_notification_taken(to)
        && !has_received(&mut session.node, session.vm.id(), to, notified_ns)?
    {
        let is_over = match limit {
            Timeout::NoWait => true,
            Timeout::After(limit) => notified.elapsed() > limit,
            Timeout::Never => false,
        };
        if is_over {
            let what =
                format!("endpoint {to} has not received the notification yet; it stays pending");
            return Err(CliError::code(Code::TimedOut, what));
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    let from = session.own.address();
    let value = serde_json::json!({ "from": from.0, "to": to.0, "taken": true });
    out.either(&value, format!("endpoint {to} received the notification"))
}

/// How long the target may take. A written limit is that of the whole command.
fn limit(written: Option<TimeLimit>, begin: Instant) -> Timeout {
    written.map_or(Timeout::After(DEFAULT_TIMEOUT), |limit| limit.left_since(begin))
}

/// Whether the target began to wait for any sender after the notification, or is gone.
fn has_received(node: &mut Node, vm: i32, to: Address, notified_ns: u64) -> Result<bool> {
    let now_ns = m3ipc_sys::monotonic_ns();
    let endpoints = match node.endpoints(vm) {
        Err(NodeError::Denied(_)) => {
            std::thread::sleep(WAKE_UP_TIME);
            return Ok(true);
        }
        // The caller's limit decides.
        Err(NodeError::TimedOut(_)) => return Ok(false),
        other => other?,
    };
    let Some(target) = endpoints.iter().find(|endpoint| endpoint.address == to.0) else {
        return Ok(true);
    };
    let wait = &target.wait;
    let waits_for_any = wait.state.receives() && Address(wait.peer) == ANY;
    Ok(waits_for_any && wait.for_ns > 0 && now_ns.saturating_sub(wait.for_ns) > notified_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_has_a_second_unless_a_limit_of_the_whole_command_is_written() {
        let begin = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let read = |written: &str| limit(written.parse().ok(), begin);
        assert_eq!(limit(None, begin), Timeout::After(DEFAULT_TIMEOUT));
        assert_eq!(read("-1"), Timeout::Never);
        assert_eq!(read("0"), Timeout::NoWait);
        assert_eq!(read("500"), Timeout::After(Duration::ZERO));
    }
}
