//! The few requests to etcd, through its JSON gateway (etcd API v3, `/v3/...`).

use crate::backend::BackendError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// The time for one request to one member.
const LIMIT: Duration = Duration::from_secs(2);

/// Where etcd listens, and the files for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// `http://host:2379` or `https://...`, of each member.
    pub members: Vec<String>,
    /// The certificates of its CA.
    pub ca: Option<PathBuf>,
    /// The certificate of this client, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// A client of one etcd cluster.
pub struct Client {
    agent: Agent,
    members: Vec<String>,
}

/// A value, and the revisions of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub key: String,
    pub value: String,
    /// When the key was made: the fencing number of a life.
    pub created: i64,
    /// When it was last changed.
    pub changed: i64,
}

/// A comparison that a transaction makes.
pub fn compare(key: &str, target: &str, revision: i64) -> Value {
    let field = if target == "CREATE" { "create_revision" } else { "mod_revision" };
    let mut compare = json!({ "key": encode(key), "target": target, "result": "EQUAL" });
    compare[field] = revision.to_string().into();
    compare
}

/// A step of a transaction that writes.
pub fn put(key: &str, value: &str, lease: Option<i64>) -> Value {
    let mut put = json!({ "key": encode(key), "value": encode(value) });
    if let Some(lease) = lease {
        put["lease"] = lease.to_string().into();
    }
    json!({ "request_put": put })
}

/// A step of a transaction that reads.
pub fn get(key: &str) -> Value {
    json!({ "request_range": { "key": encode(key) } })
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

fn decode(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// The gateway writes 64-bit numbers as text, and leaves zeros out.
fn number(value: &Value) -> i64 {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_i64()).unwrap_or(0)
}

fn stored(value: &Value) -> Option<Stored> {
    Some(Stored {
        key: decode(&value["key"])?,
        value: decode(&value["value"]).unwrap_or_default(),
        created: number(&value["create_revision"]),
        changed: number(&value["mod_revision"]),
    })
}

fn all_stored(value: &Value) -> Vec<Stored> {
    value["kvs"].as_array().into_iter().flatten().filter_map(stored).collect()
}

/// What a transaction did.
#[derive(Debug)]
pub struct Committed {
    pub succeeded: bool,
    pub revision: i64,
    /// What its reading steps found.
    pub found: Vec<Stored>,
}

fn pem(path: &Path) -> Result<Vec<PemItem<'static>>, BackendError> {
    let bytes = fs::read(path);
    let bytes = bytes.map_err(|cause| BackendError::File { path: path.into(), cause })?;
    let items: Result<Vec<_>, _> = parse_pem(&bytes).collect();
    items.map_err(|cause| BackendError::Option(format!("{}: {cause}", path.display())))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, BackendError> {
    let certificate = |item| if let PemItem::Certificate(it) = item { Some(it) } else { None };
    Ok(pem(path)?.into_iter().filter_map(certificate).collect())
}

fn key(path: &Path) -> Result<PrivateKey<'static>, BackendError> {
    let key = |item| if let PemItem::PrivateKey(it) = item { Some(it) } else { None };
    let found = pem(path)?.into_iter().find_map(key);
    found.ok_or_else(|| BackendError::Option(format!("{}: no private key", path.display())))
}

