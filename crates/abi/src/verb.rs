//! The verbs of the contract, and the bit that each has in the privileges of an endpoint.

/// Defines [`Verb`] from one table, so that a verb has its bit and its name in one line. A bit that
/// two verbs share does not compile: the bit is the discriminant of the enum.
macro_rules! verbs {
    ($($verb:ident = $bit:literal, $name:literal;)*) => {
        /// A call that privileges allow or forbid. The number is the bit of the verb.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Verb {
            $(
                #[doc = concat!("`", $name, "`.")]
                $verb = $bit,
            )*
        }

        impl Verb {
            /// Every verb, in the order of its bit.
            pub const ALL: &'static [Self] = &[$(Self::$verb),*];

            /// The name of the verb in the contract.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$verb => $name,)*
                }
            }
        }
    };
}

verbs! {
    Send = 0, "send";
    Receive = 1, "receive";
    Sendrec = 2, "sendrec";
    Notify = 3, "notify";
    Rcvrqst = 4, "rcvrqst";
    Reply = 5, "reply";
    Relay = 6, "relay";
    Wakeup = 7, "wakeup";
    Vcopy = 8, "vcopy";
    SrcNotify = 9, "src_notify";
}

impl Verb {
    /// The mask of the verb in the set of allowed calls (`traps`).
    #[must_use]
    pub const fn mask(self) -> u32 {
        1 << self as u8
    }
}

/// Every bit lies in the mask, which has 32 of them.
const _: () = {
    let mut at = 0;
    while at < Verb::ALL.len() {
        assert!((Verb::ALL[at] as u32) < u32::BITS);
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_its_own_bit_and_name() {
        for (at, verb) in Verb::ALL.iter().enumerate() {
            assert_eq!(verb.mask(), 1 << at);
            assert!(Verb::ALL[..at].iter().all(|other| other.name() != verb.name()));
        }
    }
}
