//! `m3 copy`: copies memory of waiting endpoints.

use super::target::TargetArgs;
use crate::error::{CliError, Result};
use crate::options::count;
use crate::output::{Output, time};
use crate::{lookup, payload};
use clap::Args;
use m3ipc::{CopySource, CopyTarget, Grant, Location};
use std::io::{Read, Write};

/// The limit of a copy to standard output.
const OUTPUT_MAX_BYTES: usize = 1 << 30;

/// Copy memory of a waiting endpoint: out, in, or to another endpoint.
///
/// The endpoint must wait in receive or sendrec.
/// `m3 listen VM --as NAME --hold N` is an endpoint to try it with; it prints its address and
/// grant.
///
/// Example: m3 copy shop/printer 0 16 --grant 4294967296 | xxd
#[derive(Args, Debug)]
pub struct Copy {
    #[command(flatten)]
    target: TargetArgs,
    /// Address in the memory of the endpoint, decimal or hexadecimal: 77 or 0x4d.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    at: u64,
    /// Take ADDRESS as an offset in this grant of the endpoint.
    #[arg(long, value_name = "GRANT", value_parser = count::<u64>)]
    grant: Option<u64>,
    /// Number of bytes to copy to standard output.
    #[arg(value_name = "BYTES", required_unless_present = "stdin", value_parser = count::<usize>)]
    bytes: Option<usize>,
    /// Copy standard input into the endpoint instead.
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
    /// Address in the memory of the endpoint named by --into.
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "into")]
    to_at: Option<u64>,
}

fn address(written: &str) -> std::result::Result<u64, String> {
    let parsed = match written.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => written.parse(),
    };
    parsed
        .map_err(|_cause| "write an address as digits, or as 0x and hexadecimal digits".to_owned())
}

/// Copies, and prints the bytes or their number.
pub fn run(args: &Copy, out: Output) -> Result<()> {
    let location = match args.grant {
        Some(grant) => Location::Granted(Grant::from_u64(grant), args.at),
        None => Location::At(args.at),
    };
    let mut input = Vec::new();
    if args.stdin {
        let read = std::io::stdin().lock().read_to_end(&mut input);
        read.map_err(|cause| CliError::system("cannot read standard input", cause))?;
    }
    let mut session = args.target.open()?;
    let timeout = session.timeout();
    let to = session.to;
    let bytes = args.bytes.unwrap_or(input.len());
    let mut output = Vec::new();
    let start_ns = m3ipc_sys::monotonic_ns();
    if let (Some(into), Some(at)) = (&args.into, args.to_at) {
        let (node, vm, own) = (&mut session.node, &session.vm, &mut session.own);
        let other = lookup::address(node, vm, own, into, None)?;
        if other == to {
            return Err(CliError::usage("source and destination are the same endpoint")
                .advice("name another endpoint with --into"));
        }
        own.copy_between((to, location), (other, Location::At(at)), bytes as u64, timeout)?;
    } else if args.stdin {
        session.own.copy_source_to(to, location, &CopySource::from(&input[..]), timeout)?;
    } else {
        if bytes > OUTPUT_MAX_BYTES {
            let what = format!("{bytes} bytes exceed the limit of {OUTPUT_MAX_BYTES}");
            return Err(CliError::usage(what).advice("copy the memory in several parts"));
        }
        output.resize(bytes, 0);
        let target = &mut CopyTarget::from(&mut output[..]);
        session.own.copy_into_target(to, location, target, timeout)?;
    }
    let took_ns = m3ipc_sys::monotonic_ns() - start_ns;
    let copied = session.own.copied();
    if out.is_json() {
        let hex = (!output.is_empty()).then(|| payload::to_hex(&output));
        return out.json(&serde_json::json!({
            "with": to.0, "copied": copied, "hex": hex, "took_ns": took_ns,
        }));
    }
    if output.is_empty() {
        return out.line(format!("{copied} bytes copied in {}", time(took_ns)));
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&output)?;
    Ok(stdout.flush()?)
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
