//! Calls, receives and replies with bodies of bytes, and replies with any body.

use super::body::{message_of, raw, refuse};
use super::owned::Owned;
use super::{Endpoint, Pending, reply_by};
use crate::error::{Fault, of_receive};
use crate::interpreter::call;
use crate::message::{Delivery, Message, bodies};
use crate::timeout::of_seconds;
use m3ipc::{Address, LONG_MAX_BYTES, ReceiveError, Source, Timeout};
use pyo3::prelude::*;
use std::sync::PoisonError;

impl Endpoint {
    /// Sends a reply. Whether its client still waited.
    pub(super) fn reply(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        m_type: i32,
        inline: Option<&[u8]>,
    ) -> PyResult<bool> {
        match raw(body) {
            Some(bytes) => {
                slf.get().reply_raw(slf.py(), to, bytes, m_type, inline.unwrap_or_default())
            }
            None => {
                refuse(inline)?;
                let reply = bodies!(slf.py(), "reply")?;
                call(reply, (slf, to, body, m_type))?.extract()
            }
        }
    }

    pub(super) fn reply_raw(
        &self,
        py: Python<'_>,
        to: i32,
        bytes: &[u8],
        m_type: i32,
        inline: &[u8],
    ) -> PyResult<bool> {
        let (to, message) = (Address(to), message_of(m_type, inline)?);
        let reply = |bound: &mut Owned| {
            let delivered = bound.endpoint.reply_long(to, &message, bytes);
            let is_yes = delivered.map(|delivered| delivered.is_yes());
            is_yes.map_err(|error| Fault::from(error).with(to))
        };
        // A longer payload may need memory, and a copy that takes a while.
        if bytes.len() <= LONG_MAX_BYTES { self.enter_quick(reply) } else { self.enter(py, reply) }
    }

    pub(super) fn call_raw(
        slf: &Bound<'_, Self>,
        to: i32,
        bytes: &[u8],
        m_type: i32,
        timeout: Option<f64>,
        inline: &[u8],
    ) -> PyResult<Message> {
        let (to, limit) = (Address(to), of_seconds(timeout)?);
        let message = message_of(m_type, inline)?;
        let (answer, data, block) = slf.get().enter(slf.py(), |bound| {
            let called = bound.endpoint.sendrec_long_bytes(to, &message, bytes, limit);
            let (answer, data) = called.map_err(|error| Fault::from(error).with(to))?;
            Ok((answer, data, bound.endpoint.take_block()))
        })?;
        Message::of((slf.as_any(), reply_by), answer, &data, Delivery::default(), block)
    }

    /// Gives a request up. Whether the server had taken it. The arrays of an answer that had come
    /// are accepted, so that they end with it.
    pub(super) fn abandon(slf: &Bound<'_, Self>, pending: &Pending) -> PyResult<bool> {
        let (late, is_taken) = slf.get().enter(slf.py(), |bound| {
            let mut request = pending.request.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(open) = request.take() else { return Ok((None, false)) };
            let (late, is_taken) = bound.endpoint.abandon_told(&open);
            let late = late.map(|(answer, data)| (answer, data, bound.endpoint.take_block()));
            Ok((late, is_taken))
        })?;
        if let Some((answer, data, block)) = late {
            Message::of((slf.as_any(), reply_by), answer, &data, Delivery::default(), block)?;
        }
        Ok(is_taken)
    }

    /// A message that is there now, and the count of all news.
    pub(super) fn receive_now(
        slf: &Bound<'_, Self>,
        source: Option<i32>,
        has_others: bool,
    ) -> PyResult<(Option<Message>, u64)> {
        let source = source.map_or(Source::Any, |source| Source::from(Address(source)));
        let (found, news) = slf.get().enter(slf.py(), |bound| {
            let (received, news) = bound.endpoint.receive_beside(source, has_others);
            match received {
                Ok((received, data)) => {
                    Ok((Some((received, data, bound.endpoint.take_block())), news))
                }
                Err(ReceiveError::WouldBlock(_)) => Ok((None, news)),
                Err(error) => Err(of_receive(error, source)),
            }
        })?;
        let Some((received, data, block)) = found else { return Ok((None, news)) };
        let delivery = Delivery::of(&received);
        let message =
            Message::of((slf.as_any(), reply_by), received.message, &data, delivery, block)?;
        Ok((Some(message), news))
    }

    pub(super) fn receive_within(
        slf: &Bound<'_, Self>,
        source: Option<i32>,
        limit: Timeout,
    ) -> PyResult<Message> {
        let source = source.map_or(Source::Any, |source| Source::from(Address(source)));
        let (received, data, block) = slf.get().enter(slf.py(), |bound| {
            let received = bound.endpoint.receive_bytes(source, limit);
            let (received, data) = received.map_err(|error| of_receive(error, source))?;
            Ok((received, data, bound.endpoint.take_block()))
        })?;
        Message::of(
            (slf.as_any(), reply_by),
            received.message,
            &data,
            Delivery::of(&received),
            block,
        )
    }

    /// Replies, then receives from any endpoint. An exception says in `answered` which half it is
    /// of.
    pub(super) fn reply_receive_within(
        slf: &Bound<'_, Self>,
        to: i32,
        body: Option<&Bound<'_, PyAny>>,
        m_type: i32,
        inline: Option<&[u8]>,
        limit: Timeout,
    ) -> PyResult<Message> {
        let py = slf.py();
        let mut answered = false;
        let received = match raw(body) {
            Some(bytes) => message_of(m_type, inline.unwrap_or_default()).and_then(|message| {
                Self::reply_receive_raw(slf, to, (&message, bytes), limit, &mut answered)
            }),
            None => Self::reply(slf, to, body, m_type, inline).and_then(|is_delivered| {
                answered = is_delivered;
                Self::receive_within(slf, None, limit)
            }),
        };
        received.inspect_err(|error| {
            // An exception without attributes is none of this package.
            let _ = error.value(py).setattr("answered", answered);
        })
    }

    fn reply_receive_raw(
        slf: &Bound<'_, Self>,
        to: i32,
        (answer, bytes): (&m3ipc::Message, &[u8]),
        limit: Timeout,
        answered: &mut bool,
    ) -> PyResult<Message> {
        let to = Address(to);
        let (received, data, block) = slf.get().enter(slf.py(), |bound| {
            let delivered = bound.endpoint.reply_long(to, answer, bytes);
            *answered = delivered.map_err(|error| Fault::from(error).with(to))?.is_yes();
            let next = bound.endpoint.receive_bytes(Source::Any, limit);
            let (received, data) = next.map_err(|error| of_receive(error, Source::Any))?;
            Ok((received, data, bound.endpoint.take_block()))
        })?;
        Message::of(
            (slf.as_any(), reply_by),
            received.message,
            &data,
            Delivery::of(&received),
            block,
        )
    }
}
