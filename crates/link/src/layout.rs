//! The layout of a link page.
//!
//! ```text
//! 0x000 slot of side 0: state word, stamp, type, long bytes, 40 bytes of payload
//! 0x040 slot of side 1
//! 0x080 notifications of side 0: numbers pending, argument of the first, argument of the later
//!       ones, 16 codes of pulses, 2 values of pulses, code of a proxy
//! 0x0c0 notifications of side 1
//! 0x100 wake word of side 0 (side 0 sleeps on it), 7 values of pulses for side 0
//! 0x140 wake word of side 1, 7 values of pulses for side 1
//! 0x180 long payload of side 0, 1,792 bytes           0x880 long payload of side 1
//! 0xf80 copy gate of side 0, 7 values of pulses for side 0                0xfc0 those of side 1
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
/// Offset of the [head](crate::head) in a slot.
pub(crate) const HEAD: usize = 16;
/// Offset of the payload in a slot.
pub(crate) const PAYLOAD: usize = 24;
/// Offset of the argument of the first pending notification.
pub(crate) const FIRST_ARGUMENT: usize = 8;
/// Offset of the argument of the later ones.
pub(crate) const LATER_ARGUMENT: usize = 16;
/// Offset of the codes of pulses, a byte each, in the line of the sender's notifications.
const PULSE_CODES: usize = 24;
/// Offset of the last two values of pulses in that line.
const LAST_PULSE_VALUES: usize = 40;
/// Offset of the code with which a proxy ends a message, in the line of its notifications.
const PROXY_CODE: usize = 56;
/// Offset of the values of pulses in the line of a wake word and of a copy gate.
const PULSE_VALUES: usize = 8;
/// Values of pulses in such a line.
const VALUES_PER_LINE: usize = 7;

/// The limit of pulses that one side has sent and the other side has not taken.
pub const PULSES_MAX: usize = 2 * VALUES_PER_LINE + 2;

const _: () = assert!(PAYLOAD + PAYLOAD_BYTES == LINE_BYTES);
// The payload is the rest of the line, as words.
const _: () = assert!(PAYLOAD.is_multiple_of(8) && HEAD + 8 == PAYLOAD && STAMP + 8 == HEAD);
const _: () = assert!(LINE_BYTES == 8 * m3ipc_shm::LINE_WORDS);
const _: () = assert!(LONG + 2 * LONG_MAX_BYTES <= COPY_GATE);
const _: () = assert!(COPY_GATE + 2 * LINE_BYTES <= LINK_BYTES);
const _: () = assert!(PULSE_VALUES + 8 * VALUES_PER_LINE == LINE_BYTES);
const _: () = assert!(PULSE_CODES + PULSES_MAX == LAST_PULSE_VALUES);
const _: () = assert!(LAST_PULSE_VALUES + 16 == PROXY_CODE && PROXY_CODE + 4 <= LINE_BYTES);

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

    /// Offset of the word with the code of a pulse that this side sends, and the shift of the code.
    pub(crate) const fn pulse_code(self, place: usize) -> (usize, usize) {
        (self.notification() + PULSE_CODES + place / 8 * 8, place % 8 * 8)
    }

    /// Offset of the value of a pulse that this side sends.
    pub(crate) const fn pulse_value(self, place: usize) -> usize {
        let (line, at) = match place / VALUES_PER_LINE {
            0 => (self.other().wake_word() + PULSE_VALUES, place),
            1 => (self.other().copy_gate() + PULSE_VALUES, place - VALUES_PER_LINE),
            _ => (self.notification() + LAST_PULSE_VALUES, place - 2 * VALUES_PER_LINE),
        };
        line + 8 * at
    }

    /// Offset of the code with which this side, a proxy, ends a message of the other side.
    pub(crate) const fn proxy_code(self) -> usize {
        self.notification() + PROXY_CODE
    }

    /// Offset of the copy gate of this side.
    pub(crate) const fn copy_gate(self) -> usize {
        COPY_GATE + self.times(LINE_BYTES)
    }
}
