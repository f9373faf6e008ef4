//! Requests to the daemon that no call waits for: given up, or to be polled.
//!
//! The daemon answers the requests of a connection in their order. So each late reply belongs to
//! the oldest open request.

use crate::error::Fail;
use m3ipc_wire::Reply;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// A request whose reply a later call takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenRequest(u64);

/// The state of an open request.
#[derive(Debug)]
pub(crate) enum RequestState {
    /// The reply has not come.
    Open,
    /// The reply has come. It carries no descriptors: a link and an area come as events.
    Ended(Result<Reply, Fail>),
    /// The daemon of this request is gone.
    Lost,
}

/// A request whose reply has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// A later call takes the reply.
    Wanted(u64),
    /// Nobody takes the reply.
    GivenUp,
    /// As `GivenUp`: a request for an extent of this area.
    Extent(u32),
    /// As `GivenUp`: a request for the events of an area.
    Recall,
}

/// The open requests of one connection.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    /// In the order of their replies.
    order: VecDeque<Awaited>,
    /// The replies that have come and were not polled.
    replies: HashMap<u64, Result<Reply, Fail>>,
}

impl OpenRequests {
    /// Counts a request whose reply nobody takes.
    pub(super) fn give_up(&mut self) {
        self.order.push_back(Awaited::GivenUp);
    }

    /// Notes the area of a request for an extent that has failed. The latest request is another one
    /// if the daemon refused the extent; no reply to that one brings an extent.
    pub(super) fn note_extent(&mut self, area: u32) {
        if let Some(latest @ Awaited::GivenUp) = self.order.back_mut() {
            *latest = Awaited::Extent(area);
        }
    }

    /// Notes that the latest request, if it was given up, is one for the events of an area.
    pub(super) fn note_recall(&mut self) {
        if let Some(latest @ Awaited::GivenUp) = self.order.back_mut() {
            *latest = Awaited::Recall;
        }
    }

    /// Whether the reply to a request for the events of an area has not come.
    pub(super) fn has_recall(&self) -> bool {
        self.order.contains(&Awaited::Recall)
    }

    /// Counts a request whose reply a later call takes.
    pub(super) fn begin(&mut self) -> OpenRequest {
        // Unique in the process: a request of a former connection is unknown here.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.order.push_back(Awaited::Wanted(id));
        OpenRequest(id)
    }

    /// Gives an open request up; its reply, if it has come.
    pub(super) fn forget(&mut self, request: &OpenRequest) -> Option<Reply> {
        let wanted = Awaited::Wanted(request.0);
        let open = self.order.iter_mut().filter(|open| **open == wanted);
        open.for_each(|open| *open = Awaited::GivenUp);
        self.replies.remove(&request.0)?.ok()
    }

    /// The state of a request. An ended request is forgotten.
    pub(super) fn poll(&mut self, request: &OpenRequest) -> RequestState {
        if let Some(reply) = self.replies.remove(&request.0) {
            return RequestState::Ended(reply);
        }
        if self.is_open(request) { RequestState::Open } else { RequestState::Lost }
    }

    /// Whether the reply has not come.
    pub(super) fn is_open(&self, request: &OpenRequest) -> bool {
        self.order.contains(&Awaited::Wanted(request.0))
    }

    /// Ends the oldest request with its reply; the reply, if the request was given up.
    pub(super) fn end_oldest(&mut self, reply: Result<Reply, Fail>) -> Option<Reply> {
        let Some(Awaited::Wanted(id)) = self.order.pop_front() else { return reply.ok() };
        self.replies.insert(id, reply);
        None
    }

    /// Ends the oldest request, whose reply is an extent; the area of that extent, if it is known.
    pub(super) fn end_oldest_extent(&mut self) -> Option<u32> {
        match self.order.pop_front() {
            Some(Awaited::Extent(area)) => Some(area),
            _ => None,
        }
    }

    /// Whether a request waits for its reply and was not given up.
    pub(super) fn any_wanted(&self) -> bool {
        self.order.iter().any(|open| matches!(open, Awaited::Wanted(_)))
    }

    /// The number of requests whose replies have not come.
    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// Whether the next reply belongs to the request that was sent last.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc_abi::Code;

    #[test]
    fn replies_end_requests_in_their_order() {
        let mut open = OpenRequests::default();
        let first = open.begin();
        open.give_up();
        let (second, third) = (open.begin(), open.begin());
        assert_eq!(open.forget(&third), None);
        assert_eq!(open.end_oldest(Ok(Reply::Number(1))), None);
        assert!(matches!(open.poll(&second), RequestState::Open));
        assert_eq!(open.end_oldest(Ok(Reply::Number(2))), Some(Reply::Number(2)), "given up");
        assert_eq!(open.end_oldest(Err(Code::NoMem.into())), None);
        assert_eq!(open.end_oldest(Ok(Reply::Number(3))), Some(Reply::Number(3)), "forgotten");
        assert!(open.is_empty());
        assert!(matches!(open.poll(&first), RequestState::Ended(Ok(Reply::Number(1)))));
        assert!(matches!(open.poll(&second), RequestState::Ended(Err(_))));
        assert!(matches!(open.poll(&third), RequestState::Lost));
        assert!(matches!(OpenRequests::default().poll(&first), RequestState::Lost));
    }
}
