//! `m3 listen`: receives messages and prints them.

use super::target::ServerArgs;
use crate::error::Result;
use crate::options::{TimeLimit, count};
use crate::output::Output;
use crate::payload::FieldKind;
use crate::view::message::MessageView;
use clap::Args;
use m3ipc::{Audience, Endpoint, Rights, Source};

/// Receive messages and print them.
///
/// Requests stay unanswered: their senders get an error when this command ends.
///
/// Example: m3 listen shop --as printer --show i32,str
#[derive(Args, Debug)]
pub struct Listen {
    #[command(flatten)]
    server: ServerArgs,
    /// End after N messages.
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    count: Option<u64>,
    /// Time limit for each message; -1 has no limit.
    #[arg(long, value_name = "MS", default_value = "-1", allow_negative_numbers = true)]
    timeout: TimeLimit,
    /// Grant this much memory to all members meanwhile, for copies with `m3 copy`.
    #[arg(long, value_name = "BYTES", value_parser = count::<usize>)]
    hold: Option<usize>,
    /// Show payloads as fields of these kinds: i32, i64, str, hex.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    show: Vec<FieldKind>,
}

/// Receives until the count or the time limit is reached.
pub fn run(args: &Listen, out: Output) -> Result<()> {
    let timeout = args.timeout.timeout();
    let mut own = args.server.bind(!out.is_json(), "listening", timeout)?;
    if let Some(bytes) = args.hold {
        grant_memory(&mut own, bytes, out)?;
    }
    let mut received = 0;
    while args.count.is_none_or(|count| received < count) {
        let (arrived, long) = own.receive_bytes(Source::Any, timeout)?;
        let kind = match (arrived.is_notification, arrived.is_request) {
            (true, _) => "notification",
            (false, true) => "request",
            (false, false) => "message",
        };
        let sender = own.peer(arrived.message.source);
        MessageView::new(&arrived.message, &long, kind, sender).print(&args.show, out)?;
        received += 1;
    }
    Ok(())
}

/// Grants new memory of this process to all members and prints the number of the grant.
fn grant_memory(own: &mut Endpoint, bytes: usize, out: Output) -> Result<()> {
    let memory = vec![0_u8; bytes];
    let address = memory.as_ptr().addr();
    let grant = own.grant(Audience::Vm, memory, Rights::Both)?.to_u64();
    if !out.is_json() {
        m3ipc_sys::tell!("holding {bytes} bytes at {address:#x}, grant {grant}");
    }
    Ok(())
}
