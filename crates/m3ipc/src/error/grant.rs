//! The errors of grants.

use m3ipc_abi::Code;

/// Why memory was not granted, or a grant not revoked.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (mut server, mut client) = node.pair();
/// use m3ipc::{Audience, Code, GrantError, Rights};
///
/// let grant = client.grant(Audience::Vm, vec![0; 64], Rights::Read)?;
/// client.revoke(grant)?;
/// match client.revoke(grant) {
///     Err(error @ GrantError::Unknown) => assert_eq!(error.code(), Code::BadValue),
///     other => panic!("it was revoked: {other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The endpoint has as many grants as it may have.
    #[error("the endpoint has {0} grants already; revoke some")]
    TooMany(usize),
    /// The grant does not exist, or exists no longer.
    #[error("there is no such grant, or it was revoked before; use a grant of this endpoint")]
    Unknown,
}

impl GrantError {
    /// The code of the C contract. The example is at [`GrantError`].
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::TooMany(_) => Code::NoMem,
            Self::Unknown => Code::BadValue,
        }
    }
}
