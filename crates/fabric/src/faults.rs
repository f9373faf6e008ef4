//! Mistakes that the simulation plants and has to find. Without the feature `planted-faults` each
//! question about a fault is a constant.

/// A planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A resumed session takes all packets under way for received.
    ResumeLoses,
    /// A packet that came before is accepted again.
    DoubleAccepted,
    /// A packet is accepted although an earlier one is missing.
    GapAccepted,
    /// An end of a call is matched by its pair of endpoints, not by its number.
    EndByPair,
    /// A call to a missing endpoint gets no negative answer.
    NoNegativeAnswer,
    /// At the end of a session, sent calls count as not delivered.
    SentIsNotDelivered,
    /// A cancellation without answer counts as not delivered.
    CancelIsNotDelivered,
    /// A cancellation is answered without waiting for the receiver's side.
    CancelWithoutContest,
    /// An ended session leaves its messages to their receivers.
    OrphansStay,
    /// A session number is used again after its end.
    NumberKept,
    /// The incarnation of a peer is not compared.
    IncarnationIgnored,
    /// The death of a receiver does not end the requests that it has taken.
    DeathForgotten,
    /// Silence never ends a session.
    SilenceIgnored,
    /// Two messages of one pair are offered at once.
    PairOverlaps,
    /// A message is offered before the pulses of its pair that came before it.
    PulsesPassed,
    /// The limits of the peer are not respected.
    LimitsIgnored,
    /// A later notification of a pair replaces an earlier one.
    NotificationReplaced,
    /// A requester hears that its request was taken although it was only offered.
    TookTooEarly,
    /// A call that waits to be sent survives the end of the session.
    WaitingSurvives,
    /// The death of an endpoint is not announced to its partners' nodes.
    DeathUnannounced,
    /// A message is offered before its pieces are complete.
    OfferedIncomplete,
    /// A piece goes to the first open stream, not to its own.
    PieceMisplaced,
    /// A read is reported as done before its bytes have come.
    CopyEndsEarly,
    /// A user may have all calls of a VM.
    ShareIgnored,
    /// A user that was refused for its share hears of no room.
    ShareUntold,
    /// A backup takes the place of an endpoint whose node is only silent.
    TakenUnproven,
    /// A node whose endpoint was replaced goes on with it.
    ReplacedStays,
    /// A backup keeps the place without an endpoint when its home is back.
    PlaceKept,
    /// A node whose endpoint has moved does not say so.
    MoveUntold,
    /// A node keeps the place of a moved endpoint that nobody claims.
    MoveKept,
    /// The requests that a moved endpoint has taken count as not delivered.
    MovedIsNotTaken,
}

#[cfg(feature = "planted-faults")]
impl Fault {
    /// Every planted mistake.
    pub const ALL: &'static [Self] = &[
        Self::ResumeLoses,
        Self::DoubleAccepted,
        Self::GapAccepted,
        Self::EndByPair,
        Self::NoNegativeAnswer,
        Self::SentIsNotDelivered,
        Self::CancelIsNotDelivered,
        Self::CancelWithoutContest,
        Self::OrphansStay,
        Self::NumberKept,
        Self::IncarnationIgnored,
        Self::DeathForgotten,
        Self::SilenceIgnored,
        Self::PairOverlaps,
        Self::PulsesPassed,
        Self::LimitsIgnored,
        Self::NotificationReplaced,
        Self::TookTooEarly,
        Self::WaitingSurvives,
        Self::DeathUnannounced,
        Self::OfferedIncomplete,
        Self::PieceMisplaced,
        Self::CopyEndsEarly,
        Self::ShareIgnored,
        Self::ShareUntold,
        Self::TakenUnproven,
        Self::ReplacedStays,
        Self::PlaceKept,
        Self::MoveUntold,
        Self::MoveKept,
        Self::MovedIsNotTaken,
    ];
}

/// The planted mistake of a machine; none in a product build.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
pub(crate) struct Planted(pub(crate) Option<Fault>);

impl Planted {
    /// Whether this mistake is planted.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn has(self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }

    /// Whether this mistake is planted: never.
    #[cfg(not(feature = "planted-faults"))]
    #[allow(clippy::unused_self)]
    pub(crate) fn has(self, _: Fault) -> bool {
        false
    }
}
