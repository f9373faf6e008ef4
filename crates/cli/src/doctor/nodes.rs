//! Other nodes, as the proxy of this node sees them.

use super::finding::Finding;
use m3ipc::runtime::{self, ConnectError, DirectoryError};
use m3ipc_sys::{peer_user, user_id};
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The socket of the proxy in the runtime directory.
const SOCKET_NAME: &str = "proxy.sock";
const LIMIT: Duration = Duration::from_secs(3);
const ANSWER_MAX_BYTES: usize = 1 << 20;
/// The time before the end of a certificate in which it is named, in seconds: 14 days.
const CERTIFICATE_WARNING_S: u64 = 14 * 86_400;

/// Runs the checks of this group.
pub fn examine(directory: &Path) -> Vec<Finding> {
    match ask(directory) {
        Ok(status) => findings(&status),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            vec![Finding::note("proxy", "none: this node is alone; `m3 node join` starts one")]
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => vec![Finding::off(
            "proxy",
            "it has ended without `m3 node leave`",
            "calls to other nodes fail with -64; `m3 node join --config FILE` starts it again",
        )],
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            vec![Finding::off(
                "proxy",
                "it does not answer in time",
                "if it is stopped, `kill -CONT` lets it go on; `m3 node ls` tells its pid",
            )]
        }
        // The checks of the directory name its user.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => vec![Finding::off(
            "proxy",
            "the node belongs to another user",
            "run this command as that user or as root",
        )],
        Err(error) => vec![Finding::off(
            "proxy",
            format!("it gives no status: {error}"),
            "run this as its user or as root",
        )],
    }
}

fn ask(directory: &Path) -> io::Result<Value> {
    let end = Instant::now() + LIMIT;
    let stream =
        runtime::connect_stream(directory, SOCKET_NAME, LIMIT).map_err(|error| match error {
            ConnectError::NoDaemon { cause, .. } => cause,
            ConnectError::Directory(DirectoryError::Unusable { cause, .. }) => cause,
            ConnectError::NotAllowed { .. } => ErrorKind::PermissionDenied.into(),
            other => io::Error::other(other),
        })?;
    let uid = peer_user(&stream)?;
    if uid != 0 && uid != user_id() && user_id() != 0 {
        return Err(io::Error::other(format!("it is a process of user {uid}")));
    }
    let left = end.saturating_duration_since(Instant::now());
    let text = m3ipc_sys::read_within(&stream, ANSWER_MAX_BYTES, left)?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

/// The end of the certificate that ends first, if it is near.
fn certificate(end: &Value, now_s: u64) -> Option<Finding> {
    let left_s = end["at_s"].as_u64()?.saturating_sub(now_s);
    let file = end["file"].as_str().unwrap_or("?");
    if left_s > CERTIFICATE_WARNING_S {
        return None;
    }
    let is = match left_s {
        0 => format!("{file} has ended: no new connection between nodes succeeds"),
        _ => format!("{file} ends in {} h", left_s.div_ceil(3_600)),
    };
    let next = "put a new certificate in its place, and send SIGHUP to the proxy";
    Some(Finding::off("certificate", is, next))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn findings(status: &Value) -> Vec<Finding> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let is = format!(
        "node {} of cluster {} at {}, {} stand-ins",
        text(&status["node"]),
        text(&status["cluster"]),
        text(&status["address"]),
        status["stand_ins"]
    );
    let mut findings = vec![if status["tls"] == Value::Bool(true) {
        Finding::ok("proxy", is)
    } else {
        let fallback = "bare TCP: whoever reaches the address can be any node; remove \
                        `without_security` from the configuration";
        Finding::off("proxy", is, fallback)
    }];
    if let Some(finding) = certificate(&status["certificate"], now_s()) {
        findings.push(finding);
    }
    for node in status["nodes"].as_array().into_iter().flatten() {
        let (name, at) = (text(&node["name"]), text(&node["address"]));
        let state = text(&node["state"]);
        findings.push(if state == "up" {
            let trip = node["round_trip_us"].as_u64();
            let trip = trip.map_or_else(String::new, |us| format!(", round trip {us} us"));
            Finding::ok("node", format!("{name} at {at} can be reached{trip}"))
        } else {
            let why = node["why"].as_str().unwrap_or("its proxy has not connected");
            let is = format!("{name} at {at} cannot be reached ({state}): {why}");
            Finding::off("node", is, "calls to its endpoints fail with -64; others go on")
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_named_two_weeks_before() {
        let end = serde_json::json!({"file": "alpha.pem", "at_s": 100 * 86_400});
        assert!(certificate(&end, 85 * 86_400).is_none());
        let near = certificate(&end, 99 * 86_400).unwrap();
        assert_eq!((near.state, near.is.as_str()), (FindingState::Off, "alpha.pem ends in 24 h"));
        assert!(certificate(&end, 101 * 86_400).unwrap().is.contains("has ended"));
        // Without TLS, and of another release.
        assert!(certificate(&Value::Null, 0).is_none());
    }

    #[test]
    fn each_node_that_cannot_be_reached_is_off_with_its_reason() {
        let status = serde_json::json!({
            "node": "alpha", "cluster": "lab", "address": "a:1", "stand_ins": 2, "tls": false,
            "nodes": [
                {"name": "beta", "address": "b:1", "state": "up", "round_trip_us": 7},
                {"name": "gamma", "address": "c:1", "state": "lost", "why": "refused"},
            ],
        });
        let found = findings(&status);
        let states: Vec<FindingState> = found.iter().map(|it| it.state).collect();
        assert_eq!(states, [FindingState::Off, FindingState::Ok, FindingState::Off]);
        assert!(found[2].is.contains("gamma at c:1") && found[2].is.contains("refused"));
        // Another release may answer with something else.
        assert!(!findings(&serde_json::json!([1])).is_empty());
    }
}
