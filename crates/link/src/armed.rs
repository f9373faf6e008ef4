//! Armed connections: a poller that is awake learns of bytes by a bit, without a notification.
//!
//! A poller awaits many connections. The connections of one peer share the words of one *bitmap*,
//! in memory that this peer and the poller map, and no other process. A connection is ARMED
//! ([`notification`](crate::notification)) with its place in the bitmap.
//!
//! ```text
//! sender: announce                          poller: fall_asleep
//! S1. publish the tail                      R1. write ASLEEP
//! S2. set the bit of the connection         R2. take the bits once more
//! S3. read whether the poller sleeps        R3. sleep in the kernel, unless a bit was set
//! S4. it sleeps: notification suppression
//! ```
//!
//! A full fence separates S2 from S3, and another one R1 from R2. So the poller finds the bit, or
//! the sender sees that the poller sleeps and sends a notification. The kernel's wait reports that.
//! A receiver that arms or disarms a connection reads the tail afterwards, so no bytes lie between
//! two rules.
//!
//! A bitmap has two levels. A bit of a row stands for a connection. The rows with numbers below
//! [`DIRECT_ROWS`] lie in the line that the poller reads. In the same line one bit stands for each
//! other row. A poll thus reads one line for each peer, whatever the number of connections.
//!
//! A hostile peer may write all words of its bitmap. False bits cost the poller a look, lost bits
//! are bytes of its own connections.

use crate::Word64;
use core::sync::atomic::Ordering;

/// Rows whose bits lie in the first line.
pub const DIRECT_ROWS: usize = 4;
/// Words of the first line that stand for 64 rows each.
const SUMMARY_WORDS: usize = 4;
/// Rows of a bitmap. A row has a bit for each connection of one region of memory.
pub const ROWS: usize = 192;

/// The state of a poller that sleeps, or that does not look at this bitmap. Fresh memory says so.
const ASLEEP: u64 = 0;
const AWAKE: u64 = 1;

/// The words of a bitmap, in shared memory or in a model.
pub trait Bitmap {
    /// The type of the words.
    type Word: Word64;
    /// Whether the poller is awake. Only the poller writes this word.
    fn state(&self) -> &Self::Word;
    /// A word of the first line: the direct rows, then the summary words.
    fn first_line(&self, word: usize) -> &Self::Word;
    /// A row that is not direct.
    fn row(&self, row: usize) -> &Self::Word;
}

/// Steps S2 and S3 of a sender; `true` where a notification may be needed. The number of the row is
/// below [`ROWS`], that of the bit below 64.
#[must_use]
#[inline]
pub fn announce(bitmap: &impl Bitmap, row: usize, bit: usize) -> bool {
    if bitmap.state().load(Ordering::SeqCst) != AWAKE {
        return true;
    }
    mark(bitmap, row, bit);
    bitmap.state().load(Ordering::SeqCst) != AWAKE
}

/// Sets the bit of a connection.
#[inline]
fn mark(bitmap: &impl Bitmap, row: usize, bit: usize) {
    if row < DIRECT_ROWS {
        set(bitmap.first_line(row), bit);
    } else {
        set(bitmap.row(row), bit);
        // The row first: a summary bit that the poller clears must lead it to the bit.
        set(bitmap.first_line(DIRECT_ROWS + row / 64), row % 64);
    }
}

/// Sets a bit, with a full fence.
#[inline]
fn set(word: &impl Word64, bit: usize) {
    // A bit that is set is also a promise: the poller clears it before it looks for the bytes.
    word.fetch_or(1 << bit, Ordering::SeqCst);
    word.fence_after_update(); // pairs with `fall_asleep`
}

/// Takes all bits, and calls `found` with row and bit of each. Returns whether there was one.
#[inline]
pub fn take_marks(bitmap: &impl Bitmap, mut found: impl FnMut(usize, usize)) -> bool {
    let mut any = false;
    for row in 0..DIRECT_ROWS {
        each(take(bitmap.first_line(row)), |bit| {
            any = true;
            found(row, bit);
        });
    }
    for word in 0..SUMMARY_WORDS {
        each(take(bitmap.first_line(DIRECT_ROWS + word)), |in_word| {
            let row = 64 * word + in_word;
            if (DIRECT_ROWS..ROWS).contains(&row) {
                each(take(bitmap.row(row)), |bit| {
                    any = true;
                    found(row, bit);
                });
            }
        });
    }
    any
}

/// Takes the bits of a word. A word without bits is only read.
#[inline]
fn take(word: &impl Word64) -> u64 {
    match word.load(Ordering::SeqCst) {
        0 => 0,
        _ => word.swap(0, Ordering::SeqCst),
    }
}

#[inline]
fn each(mut bits: u64, mut found: impl FnMut(usize)) {
    while bits != 0 {
        found(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Step R1 of a poller: from now on senders notify. The poller takes the bits once more, then it
/// may sleep.
pub fn fall_asleep(bitmap: &impl Bitmap) {
    bitmap.state().swap(ASLEEP, Ordering::SeqCst);
    bitmap.state().fence_after_update(); // pairs with `set`
}

/// The poller is awake: senders set bits.
pub fn wake(bitmap: &impl Bitmap) {
    bitmap.state().store(AWAKE, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    struct Words(Vec<AtomicU64>);

    impl Bitmap for Words {
        type Word = AtomicU64;
        fn state(&self) -> &AtomicU64 {
            &self.0[0]
        }
        fn first_line(&self, word: usize) -> &AtomicU64 {
            &self.0[8 + word]
        }
        fn row(&self, row: usize) -> &AtomicU64 {
            &self.0[16 + row]
        }
    }

    #[test]
    fn every_bit_of_an_awake_poller_is_found_once() {
        let bitmap = Words((0..16 + ROWS).map(|_| AtomicU64::new(0)).collect());
        assert!(announce(&bitmap, 0, 3), "fresh memory sleeps");
        wake(&bitmap);
        let all = [(0, 0), (3, 63), (4, 1), (63, 9), (64, 0), (191, 63)];
        assert!(all.iter().all(|(row, bit)| !announce(&bitmap, *row, *bit)));
        let mut found = vec![];
        assert!(take_marks(&bitmap, |row, bit| found.push((row, bit))));
        assert_eq!(found, all);
        assert!(!take_marks(&bitmap, |_, _| unreachable!("it was taken")));
        fall_asleep(&bitmap);
        assert!(announce(&bitmap, 4, 1));
    }

    #[test]
    fn garbage_leads_nowhere_else() {
        let bitmap = Words((0..16 + ROWS).map(|_| AtomicU64::new(u64::MAX)).collect());
        let mut found = 0;
        take_marks(&bitmap, |row, bit| {
            assert!(row < ROWS && bit < 64);
            found += 1;
        });
        assert_eq!(found, ROWS * 64);
    }
}
