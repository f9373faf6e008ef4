//! `m3 echo`: answers each request with its own content.

use super::shown::Shown;
use crate::cli::Common;
use crate::fail::Result;
use crate::out::Out;
use crate::reach;
use clap::Args;
use m3ipc::{LONG_MAX_BYTES, Source};

/// Answer each request with its own content; notifications and plain messages are taken and dropped.
#[derive(Args, Debug)]
pub struct Echo {
    #[command(flatten)]
    pub common: Common,
    /// The VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: String,
    /// Be this endpoint: a slot or a name [default: any free slot].
    #[arg(long = "as", value_name = "NAME|SLOT", allow_negative_numbers = true)]
    bind_as: Option<String>,
    /// End after so many answers.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Hold each answer back for so long.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay: u64,
    /// Print nothing.
    #[arg(long)]
    quiet: bool,
}

/// Answers.
pub fn run(args: &Echo, out: Out) -> Result<()> {
    let mut node = reach::node(&args.common)?;
    let vm = reach::vm(&mut node, &args.vm)?;
    let mut own = reach::bind(&vm, args.bind_as.as_deref())?;
    let mut room = vec![0; LONG_MAX_BYTES];
    if !out.is_json() && !args.quiet {
        eprintln!(
            "answering as {} (slot {}) in VM {}",
            own.address(),
            own.address().slot(),
            vm.name()
        );
    }
    let mut answered = 0;
    while args.count.is_none_or(|count| answered < count) {
        let arrived = own.receive_long(Source::Any, &mut room, m3ipc::Timeout::Never)?;
        if !arrived.is_request {
            continue;
        }
        if args.delay > 0 {
            std::thread::sleep(std::time::Duration::from_millis(args.delay));
        }
        let long = room.get(..arrived.bytes).unwrap_or_default();
        let asker = arrived.message.source;
        // Who has given up or died meanwhile is no reason to stop.
        if let Err(error) = own.reply_long(asker, &arrived.message, long) {
            eprintln!("m3: {error}");
            continue;
        }
        answered += 1;
        if args.quiet {
            continue;
        }
        let shown = Shown::new(&arrived.message, long, "request", own.peer(asker));
        if out.is_json() {
            out.json(&shown.json())?;
        } else {
            out.line(shown.text(&[]))?;
        }
    }
    Ok(())
}
