//! The server of the demo.

use super::{SERVER, VM, types};
use crate::fail::Result;
use m3_abi::Code;
use m3ipc::{Node, Source, Strategy};
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
            types::WAIT if request.word(0) == 1 => own.set_strategy(Strategy::Block),
            types::WAIT => own.set_strategy(Strategy::Adaptive),
            _ => {}
        }
        // A client that has gone meanwhile is no reason to stop.
        let _ = own.reply(request.source, &request);
    }
}
