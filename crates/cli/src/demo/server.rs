//! The server process.

use super::protocol::{SERVER, VM, message_types};
use crate::error::Result;
use m3ipc::{Block, Node, Source, WaitStrategy};
use m3ipc_abi::Code;
use std::path::Path;

/// Answers requests until the VM ends.
pub fn run(node: &Path) -> Result<()> {
    let vm = Node::find(node)?.vm_named(VM)?;
    let mut own = vm.bind_any()?;
    own.name_attach(SERVER)?;
    loop {
        let request = match own.receive(Source::Any) {
            Ok(request) => request,
            Err(error) if error.code() == Code::VmNotRun => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match request.m_type {
            message_types::KEEP => continue,
            message_types::WAIT_STRATEGY if request.word(0) == 1 => {
                own.set_strategy(WaitStrategy::Block);
            }
            message_types::WAIT_STRATEGY => own.set_strategy(WaitStrategy::Adaptive),
            message_types::BLOCK => {
                if let Ok(Some(mut block)) = own.take_block() {
                    increment_ends(&mut block);
                    let _ = own.reply_block(request.source, &request, block);
                }
                continue;
            }
            _ => {}
        }
        // A client may have died: the server goes on.
        let _ = own.reply(request.source, &request);
    }
}

/// Increments the first and the last byte, which proves that this process can write to the block.
fn increment_ends(block: &mut Block) {
    for at in [0, block.len().saturating_sub(1)] {
        let byte = block.get(at).unwrap_or(0);
        // A block that may only be read stays as it is, and the client sees it.
        let _ = block.set(at, byte.wrapping_add(1));
    }
}
