//! The layout of a link page.
//!
//! ```text
//! 0x000 slot of side 0: state word, stamp, type, long bytes, 40 bytes of payload
//! 0x040 slot of side 1
//! 0x080 notifications of side 0: number pending, argument of the first, argument of the later ones
//! 0x0c0 notifications of side 1
//! 0x100 wake word of side 0 (side 0 sleeps on it)     0x140 wake word of side 1
//! 0x180 long payload of side 0, 1,792 bytes           0x880 long payload of side 1
//! 0xf80 copy gate of side 0                           0xfc0 copy gate of side 1
//! ```

use m3ipc_abi::{LONG_MAX_BYTES, PAYLOAD_BYTES};

/// Size of a link in bytes.
pub const LINK_BYTES: usize = m3ipc_shm::PAGE_BYTES;

const LINE_BYTES: usize = 0x40;
const SLOT: usize = 0x000;
const NOTIFY: usize = 0x080;
const WAKE_WORD: usize = 0x100;
const LONG: usize = 0x180;
const COPY_GATE: usize = 0xf80;

/// Offset of the stamp in a slot.
pub(crate) const STAMP: usize = 8;
/// Offset of the type in a slot.
pub(crate) const TYPE: usize = 16;
/// Offset of the length of the long payload in a slot.
pub(crate) const LONG_BYTES: usize = 20;
/// Offset of the payload in a slot.
pub(crate) const PAYLOAD: usize = 24;
/// Flag beside the length: the long payload is the name of a block.
pub(crate) const IS_BLOCK: u32 = 1 << 31;
/// Offset of the argument of the first pending notification.
pub(crate) const FIRST_ARGUMENT: usize = 8;
/// Offset of the argument of the later ones.
pub(crate) const LATER_ARGUMENT: usize = 16;

const _: () = assert!(PAYLOAD + PAYLOAD_BYTES == LINE_BYTES);
// `Page::write_short` and `Page::read_short` use the words of a slot by their numbers.
const _: () = assert!(STAMP == 8 && TYPE == 16 && LONG_BYTES == TYPE + 4 && PAYLOAD == 24);
const _: () = assert!(LINE_BYTES == 8 * m3ipc_shm::LINE_WORDS);
const _: () = assert!(LONG + 2 * LONG_MAX_BYTES <= COPY_GATE);
const _: () = assert!(COPY_GATE + 2 * LINE_BYTES <= LINK_BYTES);

/// The side of a party of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkSide {
    /// The party whose request made the link.
    Zero = 0,
    /// The other party.
    One = 1,
}

impl LinkSide {
    /// The side of the other party.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Zero => Self::One,
            Self::One => Self::Zero,
        }
    }

    const fn times(self, bytes: usize) -> usize {
        self as usize * bytes
    }

    /// Offset of the slot that this side sends in.
    pub(crate) const fn slot(self) -> usize {
        SLOT + self.times(LINE_BYTES)
    }

    /// Offset of the notifications that this side sends.
    pub(crate) const fn notification(self) -> usize {
        NOTIFY + self.times(LINE_BYTES)
    }

    /// Offset of the word that this side sleeps on.
    pub(crate) const fn wake_word(self) -> usize {
        WAKE_WORD + self.times(LINE_BYTES)
    }

    /// Offset of the long payload that this side sends.
    pub(crate) const fn long(self) -> usize {
        LONG + self.times(LONG_MAX_BYTES)
    }

    /// Offset of the copy gate of this side.
    pub(crate) const fn copy_gate(self) -> usize {
        COPY_GATE + self.times(LINE_BYTES)
    }
}
