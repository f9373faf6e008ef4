//! `m3 notify`: notifies an endpoint.
//!
//! A notification is forgotten when its sender leaves before it was taken, so
//! this stays until the target has come to wait again, or has left, or the
//! time is over: who begins to wait has first taken what was pending.

use super::send::To;
use crate::fail::{Fail, Result};
use crate::out::Out;
use clap::Args;
use m3ipc::{ANY, Address};
use m3ipc_abi::Code;
use std::time::Duration;

/// How long it waits for the target to take the notification, where --timeout does not say.
const LINGER_MS: i64 = 1_000;

/// Notify an endpoint.
#[derive(Args, Debug)]
pub struct Notify {
    #[command(flatten)]
    pub to: To,
    /// The set of pending bits, where this is HARDWARE (--as -1) or SYSTEM (--as -2).
    #[arg(long, value_name = "SET", default_value_t = 0)]
    bits: u64,
}

/// Notifies, and stays until it is taken.
pub fn run(args: &Notify, out: Out) -> Result<()> {
    let mut talk = args.to.begin()?;
    talk.own.notify_set(talk.to, args.bits)?;
    let notified_ns = m3ipc_sys::monotonic_ns();
    let limit_ms = u64::try_from(args.to.timeout).unwrap_or(LINGER_MS.cast_unsigned());
    let deadline_ns = notified_ns + limit_ms * 1_000_000;
    while !talk.own.is_notification_taken(talk.to)
        && !has_taken(&mut talk.node, talk.vm.id(), talk.to, notified_ns)?
    {
        if m3ipc_sys::monotonic_ns() > deadline_ns {
            let what =
                format!("endpoint {} has not taken the notification; it is withdrawn", talk.to);
            return Err(Fail::code(Code::TimedOut, what));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let value = serde_json::json!({ "from": talk.own.address().0, "to": talk.to.0, "taken": true });
    out.either(&value, format!("{} has been notified", talk.to))
}

/// Whether the target began to wait for anybody after the notification, or is gone.
fn has_taken(node: &mut m3ipc::Node, vm: i32, to: Address, notified_ns: u64) -> Result<bool> {
    let asked_ns = m3ipc_sys::monotonic_ns();
    // Who may not look into the VM gives it the time that a wake-up takes.
    let Ok(members) = node.endpoints(vm) else {
        std::thread::sleep(Duration::from_millis(20));
        return Ok(true);
    };
    let Some(target) = members.iter().find(|member| member.address == to.0) else {
        return Ok(true);
    };
    let wait = &target.wait;
    let waits_for_any =
        matches!(wait.verb.as_str(), "receive" | "rcvrqst") && Address(wait.peer) == ANY;
    Ok(waits_for_any && wait.for_ns > 0 && asked_ns.saturating_sub(wait.for_ns) > notified_ns)
}
