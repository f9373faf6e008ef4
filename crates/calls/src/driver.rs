//! The task that moves trains between an endpoint and the state of its calls.
//!
//! Each round polls for names, then for the takes of posted trains, then packs new trains, then
//! receives. It sleeps when further rounds find nothing for some microseconds ([`NextStep`]). The
//! endpoint reports what comes after that; handles and handlers notify. No step waits for a peer.

use crate::config::Config;
use crate::error::{Fault, Reason};
use crate::frame;
use crate::serve::Serve;
use crate::state::{Manifest, Peer, Refusal, Shared};
use crate::stream::PIECE_BYTES;
use m3ipc::asynchronous::{AsyncEndpoint, NextStep, PendingName};
use m3ipc::{
    Address, Call, Code, Endpoint, Identity, LONG_MAX_BYTES, Message, PendingSend, ReceiveError,
    Received, SendError, Timeout, WaitError, Withdrawal,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Messages and trains of one round, before other tasks run.
const ROUND: usize = 128;

/// The pause between two looks of a server that ends, which receives nothing more.
const LAST_LOOKS: Duration = Duration::from_millis(1);

/// Whether the peer may have taken a posted train whose poll ended with this error. All other
/// errors say that it did not.
fn may_be_taken(error: &SendError) -> bool {
    matches!(error.code(), Code::PeerBroke | Code::Unknown)
}

/// Whether the peer refused one train, for its length or for want of memory. Others go on.
fn is_of_one_train(error: &SendError) -> bool {
    matches!(error.code(), Code::NoPayload | Code::MsgSize)
}

/// Whether a posted train went back. The runtime has no time for the word of another node.
fn withdraw(endpoint: &mut Endpoint, train: &PendingSend) -> bool {
    endpoint.withdraw_timeout(train, Timeout::NoWait) == Withdrawal::Withdrawn
}

pub(crate) struct Driver {
    pub(crate) endpoint: AsyncEndpoint,
    pub(crate) shared: Arc<Shared>,
    pub(crate) config: Config,
    pub(crate) serve: Option<Serve>,
    nonce: u64,
    posted: HashMap<i32, (PendingSend, Manifest)>,
    names: Vec<(PendingName, oneshot::Sender<Result<Address, WaitError>>)>,
}

impl Driver {
    pub(crate) fn new(
        mut endpoint: AsyncEndpoint,
        shared: Arc<Shared>,
        config: Config,
        serve: Option<Serve>,
    ) -> Self {
        endpoint.endpoint().watch_all(true);
        let longest = config.max_body_bytes.max(PIECE_BYTES).saturating_add(frame::AROUND_BYTES);
        endpoint.endpoint().set_receive_limit(longest);
        let pid = u64::from(std::process::id());
        let nonce = m3ipc_sys::monotonic_ns().rotate_left(20) ^ pid;
        let (posted, names) = (HashMap::new(), Vec::new());
        Self { endpoint, shared, config, serve, nonce, posted, names }
    }

    /// Runs until the handles are gone or the endpoint is.
    pub(crate) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut has_waited = false;
        loop {
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if shared.state().is_closed {
                break;
            }
            self.endpoint.begin_round();
            let found = self.round(has_waited);
            self.endpoint.end_round(!matches!(found, Ok(false)));
            has_waited = false;
            if shared.state().may_end() {
                break;
            }
            match found {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => match self.endpoint.next_step() {
                    NextStep::Poll => {}
                    NextStep::Yield => tokio::task::yield_now().await,
                    NextStep::Sleep if !shared.state().receives() => {
                        tokio::time::sleep(LAST_LOOKS).await;
                    }
                    NextStep::Sleep => tokio::select! {
                        () = self.endpoint.ready() => has_waited = true,
                        () = &mut changed => {}
                    },
                },
                Err(_gone) => break,
            }
        }
        self.close();
    }

    /// Polls once for everything. Whether it found anything.
    fn round(&mut self, has_waited: bool) -> Result<bool, ReceiveError> {
        self.give_plain_answers();
        let before = self.endpoint.activity();
        self.poll_names();
        let sent = self.poll_trains() | self.post_trains();
        let receives = self.shared.state().receives();
        let received = if receives { self.receive(has_waited)? } else { 0 };
        // The end of a wait for a name may have been read after the look for it.
        let may_be_named = !self.names.is_empty() && self.endpoint.activity() != before;
        Ok(received > 0 || sent || may_be_named)
    }

    fn poll_names(&mut self) {
        let asked = std::mem::take(&mut self.shared.state().names);
        for (name, end) in asked {
            self.names.push((self.endpoint.begin_name(&name), end));
        }
        let mut at = 0;
        while at < self.names.len() {
            let (name, end) = &mut self.names[at];
            let found = if end.is_closed() { None } else { Some(self.endpoint.poll_name(name)) };
            if let Some(Ok(None)) = found {
                at += 1;
                continue;
            }
            let (name, end) = self.names.swap_remove(at);
            self.endpoint.end_name(name);
            if let Some(found) = found.and_then(Result::transpose) {
                let _ = end.send(found);
            }
        }
    }

    /// Looks after the posted trains. Whether anything changed.
    fn poll_trains(&mut self) -> bool {
        let mut ended = Vec::new();
        for (address, (pending, _)) in &mut self.posted {
            let polled = self.endpoint.endpoint().poll_send(pending);
            let wants_stop = || {
                let state = self.shared.state();
                state.peers.get(address).is_some_and(Peer::wants_stop)
            };
            match polled {
                Ok(false) if !wants_stop() => {}
                Ok(taken) => {
                    let is_withdrawn = !taken && withdraw(self.endpoint.endpoint(), pending);
                    ended.push((*address, Ok(!is_withdrawn)));
                }
                Err(error) => ended.push((*address, Err(error))),
            }
        }
        let any = !ended.is_empty();
        for (address, end) in ended {
            let Some((pending, manifest)) = self.posted.remove(&address) else { continue };
            match end {
                Ok(is_taken) => {
                    let mut state = self.shared.state();
                    let Some(peer) = state.peers.get_mut(&address) else { continue };
                    if is_taken {
                        peer.train_taken(manifest);
                    } else {
                        peer.train_withdrawn(manifest);
                    }
                    drop(state);
                    self.shared.served.notify_waiters();
                }
                Err(error) if is_of_one_train(&error) => {
                    self.train_refused(address, manifest, error);
                }
                Err(error) => {
                    // The link of an endpoint that is unbound still tells.
                    let may_be_taken = match error {
                        SendError::Unbound(_) => !withdraw(self.endpoint.endpoint(), &pending),
                        _ => may_be_taken(&error),
                    };
                    if may_be_taken && let Some(peer) = self.shared.state().peers.get_mut(&address)
                    {
                        peer.train_taken(manifest);
                    }
                    self.end_peer(address, &Reason::of(error));
                }
            }
        }
        any
    }

    /// Posts a train for each peer that has frames and no train under way.
    fn post_trains(&mut self) -> bool {
        let mut trains = Vec::new();
        for (address, peer) in &mut self.shared.state().peers {
            if !self.posted.contains_key(address)
                && let Some(train) = peer.pack()
            {
                trains.push((*address, train));
            }
        }
        let any = !trains.is_empty();
        for (address, (train, manifest)) in trains {
            match self.endpoint.begin_send(Address(address), &frame::message(self.nonce), train) {
                Ok(pending) => {
                    self.posted.insert(address, (pending, manifest));
                }
                Err(error) if is_of_one_train(&error) => {
                    self.train_refused(address, manifest, error);
                }
                Err(error) => self.end_peer(address, &Reason::of(error)),
            }
        }
        any
    }

    /// The peer refused a train: the calls of that train end, and no others.
    fn train_refused(&mut self, address: i32, manifest: Manifest, error: SendError) {
        let reason = Reason::of(error);
        let is_over = {
            let mut state = self.shared.state();
            let peer = state.peers.get_mut(&address);
            peer.is_some_and(|peer| !peer.train_refused(manifest, &reason))
        };
        if is_over {
            self.end_peer(address, &reason);
        }
        self.shared.served.notify_waiters();
    }

    fn receive(&mut self, mut has_waited: bool) -> Result<usize, ReceiveError> {
        for count in 0..ROUND {
            match self.endpoint.try_receive_bytes(has_waited) {
                Ok((received, bytes)) => self.deliver(&received, bytes),
                Err(ReceiveError::WouldBlock(_)) => return Ok(count),
                Err(error @ (ReceiveError::Unbound(_) | ReceiveError::VerbDenied(_))) => {
                    return Err(error);
                }
                // One message or one peer failed: the others go on.
                Err(_) => {}
            }
            has_waited = false;
        }
        Ok(ROUND)
    }

    fn deliver(&mut self, received: &Received, bytes: Vec<u8>) {
        if let Some(dead) = received.died {
            return self.end_peer(dead.0, &Reason::Died);
        }
        let Some(sender) = self.endpoint.endpoint().latest_peer() else { return };
        let message = &received.message;
        if received.is_request {
            let bytes = match Call::bytes_of(message, &bytes) {
                inside if bytes.is_empty() => inside.to_vec(),
                _beside => bytes,
            };
            return match &mut self.serve {
                Some(serve) => serve.begin_plain(&self.shared, sender, *message, bytes),
                None => self.answer_plain(message, &Err(Fault::new("no server is here"))),
            };
        }
        if received.is_notification || message.m_type != frame::TRAIN {
            return;
        }
        if self.apply(message, sender, &bytes).is_err() {
            self.end_peer(message.source.0, &Reason::PeerBroke);
        }
    }

    fn apply(
        &mut self,
        message: &Message,
        sender: Identity,
        bytes: &[u8],
    ) -> Result<(), frame::Malformed> {
        let from = message.source.0;
        let is_same = {
            let mut state = self.shared.state();
            state.peer(from).note_nonce(frame::nonce(message))
        };
        if !is_same {
            // A successor at the address of a server slot.
            self.end_peer(from, &Reason::Died);
        }
        let mut rest = bytes;
        let mut begun = Vec::new();
        {
            let mut state = self.shared.state();
            let begin = match self.serve {
                Some(_) if !state.is_stopping => Ok(()),
                _ => Err(Refusal::ShuttingDown),
            };
            let peer = state.peer(from);
            peer.note_nonce(frame::nonce(message));
            while !rest.is_empty() {
                let frame = frame::pop(&mut rest)?;
                begun.extend(peer.apply(&frame, &self.config, begin)?);
            }
        }
        if let Some(serve) = &mut self.serve {
            begun.into_iter().for_each(|request| serve.begin(&self.shared, sender, request));
        }
        Ok(())
    }

    fn give_plain_answers(&mut self) {
        let answers = std::mem::take(&mut self.shared.state().plain_answers);
        if !answers.is_empty() {
            answers.iter().for_each(|(request, answer)| self.answer_plain(request, answer));
            self.shared.served.notify_waiters();
        }
    }

    /// A client that gave up meanwhile needs no answer.
    fn answer_plain(&mut self, request: &Message, answer: &Result<Vec<u8>, Fault>) {
        let endpoint = self.endpoint.endpoint();
        let _ = match answer {
            Ok(bytes) => endpoint.answer_call(request, bytes),
            Err(fault) => {
                let mut reply = |text| endpoint.reply_bytes(request.source, -1, text);
                let text = fault.message.as_bytes();
                // The begin of the text needs no area.
                reply(text).or_else(|_unsent| reply(&text[..text.len().min(LONG_MAX_BYTES)]))
            }
        };
    }

    fn end_peer(&mut self, address: i32, reason: &Reason) {
        if let Some((pending, manifest)) = self.posted.remove(&address) {
            // The train may have been taken just before the end.
            let is_taken = !withdraw(self.endpoint.endpoint(), &pending);
            if is_taken && let Some(peer) = self.shared.state().peers.get_mut(&address) {
                peer.train_taken(manifest);
            }
        }
        self.shared.state().end_peer(address, reason);
        if let Some(serve) = &mut self.serve {
            serve.end_client(address);
        }
        self.shared.served.notify_waiters();
    }

    fn close(&mut self) {
        self.give_plain_answers();
        if let Some(serve) = &mut self.serve {
            serve.end_plain();
        }
        let addresses: Vec<i32> = {
            let mut state = self.shared.state();
            state.is_closed = true;
            state.names.clear();
            state.peers.keys().copied().collect()
        };
        addresses.into_iter().for_each(|address| self.end_peer(address, &Reason::Closed));
        self.shared.served.notify_waiters();
    }
}

impl Drop for Driver {
    // The runtime may drop the task in the middle.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unknown_end_may_be_that_of_a_taken_train() {
        let system = |code| SendError::System { code, why: String::new() };
        for code in [Code::NotConn, Code::NoMem, Code::NoPayload, Code::MsgSize, Code::Perm] {
            assert!(!may_be_taken(&system(code)), "{code:?}");
        }
        let address = Address(1);
        assert!(!may_be_taken(&SendError::Died(address)));
        assert!(!may_be_taken(&SendError::PartnerDenied(address)));
        assert!(may_be_taken(&system(Code::Unknown)));
        assert!(may_be_taken(&SendError::PeerBroke(address)));
    }
}
