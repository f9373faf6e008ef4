//! A block changes hands, and the same bytes go through a Unix socket.

use super::Client;
use crate::demo::raw::Raw;
use crate::demo::{BLOCK_BYTES, Handed, Told, median, types};
use crate::fail::{Fail, Result};
use m3ipc::{AreaConfig, Block, BlockLifetime, Message, Timeout};

/// The ways take turns so often ...
const ROUNDS: usize = 4;
/// ... and the block goes there and back so often in each.
const TRIPS: usize = 100;

/// Gives the block to the server, who gives it back; in turns with the socket.
pub fn hand_over(client: &mut Client<'_>) -> Result<Told> {
    let wrong = |error: m3ipc::AreaError| Fail::plain(format!("no block: {error}"));
    let bytes = BLOCK_BYTES as u64;
    let area = client.own.create_area(&AreaConfig::pair(bytes, client.server)).map_err(wrong)?;
    let mut block = client.own.allocate(&area, bytes, BlockLifetime::Short).map_err(wrong)?;
    block.fill(0).map_err(wrong)?;
    let copied = block.to_vec();
    let mut socket = Raw::sink(client.directory, client.other_cpu)?;
    let (mut handed_ns, mut sent_ns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..TRIPS {
            let begun_ns = m3ipc_sys::monotonic_ns();
            block = there_and_back(client, block)?;
            handed_ns.push((m3ipc_sys::monotonic_ns() - begun_ns) / 2);
        }
        let begun_ns = m3ipc_sys::monotonic_ns();
        socket.fill(&copied)?;
        sent_ns.push(m3ipc_sys::monotonic_ns() - begun_ns);
    }
    socket.end()?;
    let counted = ((ROUNDS * TRIPS) % 256).to_le_bytes()[0];
    if block.get(0) != Some(counted) || block.get(block.len() - 1) != Some(counted) {
        return Err(Fail::plain("the server has not had the block as often as it was given"));
    }
    drop(block);
    client.own.detach_area(&area).map_err(wrong)?;
    Ok(Told::Handed(Handed {
        bytes: BLOCK_BYTES,
        hand_overs: 2 * handed_ns.len(),
        hand_over_ns: median(&mut handed_ns),
        sendings: sent_ns.len(),
        socket_ns: median(&mut sent_ns),
    }))
}

fn there_and_back(client: &mut Client<'_>, block: Block) -> Result<Block> {
    let sent =
        client.own.sendrec_block(client.server, &Message::new(types::BLOCK), block, Timeout::Never);
    sent.map_err(|unsent| Fail::plain(format!("the block was not taken: {unsent}")))?;
    let back =
        client.own.take_block().map_err(|error| Fail::plain(format!("no block back: {error}")))?;
    back.ok_or_else(|| Fail::plain("the block did not come back"))
}