impl Client {
    pub fn new(address: &Address) -> Result<Self, BackendError> {
        if address.members.is_empty() {
            return Err(BackendError::Option("--etcd: name a member, http://HOST:2379".into()));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
        if let Some(ca) = &address.ca {
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates(ca)?));
        }
        if let Some((own, of_own)) = &address.own {
            let own = ClientCert::new_with_certs(&certificates(own)?, key(of_own)?);
            tls = tls.client_cert(Some(own));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(LIMIT))
            .http_status_as_error(false)
            .tls_config(tls.build())
            .proxy(None)
            .build();
        Ok(Self { agent: config.into(), members: address.members.clone() })
    }

    pub fn what(&self) -> String {
        self.members.join(",")
    }

    fn lost(&self, cause: impl ToString) -> BackendError {
        BackendError::Lost { what: self.what(), cause: cause.to_string() }
    }

    /// Asks the members in turn, and returns the first answer.
    fn ask(&self, path: &str, request: &Value) -> Result<Value, BackendError> {
        let mut cause = String::new();
        for member in &self.members {
            match self.ask_member(member, path, request) {
                Err(BackendError::Lost { cause: why, .. }) => cause = why,
                answer => return answer,
            }
        }
        Err(self.lost(cause))
    }

    fn ask_member(&self, member: &str, path: &str, request: &Value) -> Result<Value, BackendError> {
        let url = format!("{}/v3/{path}", member.trim_end_matches('/'));
        let sent = self.agent.post(&url).send(request.to_string());
        let mut answer = sent.map_err(|error| self.lost(error))?;
        let text = answer.body_mut().read_to_string().map_err(|error| self.lost(error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| self.lost(error))?;
        if answer.status().is_success() && value["error"].is_null() {
            return Ok(value);
        }
        let message = value["message"].as_str().or(value["error"].as_str());
        let cause = message.unwrap_or("an answer without a reason").to_owned();
        match number(&value["code"]) {
            // gRPC: deadline exceeded, resource exhausted, aborted, unavailable.
            4 | 8 | 10 | 14 => Err(self.lost(cause)),
            _ => Err(BackendError::Refused { what: self.what(), cause }),
        }
    }

    /// All keys with a prefix, which is not empty and ends with `/`.
    pub fn below(&self, prefix: &str) -> Result<Vec<Stored>, BackendError> {
        // `0` comes after `/`.
        let end = format!("{}0", prefix.trim_end_matches('/'));
        let request = json!({ "key": encode(prefix), "range_end": encode(&end) });
        Ok(all_stored(&self.ask("kv/range", &request)?))
    }

    /// Carries out `success` if each comparison holds, else `failure`.
    pub fn commit(
        &self,
        compares: &[Value],
        success: &[Value],
        failure: &[Value],
    ) -> Result<Committed, BackendError> {
        let request = json!({ "compare": compares, "success": success, "failure": failure });
        let answer = self.ask("kv/txn", &request)?;
        let responses = answer["responses"].as_array().into_iter().flatten();
        let found = responses.flat_map(|it| all_stored(&it["response_range"])).collect();
        let succeeded = answer["succeeded"].as_bool().unwrap_or(false);
        Ok(Committed { succeeded, revision: number(&answer["header"]["revision"]), found })
    }

    /// A new lease.
    pub fn grant(&self, seconds: u64) -> Result<i64, BackendError> {
        let answer = self.ask("lease/grant", &json!({ "TTL": seconds.to_string() }))?;
        match number(&answer["ID"]) {
            0 => Err(self.lost("a lease without a number")),
            lease => Ok(lease),
        }
    }

    /// Renews a lease. Whether it is still there.
    pub fn renew(&self, lease: i64) -> Result<bool, BackendError> {
        let answer = self.ask("lease/keepalive", &json!({ "ID": lease.to_string() }))?;
        Ok(number(&answer["result"]["TTL"]) > 0)
    }

    /// Ends a lease, and what was stored with it.
    pub fn revoke(&self, lease: i64) -> Result<(), BackendError> {
        self.ask("lease/revoke", &json!({ "ID": lease.to_string() })).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_text_and_zeros_are_absent() {
        let value = json!({ "a": "7", "b": 8 });
        assert_eq!([&value["a"], &value["b"], &value["c"]].map(number), [7, 8, 0]);
        let kvs = json!({ "kvs": [{ "key": encode("k"), "mod_revision": "9" }] });
        let all = all_stored(&kvs);
        assert_eq!((all[0].key.as_str(), all[0].value.as_str()), ("k", ""));
        assert_eq!((all[0].created, all[0].changed), (0, 9));
        assert!(all_stored(&json!({ "kvs": [{ "key": "?" }] })).is_empty());
    }
}
