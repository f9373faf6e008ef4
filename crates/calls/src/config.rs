//! The limits of an endpoint for calls.

/// The limits of an endpoint for calls.
///
/// ```
/// let config = m3ipc_calls::Config { concurrency: 8, ..Default::default() };
/// assert_eq!(config.window, 16_384);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Handlers of a server that run at the same time. One client has at most half of them, rounded
    /// up.
    pub concurrency: usize,
    /// Requests of one client that the server takes before it has answered them.
    pub window: usize,
    /// Length of a request or an answer, in bytes. The [receive limit] of the endpoint follows it:
    /// a longer body is an error of its sender alone, before it uses memory here.
    ///
    /// [receive limit]: m3ipc::Endpoint::set_receive_limit
    pub max_body_bytes: usize,
    /// Length of all requests of one client that the server has taken and not answered, in bytes.
    /// Further requests are refused.
    pub client_bytes: usize,
    /// Requests of a client that have no end yet. Further calls wait in the client.
    pub outstanding: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 1024,
            window: 16_384,
            max_body_bytes: 64 << 20,
            client_bytes: 256 << 20,
            outstanding: 65_536,
        }
    }
}
