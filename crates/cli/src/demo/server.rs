//! The server of the demo.

use super::{SERVER, VM, types};
use crate::fail::Result;
use m3ipc::{Block, Node, Source, WaitStrategy};
use m3ipc_abi::Code;
use std::path::Path;

/// Answers until its VM ends.
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
            types::KEEP => continue,
            types::WAIT if request.word(0) == 1 => own.set_strategy(WaitStrategy::Block),
            types::WAIT => own.set_strategy(WaitStrategy::Adaptive),
            types::BLOCK => {
                if let Ok(Some(mut block)) = own.take_block() {
                    add_one(&mut block);
                    let _ = own.reply_block(request.source, &request, block);
                }
                continue;
            }
            _ => {}
        }
        // A client that has gone meanwhile is no reason to stop.
        let _ = own.reply(request.source, &request);
    }
}

/// Shows that this process has the block: its first and its last byte are one more than they were.
fn add_one(block: &mut Block) {
    for at in [0, block.len().saturating_sub(1)] {
        let byte = block.get(at).unwrap_or(0);
        // A block that may only be read here stays as it is; the client sees it.
        let _ = block.set(at, byte.wrapping_add(1));
    }
}
