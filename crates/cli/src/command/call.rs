//! `m3 call`: sends a request and prints the answer.

use super::target::TargetArgs;
use crate::error::Result;
use crate::output::Output;
use crate::payload::{FieldKind, MessageArgs};
use crate::view::message::MessageView;
use clap::Args;

/// Send a request and print the answer.
///
/// Example: m3 call shop/server --type 7 i32:5 str:hello --wait --timeout 1000
#[derive(Args, Debug)]
pub struct Call {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    message: MessageArgs,
    /// Show the answer as fields of these kinds: i32, i64, str, hex [default: as in the request].
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    show: Vec<FieldKind>,
}

/// Sends the request and waits for the answer.
pub fn run(args: &Call, out: Output) -> Result<()> {
    let (message, long) = args.message.message()?;
    let mut session = args.target.open()?;
    let start_ns = m3ipc_sys::monotonic_ns();
    let timeout = session.timeout();
    let (answer, long) = session.own.sendrec_long_bytes(session.to, &message, &long, timeout)?;
    let took_ns = m3ipc_sys::monotonic_ns() - start_ns;
    let view = MessageView::new(&answer, &long, "answer", session.own.peer(session.to));
    if out.is_json() {
        let mut value = view.json();
        value["took_ns"] = took_ns.into();
        return out.json(&value);
    }
    let kinds = if args.show.is_empty() { args.message.kinds() } else { args.show.clone() };
    out.line(view.text(&kinds))
}
