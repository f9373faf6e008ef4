//! `m3 listen`: prints what arrives.

use super::shown::Shown;
use crate::cli::Common;
use crate::content::Shape;
use crate::fail::Result;
use crate::out::Out;
use crate::reach;
use clap::Args;
use m3ipc::{Audience, LONG_MAX_BYTES, Rights, Source};

/// Print what arrives; requests stay unanswered and get their error when this ends.
#[derive(Args, Debug)]
pub struct Listen {
    #[command(flatten)]
    pub common: Common,
    /// The VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: String,
    /// Be this endpoint: a slot or a name [default: any free slot].
    #[arg(long = "as", value_name = "NAME|SLOT", allow_negative_numbers = true)]
    bind_as: Option<String>,
    /// End after so many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// How long to wait for each message, -1 for ever.
    #[arg(long, value_name = "MS", default_value_t = -1, allow_negative_numbers = true)]
    timeout: i64,
    /// Hold so many bytes of memory meanwhile, that all members may copy out and in: see m3 copy.
    #[arg(long, value_name = "BYTES")]
    hold: Option<usize>,
    /// Show payloads as fields of these kinds: i32, i64, str, hex.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    show: Vec<Shape>,
}

/// Listens.
pub fn run(args: &Listen, out: Out) -> Result<()> {
    let mut node = reach::node(&args.common)?;
    let vm = reach::vm(&mut node, &args.vm)?;
    let mut own = reach::bind(&vm, args.bind_as.as_deref())?;
    let mut room = vec![0; LONG_MAX_BYTES];
    if !out.is_json() {
        eprintln!(
            "listening as {} (slot {}) in VM {}",
            own.address(),
            own.address().slot(),
            vm.name()
        );
    }
    if let Some(bytes) = args.hold {
        let memory = vec![0_u8; bytes];
        let at = memory.as_ptr().addr();
        let grant = own.grant(Audience::Vm, memory, Rights::Both)?.to_u64();
        if !out.is_json() {
            eprintln!("holding {bytes} bytes at {at:#x}, grant {grant}");
        }
    }
    let mut seen = 0;
    while args.count.is_none_or(|count| seen < count) {
        let arrived = own.receive_long(Source::Any, &mut room, reach::limit(args.timeout))?;
        let kind = match (arrived.message.is_notification(), arrived.is_request) {
            (true, _) => "notification",
            (false, true) => "request",
            (false, false) => "message",
        };
        let long = room.get(..arrived.bytes).unwrap_or_default();
        let shown = Shown::new(&arrived.message, long, kind, own.peer(arrived.message.source));
        if out.is_json() {
            out.json(&shown.json())?;
        } else {
            out.line(shown.text(&args.show))?;
        }
        seen += 1;
    }
    Ok(())
}
