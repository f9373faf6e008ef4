//! The registry in an LDAP directory, through the crate `ldap3`.

mod entry;
pub mod schema;

use crate::backend::{Backend, BackendError};
use entry::Entry;
use ldap3::{LdapConn, LdapConnSettings, LdapError, Mod, Scope, SearchEntry};
use m3ipc_fabric::Registry;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// The time for a connection, and for an answer.
const LIMIT: Duration = Duration::from_secs(3);
const FILTER: &str = "(|(objectClass=m3Cluster)(objectClass=m3Node)(objectClass=m3Vm))";
/// `entryAlreadyExists` (RFC 4511, 4.1.9).
const EXISTS: u32 = 68;
/// Result codes after which another server, or the same one later, may answer: busy, unavailable,
/// unwilling to perform while it starts.
const LATER: &[u32] = &[51, 52];

/// Who this program is for the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Nobody.
    Anonymous,
    /// The user of this process, over `ldapi`.
    Process,
    /// A name, with its password in a file.
    Name { dn: String, password: PathBuf },
}

/// Where a cluster lies in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The server: `ldapi://...`, `ldaps://...`, `ldap://...`.
    pub server: String,
    /// The name of the entry of the cluster.
    pub base: String,
    /// Whether the connection turns to TLS.
    pub starttls: bool,
    /// Who asks.
    pub who: Who,
}

