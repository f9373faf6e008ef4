//! Blocks of an endpoint of a test.

use m3ipc::{Area, Block, BlockLifetime, Endpoint};
use m3ipc_test_fixture::until;

/// Bytes that differ at each place.
#[must_use]
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8)).to_le_bytes()[0]).collect()
}

/// A block with this content.
///
/// # Panics
/// If there is no room.
#[must_use]
pub fn block_of(client: &mut Endpoint, area: &Area, content: &[u8]) -> Block {
    let bytes = content.len() as u64;
    let mut block =
        client.allocate(area, bytes.max(1), BlockLifetime::Short).expect("there is room");
    block.set_bytes(bytes).expect("it fits");
    block.copy_from(content).expect("it fits");
    block
}

/// Waits until all of the area is free again.
pub fn until_all_is_free(client: &mut Endpoint, area: &Area) {
    until("the area is free", || {
        drop(client.allocate(area, 64, BlockLifetime::Short));
        area.blocks_out() == 0
    });
}
