//! `m3 ldap`: executes the program of the registry, `m3-registry`.

use crate::error::Result;
use crate::other_program;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// The nodes and VMs of a cluster in an LDAP directory.
///
/// All arguments go to `m3-registry ldap`: `m3 ldap --help` shows its commands.
///
/// Example: m3 ldap get vm shop
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Ldap {
    /// Arguments of m3-registry ldap.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program of the registry; returns only if that fails.
pub fn run(args: &Ldap) -> Result<ExitCode> {
    let words = std::iter::once(OsString::from("ldap")).chain(args.arguments.iter().cloned());
    other_program::execute("m3-registry", "m3ipc-registry", words)
}