impl Address {
    /// Reads `SCHEME://HOST/DN`. `plain`: a connection to another machine without TLS is wanted.
    pub fn parse(url: &str, starttls: bool, plain: bool, who: Who) -> Result<Self, BackendError> {
        let wrong = |why: &str| BackendError::Option(format!("{url}: {why}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("no URL"))?;
        let (host, dn) = rest.split_once('/').unwrap_or((rest, ""));
        let base = percent_decode(dn).ok_or_else(|| wrong("a % without two hex digits"))?;
        if base.is_empty() {
            return Err(wrong("add the name of the cluster's entry, as in ldapi:///cn=lab,o=m3"));
        }
        match scheme {
            "ldapi" | "ldaps" => {}
            "ldap" if starttls || plain || is_this_machine(host) => {}
            "ldap" => return Err(wrong("no TLS; use ldaps, --starttls, or --plain")),
            _ => return Err(wrong("the scheme is ldapi, ldaps or ldap")),
        }
        Ok(Self { server: format!("{scheme}://{host}/"), base, starttls, who })
    }
}

/// Whether `HOST` or `HOST:PORT` is this machine in each resolver: `localhost` or an address.
fn is_this_machine(host: &str) -> bool {
    let port = |rest: &str| rest.is_empty() || rest[1..].parse::<u16>().is_ok();
    if let Some(rest) = host.strip_prefix("[::1]") {
        return rest.is_empty() || (rest.starts_with(':') && port(rest));
    }
    let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
    let is_loopback = || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    port(rest) && (name == "localhost" || is_loopback())
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A cluster in a directory.
pub struct Ldap {
    address: Address,
    connection: Option<LdapConn>,
}

impl Ldap {
    pub fn new(address: Address) -> Self {
        Self { address, connection: None }
    }

    fn what(&self) -> String {
        format!("{}{}", self.address.server, self.address.base)
    }

    fn lost(&self, cause: impl ToString) -> BackendError {
        BackendError::Lost { what: self.what(), cause: cause.to_string() }
    }

    /// What an answer means: the directory may answer otherwise later, or it will not.
    fn judge(&mut self, error: LdapError) -> BackendError {
        let what = self.what();
        match error {
            LdapError::LdapResult { result } if !LATER.contains(&result.rc) => {
                let cause = match result.rc {
                    32 => format!("there is no entry {}", self.address.base),
                    49 => "wrong name or password".to_owned(),
                    rc => format!("result {rc} {}", result.text),
                };
                BackendError::Refused { what, cause }
            }
            error => {
                self.connection = None;
                self.lost(error)
            }
        }
    }

    fn connect(&mut self) -> Result<LdapConn, BackendError> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let settings = LdapConnSettings::new();
        let settings = settings.set_conn_timeout(LIMIT).set_starttls(self.address.starttls);
        let connected = LdapConn::with_settings(settings, &self.address.server);
        let mut connection = connected.map_err(|error| self.lost(error))?;
        connection.with_timeout(LIMIT);
        let bound = match &self.address.who {
            Who::Anonymous => return Ok(connection),
            Who::Process => connection.sasl_external_bind(),
            Who::Name { dn, password } => {
                let read = std::fs::read_to_string(password);
                let failed = |cause| BackendError::File { path: password.clone(), cause };
                connection.simple_bind(dn, read.map_err(failed)?.trim_end_matches('\n'))
            }
        };
        let bound = bound.and_then(ldap3::LdapResult::success);
        bound.map_err(|error| self.judge(error))?;
        Ok(connection)
    }

    fn search(&mut self) -> Result<Vec<Entry>, BackendError> {
        let mut connection = self.connect()?;
        connection.with_timeout(LIMIT);
        let found = connection.search(&self.address.base, Scope::Subtree, FILTER, vec!["*"]);
        let found = found.and_then(ldap3::SearchResult::success);
        let (found, _) = found.map_err(|error| self.judge(error))?;
        // The reader of an entry panics on bytes that are none.
        let read = catch_unwind(AssertUnwindSafe(|| {
            found.into_iter().map(SearchEntry::construct).collect::<Vec<_>>()
        }));
        let read = read.map_err(|_panic| self.lost("an answer that is no LDAP"))?;
        self.connection = Some(connection);
        let entries = read.into_iter();
        let entry =
            |it: SearchEntry| Entry { dn: it.dn, attributes: it.attrs.into_iter().collect() };
        Ok(entries.map(entry).collect())
    }

    /// Writes a registry to the directory. Entries that exist get the new values. Returns what was
    /// added and what was changed, and the names that are in the directory alone.
    pub fn import(&mut self, registry: &Registry) -> Result<Import, BackendError> {
        let own = format!("cn={}", registry.cluster);
        let base = &self.address.base;
        if base.split(',').next().is_none_or(|first| !first.trim().eq_ignore_ascii_case(&own)) {
            return Err(BackendError::Option(format!(
                "the file has the cluster `{}`, and the URL the entry {base}; give both one name",
                registry.cluster
            )));
        }
        let entries = entry::from_registry(registry, base);
        let mut done = Import::default();
        let mut connection = self.connect()?;
        for entry in &entries {
            let all = entry.attributes.iter().map(|(name, values)| {
                (name.as_str(), values.iter().map(String::as_str).collect::<HashSet<&str>>())
            });
            connection.with_timeout(LIMIT);
            let added = connection.add(&entry.dn, all.clone().collect());
            match added.map_err(|error| self.judge(error))? {
                result if result.rc == EXISTS => {
                    let mods = changes(entry);
                    connection.with_timeout(LIMIT);
                    let changed = connection.modify(&entry.dn, mods);
                    let changed = changed.and_then(ldap3::LdapResult::success);
                    changed.map_err(|error| self.judge(error))?;
                    done.changed.push(entry.dn.clone());
                }
                result => {
                    result.success().map_err(|error| self.judge(error))?;
                    done.added.push(entry.dn.clone());
                }
            }
        }
        self.connection = Some(connection);
        let is_known = |dn: &String| entries.iter().any(|it| it.dn.eq_ignore_ascii_case(dn));
        let found = self.search()?.into_iter().map(|entry| entry.dn);
        done.left = found.filter(|dn| !is_known(dn)).collect();
        Ok(done)
    }
}

/// Gives an existing entry the values of this one, and no others. Its name and class stay.
fn changes(entry: &Entry) -> Vec<Mod<&str>> {
    let class = entry.values("objectClass").first().map_or("", String::as_str);
    let gone = schema::optional(class).filter(|name| entry.values(name).is_empty());
    let kept = entry.attributes.iter().map(|(name, values)| {
        let values = values.iter().map(String::as_str).collect::<HashSet<&str>>();
        (name.as_str(), values)
    });
    let all = kept.chain(gone.map(|name| (name, HashSet::new())));
    let new = all.filter(|(name, _)| !["objectClass", "cn"].contains(name));
    new.map(|(name, values)| Mod::Replace(name, values)).collect()
}

/// What an import did.
#[derive(Debug, Default)]
pub struct Import {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub left: Vec<String>,
}

impl Backend for Ldap {
    fn read(&mut self) -> Result<Registry, BackendError> {
        let had_connection = self.connection.is_some();
        let entries = match self.search() {
            // The server has closed an old connection: try a new one.
            Err(error) if error.is_loss() && had_connection => self.search()?,
            found => found?,
        };
        entry::to_registry(&self.what(), &entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_server_and_the_entry() {
        let parse = |url: &str| Address::parse(url, false, false, Who::Anonymous);
        let address = parse("ldapi://%2Frun%2Fs/cn=my%20lab,o=m3").expect("a URL");
        assert_eq!(address.server, "ldapi://%2Frun%2Fs/");
        assert_eq!(address.base, "cn=my lab,o=m3");
        for local in ["127.0.0.1:3890", "127.8.8.8", "localhost", "localhost:389", "[::1]:389"] {
            let url = format!("ldap://{local}/cn=lab");
            assert!(parse(&url).is_ok(), "{local}");
        }
        for far in [
            "localhost.example.org",
            "localhost.example.org:389",
            "127.0.0.1.example.org",
            "127.example.org",
            "localhost@example.org",
            "localhost:389@example.org",
            "[::1]example.org",
            "[::1]@example.org",
            "example.org",
            "",
        ] {
            let url = format!("ldap://{far}/cn=lab");
            assert!(parse(&url).is_err(), "{far}");
        }
        for (url, named) in [
            ("ldap://192.0.2.1/cn=lab", "--starttls"),
            ("ldaps://192.0.2.1", "add the name"),
            ("http://192.0.2.1/cn=lab", "scheme"),
            ("nodes.toml", "no URL"),
            ("ldapi:///cn=%4", "hex digits"),
        ] {
            let error = parse(url).expect_err(url).to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(Address::parse("ldap://192.0.2.1/cn=lab", false, true, Who::Anonymous).is_ok());
    }
}
