//! The blocking calls, as an endpoint records them in its control page.

/// Defines the calls, each with its number, and the list of all.
macro_rules! wait_calls {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The blocking call of an endpoint.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum WaitCall {
            $($(#[$doc])* $name = $number,)*
        }

        impl WaitCall {
            /// The call in the low byte of a word. An unknown number is `None`.
            #[inline]
            pub(crate) fn from_bits(bits: u64) -> Self {
                match bits & 0xff {
                    $($number => Self::$name,)*
                    _ => Self::None,
                }
            }
        }
    };
}

wait_calls! {
    /// None: the endpoint runs.
    None = 0,
    /// send; no receiver has taken the message yet.
    Send = 1,
    /// receive.
    Receive = 2,
    /// sendrec; no receiver has taken the request yet.
    SendRec = 3,
    /// sendrec; the receiver has taken the request and owes the answer.
    Await = 4,
    /// rcvrqst.
    Rcvrqst = 5,
    /// A wait for a bind, an unbind or a name.
    Wait = 6,
}

impl WaitCall {
    /// Whether an endpoint in this call parks at its copy gates, so that peers may copy with it.
    #[must_use]
    #[inline]
    pub const fn may_be_copied(self) -> bool {
        matches!(self, Self::Receive | Self::Rcvrqst | Self::SendRec | Self::Await)
    }
}
