//! What clients ask the supervisor, and its answers: JSON in calls.

use crate::policy::State;
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The state of all services.
    List,
    /// Start a service, and what it needs.
    Start(String),
    /// Stop a service, and those that need it.
    Stop(String),
    /// Stop a service and start it again.
    Restart(String),
    /// Read the file again.
    Reload,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The services.
    Services(Vec<ServiceInfo>),
    /// It is under way.
    Done(String),
    /// It is not done, for this reason.
    Refused(String),
}

/// A service as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceInfo {
    /// The service.
    pub service: String,
    /// Its state.
    pub state: State,
    /// For how long, in milliseconds.
    pub for_ms: u64,
    /// Its process.
    pub pid: Option<i32>,
    /// The endpoint that made it ready.
    pub address: Option<i32>,
    /// How often it was started again.
    pub restarts: u32,
    /// Why its latest process ended.
    pub reason: Option<String>,
    /// The services that it needs.
    pub needs: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_short_json() {
        let written = serde_json::to_string(&Request::Stop("disk".to_owned())).unwrap();
        assert_eq!(written, "{\"stop\":\"disk\"}");
        assert_eq!(serde_json::from_str::<Request>("\"list\"").unwrap(), Request::List);
        assert!(serde_json::from_str::<Request>("{\"erase\":\"disk\"}").is_err());
    }
}
