//! The file as serde reads it.

use crate::policy::{Ns, Restart};
use crate::spec::{ReadyBy, WhenNeedsRestart};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// A duration as written: a whole number and a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(pub(super) Ns);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = String::deserialize(from)?;
        read_span(&written).map(Span).ok_or_else(|| {
            D::Error::custom(format!("{written:?} is no duration such as \"20ms\", \"5s\", \"1m\""))
        })
    }
}

fn read_span(written: &str) -> Option<Ns> {
    let digits = written.find(|it: char| !it.is_ascii_digit())?;
    let unit_ns = match written[digits..].trim() {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    };
    written[..digits].parse::<Ns>().ok()?.checked_mul(unit_ns)
}

/// What starts a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Start {
    #[default]
    Boot,
    Request,
}

/// What ends the VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VmLife {
    #[default]
    Kept,
    Supervisor,
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) vm: Spanned<String>,
    #[serde(default)]
    pub(super) vm_life: VmLife,
    pub(super) vm_mode: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) supervisor: Supervisor,
    #[serde(default)]
    pub(super) service: BTreeMap<String, Spanned<Service>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Supervisor {
    pub(super) slot: Option<Spanned<i32>>,
    pub(super) name: Option<Spanned<String>>,
}

/// A table of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Service {
    pub(super) run: Spanned<Vec<String>>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) slot: Option<Spanned<i32>>,
    #[serde(default)]
    pub(super) needs: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) when_needs_restart: WhenNeedsRestart,
    #[serde(default)]
    pub(super) start: Start,
    #[serde(default)]
    pub(super) ready: ReadyBy,
    #[serde(default)]
    pub(super) restart: Restart,
    pub(super) backoff: Option<Span>,
    pub(super) backoff_max: Option<Span>,
    pub(super) stable: Option<Span>,
    pub(super) restarts: Option<u32>,
    pub(super) within: Option<Span>,
    pub(super) start_limit: Option<Span>,
    pub(super) stop_limit: Option<Span>,
    pub(super) ping: Option<Span>,
    pub(super) ping_limit: Option<Span>,
    pub(super) directory: Option<PathBuf>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
}
