//! The two halves of a conversation, as the timing loops use them.

use crate::error::Error;
use crate::payload::Message;

/// The client's half of a conversation.
pub trait ClientEnd {
    /// One round trip: sends the request, waits for the answer.
    ///
    /// # Errors
    /// The transport failed or the server has ended.
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error>;

    /// Trips that the end needs before the window: one on each of its connections, for example.
    fn warm_trips(&self) -> u64 {
        0
    }

    /// The window begins.
    ///
    /// # Errors
    /// The counters of the end cannot begin anew.
    fn begin_window(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The trip that ends the server.
    ///
    /// # Errors
    /// As for [`ClientEnd::trip`].
    fn stop(&mut self) -> Result<(), Error> {
        self.trip(&Message::stop(), &mut Message::default())
    }
}

/// The server's half of a conversation.
pub trait ServerEnd {
    /// Waits for the next request.
    ///
    /// Without a payload it sets `request` to [`Message::stop`] at the end, and leaves it alone
    /// otherwise.
    ///
    /// # Errors
    /// The transport failed or the client has ended.
    fn receive(&mut self, request: &mut Message) -> Result<(), Error>;

    /// Sends the answer.
    ///
    /// # Errors
    /// As for [`ServerEnd::receive`].
    fn send(&mut self, answer: &Message) -> Result<(), Error>;
}

/// An end that sends and receives alike in both roles.
pub trait Exchange {
    /// Sends a message.
    ///
    /// # Errors
    /// The transport failed or the other side has ended.
    fn put(&mut self, message: &Message) -> Result<(), Error>;

    /// Waits for a message.
    ///
    /// # Errors
    /// As for [`Exchange::put`].
    fn get(&mut self, message: &mut Message) -> Result<(), Error>;
}

impl<E: Exchange> ClientEnd for E {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.get(answer)
    }
}

impl<E: Exchange> ServerEnd for E {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.get(request)
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
