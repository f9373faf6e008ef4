//! Blocks that are given, accepted, and sent with a message.

use super::owned::Owned;
use super::{Endpoint, reply_by};
use crate::block::{self, Block, Given, Memory};
use crate::error::Fault;
use crate::message::{Delivery, Message};
use m3ipc::{Address, AreaError, Code, Timeout};
use pyo3::prelude::*;

/// Looks for the end of another thread's call before a block is lost: two seconds.
const TAKE_BACK_LOOKS: u32 = 2_000;

impl Endpoint {
    pub(super) fn give_block(&self, py: Python<'_>, to: Address, block: &Block) -> PyResult<Given> {
        let mut taken = Some(block.take()?);
        let given = self.enter(py, |bound| {
            let inner = bound.shared(&mut taken, to)?;
            // Reads the daemon's events: a block that is given to the dead is lost.
            let _ = bound.endpoint.is_bound();
            let given = bound.endpoint.give_block(to, inner);
            given.map_err(|unsent| block::unsent(block, unsent).with(to))
        });
        if taken.is_some() {
            block.restore(taken);
        }
        Ok(Given { given: given? })
    }

    pub(super) fn accept_block(
        &self,
        py: Python<'_>,
        source: Address,
        name: &[u8],
    ) -> PyResult<Block> {
        let name = block::name_of(name)?;
        let block = self.enter(py, |bound| {
            let accepted = bound.endpoint.accept_given(source, &name);
            accepted.map_err(|error| match error {
                AreaError::PeerBroke(_)
                    if bound.endpoint.has_area_of(&name) && bound.is_gone(source) =>
                {
                    let text = format!(
                        "endpoint {source} died before its block was accepted, and the block \
                             is lost; look its name up again"
                    );
                    Fault::new("block", Code::SrcDied, text).with(source)
                }
                error => Fault::from(error).with(source),
            })
        })?;
        Ok(Block::of(block))
    }

    /// Gives a block back to its object after a hand-over that failed. Another thread may have
    /// begun a call meanwhile, which this one awaits for a while.
    pub(super) fn take_block_back(
        &self,
        py: Python<'_>,
        given: &Given,
        into: &Block,
    ) -> PyResult<bool> {
        let take = |bound: &mut Owned| Ok(bound.endpoint.take_back_given(&given.given));
        let back = self.enter_after(py, TAKE_BACK_LOOKS, take)?;
        let is_back = back.is_some();
        into.restore(back.map(Memory::Shared));
        Ok(is_back)
    }

    /// Replies with a block. Whether its client still waited; else the block comes back.
    pub(super) fn reply_block(
        &self,
        py: Python<'_>,
        to: Address,
        block: &Block,
        m_type: i32,
    ) -> PyResult<bool> {
        let message = m3ipc::Message::new(m_type);
        let mut taken = Some(block.take()?);
        let delivered = self.enter(py, |bound| {
            let inner = bound.shared(&mut taken, to)?;
            let (delivered, back) = bound.endpoint.try_reply_block(to, &message, inner);
            taken = back.map(Memory::Shared);
            Ok(delivered.map_err(|error| Fault::from(error).with(to))?.is_yes())
        });
        if taken.is_some() {
            block.restore(taken);
        }
        delivered
    }

    /// Sends a block with a message: as a request or alone.
    pub(super) fn send_block(
        slf: &Bound<'_, Self>,
        how: &str,
        to: Address,
        block: &Block,
        m_type: i32,
        limit: Timeout,
    ) -> PyResult<Option<Message>> {
        let message = m3ipc::Message::new(m_type);
        let mut taken = Some(block.take()?);
        let sent = slf.get().enter(slf.py(), |bound| {
            let inner = bound.shared(&mut taken, to)?;
            let endpoint = &mut bound.endpoint;
            match how {
                "call" => endpoint
                    .sendrec_block(to, &message, inner, limit)
                    .map_err(|unsent| block::unsent(block, unsent))
                    .map(|answer| Some((answer, endpoint.take_block()))),
                _ => endpoint
                    .send_block(to, &message, inner, limit)
                    .map(|()| None)
                    .map_err(|unsent| block::unsent(block, unsent)),
            }
            .map_err(|fault| fault.with(to))
        });
        if taken.is_some() {
            block.restore(taken);
        }
        match sent? {
            None => Ok(None),
            Some((answer, block)) => {
                Message::of((slf.as_any(), reply_by), answer, &[], Delivery::default(), block)
                    .map(Some)
            }
        }
    }
}
