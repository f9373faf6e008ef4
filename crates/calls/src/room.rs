//! The room of a peer: what streams and answers may hold here until the peer takes it.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Bytes of streams and answers to one peer that wait for its take.
pub(crate) const ROOM_BYTES: usize = 4 << 20;
/// The memory of a frame beside its body.
pub(crate) const FRAME_COST: usize = 64;

/// The room of a peer. A task takes the cost of a frame before it queues the frame, and the take of
/// the train that carries the frame gives it back. A frame longer than the room takes all of it.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_BYTES)))
    }
}

/// A part of the room. A drop gives it back.
#[must_use]
pub(crate) struct Part<'a> {
    room: &'a Room,
    cost: usize,
}

impl Part<'_> {
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// A frame of this cost was queued: its take gives the part back.
    pub(crate) fn keep(mut self) {
        self.cost = 0;
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.room.give_back(self.cost);
    }
}

impl Room {
    /// Waits for the room of a frame. `None` if the peer has gone.
    pub(crate) async fn part(&self, body_bytes: usize) -> Option<Part<'_>> {
        let cost = body_bytes.saturating_add(FRAME_COST).min(ROOM_BYTES);
        let permits = u32::try_from(cost).expect("the room is smaller");
        self.0.acquire_many(permits).await.ok()?.forget();
        Some(Part { room: self, cost })
    }

    #[cfg(test)]
    pub(crate) fn take_now(&self, cost: usize) {
        assert_eq!(self.0.forget_permits(cost), cost);
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.0.available_permits()
    }

    pub(crate) fn give_back(&self, cost: usize) {
        self.0.add_permits(cost);
    }

    /// Ends the waits: the peer has gone.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}
