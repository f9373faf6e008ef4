//! What an endpoint does, as its node shows it.

/// Defines [`WaitState`] from one table, so that a state has its name in one line.
macro_rules! wait_states {
    ($($(#[$doc:meta])* $state:ident = $name:literal;)*) => {
        /// What an endpoint does: it runs, or waits in a call.
        ///
        /// ```
        /// use m3ipc_abi::WaitState;
        ///
        /// assert!(WaitState::Await.waits() && !WaitState::Running.waits());
        /// assert_eq!(WaitState::Await.to_string(), "sendrec (taken)");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum WaitState {
            $(
                $(#[$doc])*
                #[cfg_attr(feature = "serde", serde(rename = $name))]
                $state,
            )*
        }

        impl WaitState {
            /// The name of the state, as the tools show it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$state => $name,)*
                }
            }
        }
    };
}

wait_states! {
    /// It is in no call.
    Running = "running";
    /// Its process has not come back to this daemon.
    Absent = "absent";
    /// send; no receiver has taken the message.
    Send = "send";
    /// receive.
    Receive = "receive";
    /// sendrec; no receiver has taken the request.
    SendRec = "sendrec";
    /// sendrec; the receiver has taken the request and owes the answer.
    Await = "sendrec (taken)";
    /// rcvrqst.
    Rcvrqst = "rcvrqst";
    /// A wait for a bind, an unbind or a name.
    Wait = "wait4";
}

impl WaitState {
    /// Whether it waits in a call.
    #[must_use]
    pub const fn waits(self) -> bool {
        !matches!(self, Self::Running | Self::Absent)
    }

    /// Whether it takes the next message of whom it waits for.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Rcvrqst)
    }
}

impl core::fmt::Display for WaitState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}
