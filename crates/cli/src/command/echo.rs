//! `m3 echo`: answers each request with its own content.

use super::target::ServerArgs;
use crate::error::Result;
use crate::options::count;
use crate::output::Output;
use crate::view::message::MessageView;
use clap::Args;
use m3ipc::{Delivered, Message, Source, Timeout};
use std::time::Duration;

/// Answer each request with its own content.
///
/// Notifications and messages without a request are received and dropped.
///
/// Example: m3 echo shop --as server
#[derive(Args, Debug)]
pub struct Echo {
    #[command(flatten)]
    server: ServerArgs,
    /// End after N answers.
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    count: Option<u64>,
    /// Delay each answer by this time.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = count::<u64>)]
    delay: u64,
    /// Print nothing.
    #[arg(long)]
    quiet: bool,
}

/// Answers until the count is reached.
pub fn run(args: &Echo, out: Output) -> Result<()> {
    let mut own = args.server.bind(!out.is_json() && !args.quiet, "answering", Timeout::Never)?;
    let mut answered = 0;
    while args.count.is_none_or(|count| answered < count) {
        let (arrived, long) = own.receive_bytes(Source::Any, Timeout::Never)?;
        if !arrived.is_request {
            continue;
        }
        if args.delay > 0 {
            std::thread::sleep(Duration::from_millis(args.delay));
        }
        let requester = arrived.message.source;
        // A requester may have timed out or died: the server goes on.
        match own.reply_long(requester, &arrived.message, &long) {
            Ok(Delivered::Yes) => {}
            Ok(Delivered::No(why)) => {
                m3ipc_sys::tell!("m3: {why}");
                continue;
            }
            Err(why) => {
                m3ipc_sys::tell!("m3: {why}");
                // A requester whose answer is still owed would wait for ever.
                let _ = own.reply(requester, &Message::new(why.code().number()));
                continue;
            }
        }
        answered += 1;
        if !args.quiet {
            let sender = own.peer(requester);
            MessageView::new(&arrived.message, &long, "request", sender).print(&[], out)?;
        }
    }
    Ok(())
}
