//! The frames that wait for a train, and the streams beside requests.

use super::{FRAMES_PER_REQUEST, Manifest, Outgoing, Peer, Place, Queued, UpEnd};
use crate::config::Config;
use crate::error::{CallError, Reason};
use crate::frame::{self, Frame, HEAD_BYTES, Kind, Malformed};
use crate::room::{FRAME_COST, ROOM_BYTES};
use crate::stream::GRANT_BYTES;

impl Peer {
    /// Queues a frame whose sender took `cost` from the room.
    fn queue(&mut self, kind: Kind, number: u64, body: &[u8], cost: usize, is_answer: bool) {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
        frame::push(&mut bytes, kind, number, &[body]);
        self.queue.push_back(Queued { bytes, is_answer, cost });
        self.queued += 1;
    }

    pub(super) fn queue_control(&mut self, kind: Kind, number: u64, body: &[u8]) {
        self.queue(kind, number, body, 0, false);
    }

    pub(super) fn queue_answer(&mut self, kind: Kind, number: u64, body: &[u8], cost: usize) {
        self.queue(kind, number, body, cost, true);
        self.answers += 1;
    }

    /// Whether the peer causes frames and takes none of them.
    pub(super) fn is_overfull(&self, config: &Config) -> bool {
        let requests = self.outgoing.len().saturating_add(config.window);
        // Pieces of streams are bounded by the room, and each costs more than this of it.
        self.queued > ROOM_BYTES / FRAME_COST + requests.saturating_mul(FRAMES_PER_REQUEST)
    }

    pub(super) fn apply_stream(&mut self, frame: &Frame<'_>) -> Result<(), Malformed> {
        if frame.number >= self.next {
            return Err(Malformed);
        }
        match self.outgoing.get_mut(&frame.number) {
            // It was given up.
            None => Ok(()),
            Some(request) if request.place == Place::Waiting => Err(Malformed),
            Some(Outgoing { stream: Some(stream), .. }) => stream.apply(frame),
            // The caller has no stream, and wants the answer alone: the server may go on.
            Some(request) if frame.kind == Kind::CreditUp => {
                if std::mem::replace(&mut request.up_end, UpEnd::Sent) != UpEnd::Sent {
                    self.queue_control(Kind::UpEnd, frame.number, &[]);
                }
                Ok(())
            }
            // An empty piece would cost memory and no credit.
            Some(_) if frame.body.is_empty() => Err(Malformed),
            Some(request) => {
                request.discarded += frame.body.len() as u64;
                // One grant for many pieces: small pieces must not fill the queue.
                if request.discarded >= GRANT_BYTES {
                    let bytes = std::mem::take(&mut request.discarded);
                    self.queue_control(Kind::CreditDown, frame.number, &bytes.to_le_bytes());
                }
                Ok(())
            }
        }
    }

    /// Queues a piece of the stream of a request that this side made (`Up`), or of one that it
    /// serves (`Down`). Its sender took `cost` from the room. `false` if the stream has ended.
    pub(crate) fn queue_piece(
        &mut self,
        kind: Kind,
        number: u64,
        body: &[u8],
        cost: usize,
    ) -> bool {
        let is_open = match kind {
            Kind::Down => self.incoming.contains_key(&number),
            _ => self.outgoing.get(&number).is_some_and(|request| request.up_end == UpEnd::Open),
        };
        if is_open {
            self.queue(kind, number, body, cost, false);
        }
        is_open
    }

    /// The peer refused a train for its length, or had no memory for it. Its requests end untaken,
    /// and its answers become faults. `false` if it carries anything else.
    #[must_use]
    pub(crate) fn train_refused(&mut self, manifest: Manifest, reason: &Reason) -> bool {
        let is_answers = manifest.queued.iter().all(|queued| queued.is_answer);
        for number in manifest.requests {
            if let Some(request) = self.outgoing.remove(&number) {
                self.in_flight -= 1;
                let _ = request.end.send(Err(CallError::NotTaken(reason.clone())));
            }
        }
        self.any_stop = false;
        self.queued -= manifest.queued.len();
        for queued in manifest.queued {
            self.room.give_back(queued.cost);
            self.answers -= usize::from(queued.is_answer);
            if let Some(number) = frame::number_of(&queued.bytes).filter(|_| queued.is_answer) {
                let text = format!("the answer cannot be handed over: {reason}");
                self.queue_answer(Kind::Fault, number, text.as_bytes(), 0);
            }
        }
        is_answers
    }

    /// Grants the peer so many more bytes of its stream.
    pub(crate) fn queue_grant(&mut self, kind: Kind, number: u64, bytes: u64) {
        let stream = match kind {
            Kind::CreditUp => self.incoming.get_mut(&number).map(|request| &mut request.stream),
            _ => self.outgoing.get_mut(&number).and_then(|request| request.stream.as_mut()),
        };
        if let Some(stream) = stream {
            stream.grant(bytes);
            self.queue_control(kind, number, &bytes.to_le_bytes());
        }
    }

    /// Ends the client's stream. The end never leaves before its request.
    pub(crate) fn finish(&mut self, number: u64) {
        let Some(request) = self.outgoing.get_mut(&number) else { return };
        if request.up_end != UpEnd::Open {
            return;
        }
        request.up_end = UpEnd::Wanted;
        if request.place == Place::Taken {
            request.up_end = UpEnd::Sent;
            self.queue_control(Kind::UpEnd, number, &[]);
        }
    }
}
