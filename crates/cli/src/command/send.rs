//! `m3 send`: sends a message.

use super::target::TargetArgs;
use crate::error::Result;
use crate::output::Output;
use crate::payload::MessageArgs;
use clap::Args;

/// Send a message; returns when the receiver has received it.
///
/// Example: m3 send shop/server --type 4 i32:1 str:hello --timeout 1000
#[derive(Args, Debug)]
pub struct Send {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    message: MessageArgs,
}

/// Sends the message.
pub fn run(args: &Send, out: Output) -> Result<()> {
    let (message, long) = args.message.message()?;
    let mut session = args.target.open()?;
    let timeout = session.timeout();
    session.own.send_long(session.to, &message, &long, timeout)?;
    let (from, to) = (session.own.address(), session.to);
    let value = serde_json::json!({ "from": from.0, "to": to.0, "taken": true });
    out.either(&value, format!("endpoint {to} received the message"))
}
