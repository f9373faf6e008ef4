//! `m3 copy`: copies memory of endpoints that wait.

use super::send::To;
use crate::fail::{Fail, Result};
use crate::out::Out;
use crate::{content, reach};
use clap::Args;
use m3ipc::{CopySource, CopyTarget, Grant, Location};
use std::io::{Read, Write};

/// The most that is copied out to standard output.
const OUT_MAX_BYTES: usize = 1 << 30;

/// Copy memory of an endpoint that waits in receive or sendrec: out, in, or to a second one.
///
/// `m3 listen VM --hold N` is an endpoint to try it with.
#[derive(Args, Debug)]
pub struct Copy {
    #[command(flatten)]
    pub to: To,
    /// Where in its memory, as it told: 77 or 0x4d.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    at: u64,
    /// The address is an offset in this grant of the endpoint.
    #[arg(long, value_name = "GRANT")]
    grant: Option<u64>,
    /// How many bytes to copy out of it, to standard output.
    #[arg(value_name = "BYTES", required_unless_present = "stdin")]
    bytes: Option<usize>,
    /// Copy standard input into it instead.
    #[arg(long, conflicts_with = "bytes")]
    stdin: bool,
    /// Copy to this endpoint of the same VM instead: a name, slot or address.
    #[arg(
        long,
        value_name = "ENDPOINT",
        requires = "to_at",
        conflicts_with = "stdin",
        allow_negative_numbers = true
    )]
    into: Option<String>,
    /// Where in that one's memory.
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "into")]
    to_at: Option<u64>,
}

fn address(written: &str) -> std::result::Result<u64, String> {
    let parsed = match written.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => written.parse(),
    };
    parsed.map_err(|cause| format!("{written:?} is no address: {cause}"))
}

/// Copies.
pub fn run(args: &Copy, out: Out) -> Result<()> {
    let limit = reach::limit(args.to.timeout);
    let location = match args.grant {
        Some(grant) => Location::Granted(Grant::from_u64(grant), args.at),
        None => Location::At(args.at),
    };
    let mut sent = Vec::new();
    if args.stdin {
        let read = std::io::stdin().lock().read_to_end(&mut sent);
        read.map_err(|cause| Fail::system("cannot read standard input", cause))?;
    }
    let mut talk = args.to.begin()?;
    let bytes = args.bytes.unwrap_or(sent.len());
    let mut got = Vec::new();
    let begun_ns = m3ipc_sys::monotonic_ns();
    if let (Some(into), Some(at)) = (&args.into, args.to_at) {
        let to = reach::address(&mut talk.node, &talk.vm, &mut talk.own, into, None)?;
        talk.own.copy_between((talk.to, location), (to, Location::At(at)), bytes as u64, limit)?;
    } else if args.stdin {
        talk.own.copy_source_to(talk.to, location, &CopySource::from(&sent[..]), limit)?;
    } else {
        if bytes > OUT_MAX_BYTES {
            return Err(Fail::usage(format!("{bytes} bytes are more than {OUT_MAX_BYTES}")));
        }
        got.resize(bytes, 0);
        talk.own.copy_into_target(talk.to, location, &mut CopyTarget::from(&mut got[..]), limit)?;
    }
    let took_ns = m3ipc_sys::monotonic_ns() - begun_ns;
    if out.is_json() {
        let hex = (!got.is_empty()).then(|| content::to_hex(&got));
        let value = serde_json::json!({ "with": talk.to.0, "copied": talk.own.copied(), "hex": hex, "took_ns": took_ns });
        return out.json(&value);
    }
    if got.is_empty() {
        return out.line(format!(
            "{} bytes copied in {}",
            talk.own.copied(),
            crate::out::time(took_ns)
        ));
    }
    let mut output = std::io::stdout().lock();
    output.write_all(&got)?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decimal_or_hexadecimal() {
        assert_eq!((address("77"), address("0x4d")), (Ok(77), Ok(77)));
        assert!(address("4d").is_err() && address("0x").is_err() && address("-1").is_err());
    }
}
