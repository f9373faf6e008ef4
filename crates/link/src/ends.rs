//! How a message of a link ends: one table, by what became of it and by why its call ends.
//!
//! | why the call ends | not taken | taken, a take ends it | taken, an answer ends it | unknown |
//! |---|---|---|---|---|
//! | the call itself: limit, signal, circle | its code | 0 | its code | -501 |
//! | the receiver died | -109 | 0 | -108 | -501 |
//! | the receiver moved to another node | -332 | 0 | -108 | -501 |
//! | the node of the receiver is lost | -64 | 0 | -505 | -501 |
//! | a proxy ended it | its code | 0 | its code | -501 |
//! | another link replaced this one | again | 0 | -501 | -501 |
//!
//! The table is pure: no clock, no waiting, no shared memory. [`Fate`] comes from the words of the
//! link, after the withdrawal of the message; [`Cause`] comes from the caller.

use crate::slot::Cancelled;
use m3ipc_abi::Code;

/// Whether the receiver has taken a message whose call failed.
///
/// ```
/// # use m3ipc_abi::Code;
/// use m3ipc_link::ends::{Awaited, Cause, Delivery, End, Fate, end};
///
/// let failed = end(Awaited::Answer, Fate::Taken, Cause::Died);
/// assert_eq!(failed, End::Failed(Code::SrcDied, Delivery::Taken));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It has not, and never will.
    NotTaken,
    /// It has.
    Taken,
    /// Nobody knows.
    Unknown,
}

impl Delivery {
    /// What a code tells by itself. A limit and a signal mean a withdrawal.
    #[must_use]
    pub const fn of(code: Code) -> Self {
        match code {
            Code::SrcDied | Code::AnswerLost => Self::Taken,
            Code::PeerBroke | Code::Unknown => Self::Unknown,
            _ => Self::NotTaken,
        }
    }
}

/// What ends a message where nothing fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The take: a send.
    Take,
    /// The answer: a request.
    Answer,
}

/// What became of a message, once it can be taken no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was withdrawn, or it came back.
    NotTaken,
    /// It was taken. No answer has come.
    Taken,
    /// A proxy had it, and does not say what the other node did.
    Unknown,
}

impl From<Cancelled> for Fate {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled {
            Cancelled::Withdrawn => Self::NotTaken,
            Cancelled::Taken | Cancelled::Unanswered => Self::Taken,
            Cancelled::Unknown => Self::Unknown,
        }
    }
}

/// Why a call ends without what it awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The call itself: its limit, a signal, a circle of waiting calls, a refused step.
    Call(Code),
    /// The receiver died.
    Died,
    /// The receiver moved to another node.
    Moved,
    /// The node of the receiver cannot be reached any more.
    Lost,
    /// A proxy ended the message, with this code.
    ByProxy(Code),
    /// Another link replaced this one, and the receiver may never have got it.
    Replaced,
}

/// The end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A send has succeeded.
    Taken,
    /// The message goes again, over the new link.
    Again,
    /// The call fails.
    Failed(Code, Delivery),
}

/// The end of a message: the table of this module.
#[must_use]
pub const fn end(awaited: Awaited, fate: Fate, cause: Cause) -> End {
    let (code, delivery) = match (fate, awaited, cause) {
        (Fate::Unknown, ..) => (Code::Unknown, Delivery::Unknown),
        (Fate::Taken, Awaited::Take, _) => return End::Taken,
        (Fate::NotTaken, _, Cause::Replaced) => return End::Again,
        (Fate::NotTaken, _, Cause::Died) => (Code::DstDied, Delivery::NotTaken),
        (Fate::NotTaken, _, Cause::Moved) => (Code::Migrate, Delivery::NotTaken),
        (Fate::NotTaken, _, Cause::Lost) => (Code::NotConn, Delivery::NotTaken),
        (Fate::NotTaken, _, Cause::Call(code) | Cause::ByProxy(code)) => (code, Delivery::NotTaken),
        (Fate::Taken, _, Cause::Died | Cause::Moved) => (Code::SrcDied, Delivery::Taken),
        (Fate::Taken, _, Cause::Lost) => (Code::AnswerLost, Delivery::Taken),
        (Fate::Taken, _, Cause::Replaced) => (Code::Unknown, Delivery::Unknown),
        (Fate::Taken, _, Cause::Call(code) | Cause::ByProxy(code)) => (code, Delivery::Taken),
    };
    End::Failed(code, delivery)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAUSES: [Cause; 6] = [
        Cause::Call(Code::TimedOut),
        Cause::Died,
        Cause::Moved,
        Cause::Lost,
        Cause::ByProxy(Code::NoPayload),
        Cause::Replaced,
    ];

    #[test]
    fn an_untaken_message_fails_with_a_code_that_says_so_or_goes_again() {
        let codes = [Code::TimedOut, Code::DstDied, Code::Migrate, Code::NotConn, Code::NoPayload];
        for awaited in [Awaited::Take, Awaited::Answer] {
            for (cause, code) in CAUSES.into_iter().zip(codes) {
                let failed = End::Failed(code, Delivery::NotTaken);
                assert_eq!(end(awaited, Fate::NotTaken, cause), failed);
            }
            assert_eq!(end(awaited, Fate::NotTaken, Cause::Replaced), End::Again);
        }
    }

    #[test]
    fn a_taken_send_succeeds_whatever_ends_its_call() {
        for cause in CAUSES {
            assert_eq!(end(Awaited::Take, Fate::Taken, cause), End::Taken);
        }
    }

    #[test]
    fn a_taken_request_fails_with_a_code_that_says_so() {
        let codes =
            [Code::TimedOut, Code::SrcDied, Code::SrcDied, Code::AnswerLost, Code::NoPayload];
        for (cause, code) in CAUSES.into_iter().zip(codes) {
            let failed = End::Failed(code, Delivery::Taken);
            assert_eq!(end(Awaited::Answer, Fate::Taken, cause), failed);
        }
        let unknown = End::Failed(Code::Unknown, Delivery::Unknown);
        assert_eq!(end(Awaited::Answer, Fate::Taken, Cause::Replaced), unknown);
    }

    #[test]
    fn what_nobody_knows_is_unknown_whatever_ends_the_call() {
        for awaited in [Awaited::Take, Awaited::Answer] {
            for cause in CAUSES {
                let unknown = End::Failed(Code::Unknown, Delivery::Unknown);
                assert_eq!(end(awaited, Fate::Unknown, cause), unknown);
            }
        }
    }
}
