//! `m3 call`: sends a request and prints the answer.

use super::send::To;
use super::shown::Shown;
use crate::content::{Content, Shape};
use crate::fail::Result;
use crate::out::Out;
use crate::reach;
use clap::Args;
use m3ipc::LONG_MAX_BYTES;

/// Send a request and print the answer.
#[derive(Args, Debug)]
pub struct Call {
    #[command(flatten)]
    pub to: To,
    #[command(flatten)]
    content: Content,
    /// Show the answer's payload as fields of these kinds: i32, i64, str, hex [default: those sent].
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    show: Vec<Shape>,
}

/// Calls.
pub fn run(args: &Call, out: Out) -> Result<()> {
    let (message, long) = args.content.message()?;
    let mut talk = args.to.begin()?;
    let mut room = vec![0; LONG_MAX_BYTES];
    let begun_ns = m3ipc_sys::monotonic_ns();
    let limit = reach::limit(args.to.timeout);
    let (answer, bytes) = talk.own.sendrec_long(talk.to, &message, &long, &mut room, limit)?;
    let took_ns = m3ipc_sys::monotonic_ns() - begun_ns;
    let shapes = if args.show.is_empty() { args.content.shape() } else { args.show.clone() };
    let shown = Shown::new(
        &answer,
        room.get(..bytes).unwrap_or_default(),
        "answer",
        talk.own.peer(talk.to),
    );
    if out.is_json() {
        let mut value = shown.json();
        value["took_ns"] = took_ns.into();
        return out.json(&value);
    }
    out.line(shown.text(&shapes))
}
