//! Measures transfers of a block, and copies of the same bytes through a Unix socket.

use crate::demo::baseline::Baseline;
use crate::demo::protocol::{BLOCK_BYTES, BlockTransfer, ClientReply, median, message_types};
use crate::error::{CliError, Result};
use m3ipc::{Address, AreaConfig, Block, BlockLifetime, Endpoint, Message, Timeout};
use std::path::Path;

/// Block and socket are measured in turn this often.
const ROUNDS: usize = 4;
/// Round trips of the block per round.
const TRIPS: usize = 100;

/// Sends the block to the server and back, in turn with the socket.
pub fn measure(
    own: &mut Endpoint,
    server: Address,
    directory: &Path,
    server_cpu: Option<usize>,
) -> Result<ClientReply> {
    let failed = |error: m3ipc::AreaError| CliError::failure(format!("no block: {error}"));
    let bytes = BLOCK_BYTES as u64;
    let area = own.create_area(&AreaConfig::pair(bytes, server)).map_err(failed)?;
    let mut block = own.allocate(&area, bytes, BlockLifetime::Short).map_err(failed)?;
    block.fill(0).map_err(failed)?;
    let copy = block.to_vec();
    let mut socket = Baseline::sink(directory, server_cpu)?;
    let (mut transfers_ns, mut copies_ns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..TRIPS {
            let start_ns = m3ipc_sys::monotonic_ns();
            block = round_trip(own, server, block)?;
            transfers_ns.push((m3ipc_sys::monotonic_ns() - start_ns) / 2);
        }
        let start_ns = m3ipc_sys::monotonic_ns();
        socket.send_block(&copy)?;
        copies_ns.push(m3ipc_sys::monotonic_ns() - start_ns);
    }
    socket.close()?;
    // The server increments the first and the last byte at each transfer.
    let count = ((ROUNDS * TRIPS) % 256).to_le_bytes()[0];
    if block.get(0) != Some(count) || block.get(block.len() - 1) != Some(count) {
        return Err(CliError::failure("the server did not write to the block at each transfer"));
    }
    drop(block);
    own.detach_area(&area).map_err(failed)?;
    Ok(ClientReply::Block(BlockTransfer {
        bytes: BLOCK_BYTES,
        hand_overs: 2 * transfers_ns.len(),
        hand_over_ns: median(&mut transfers_ns),
        sendings: copies_ns.len(),
        socket_ns: median(&mut copies_ns),
    }))
}

fn round_trip(own: &mut Endpoint, server: Address, block: Block) -> Result<Block> {
    let request = Message::new(message_types::BLOCK);
    own.sendrec_block(server, &request, block, Timeout::Never)
        .map_err(|unsent| CliError::failure(format!("the server took no block: {unsent}")))?;
    let block = own
        .take_block()
        .map_err(|error| CliError::failure(format!("cannot take the block back: {error}")))?;
    block.ok_or_else(|| CliError::failure("the answer has no block"))
}
