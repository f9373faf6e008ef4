//! The transports of a proxy, by its configuration.

use super::config::Config;
use super::error::RunError;
use super::renewal::Renewal;
use crate::status;
use crate::transport::plain::Plain;
use crate::transport::tls::Tls;
use crate::transport::{Limits, Transport};

/// A maker of transports.
pub(super) type Maker = Box<dyn Fn() -> Box<dyn Transport>>;

/// A maker of the transport that the configuration wants, and the renewal of its keys.
pub(super) fn transport(config: &Config) -> Result<(Maker, Option<Renewal>), RunError> {
    if config.without_security {
        m3ipc_sys::report!("m3-proxy: without_security: nothing proves who the other nodes are");
        let plain = Plain::without_security(config.name.clone(), Limits::default());
        return Ok((Box::new(move || Box::new(plain.clone())), None));
    }
    let keys = config.read_keys()?;
    let end = keys.end.clone();
    if let Some(warning) = end.as_ref().and_then(|end| end.warning(status::now_s())) {
        m3ipc_sys::report!("m3-proxy: {warning}");
    }
    let tls = Tls::new(keys, Limits::default()).map_err(|cause| config.unfit_keys(cause))?;
    let renewal = Renewal::begin(config, tls.clone(), end).map_err(RunError::Poll)?;
    Ok((Box::new(move || Box::new(tls.clone())), Some(renewal)))
}
