//! Counting: every message of an honest sender is numbered and summed, so
//! that what is lost, doubled or altered shows.

use m3ipc::{Address, Message};
use std::collections::HashMap;
use std::fmt;

/// Marks a message that is to be counted.
const COUNTED: i32 = 0x7a11;
/// Marks its answer.
const ANSWER: i32 = 0x7a12;

/// What one process has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Honest messages that came whole.
    pub whole: u64,
    /// Numbers that were skipped, or calls that failed.
    pub lost: u64,
    /// Numbers that came again.
    pub doubled: u64,
    /// Messages or answers that were not what was sent.
    pub altered: u64,
    /// The longest from being sent to being received, in microseconds.
    pub worst_us: u64,
    latest: HashMap<i32, u64>,
}

fn sum(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn word(message: &Message, at: usize) -> u64 {
    let bytes = message.payload[8 * at..8 * at + 8].try_into().expect("eight bytes");
    u64::from_ne_bytes(bytes)
}

fn put(message: &mut Message, at: usize, word: u64) {
    message.payload[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
}

fn sum_of(message: &Message, sender: Address, long: &[u8]) -> u64 {
    sum(&[&message.payload[..24], &sender.0.to_ne_bytes(), long])
}

/// The message of this number, and its long payload: empty, short or as long as a link holds.
#[must_use]
pub fn counted(number: u64, sender: Address) -> (Message, Vec<u8>) {
    let mut message = Message::new(COUNTED);
    put(&mut message, 0, number);
    put(&mut message, 1, m3ipc_sys::monotonic_ns());
    put(&mut message, 2, sum(&[&number.to_ne_bytes()]));
    let bytes = match number % 4 {
        0 => 0,
        1 => m3ipc_abi::LONG_MAX_BYTES,
        _ => usize::try_from(number % 500).unwrap_or(0) + 8,
    };
    let long: Vec<u8> =
        sum(&[&number.to_ne_bytes()]).to_ne_bytes().into_iter().cycle().take(bytes).collect();
    let sum = sum_of(&message, sender, &long);
    put(&mut message, 3, sum);
    (message, long)
}

/// The answer to a counted message.
#[must_use]
pub fn answer_to(message: &Message, server: Address) -> Message {
    let mut answer = Message::new(ANSWER);
    put(&mut answer, 0, word(message, 0));
    let sum = sum_of(&answer, server, &[]);
    put(&mut answer, 3, sum);
    answer
}

impl Tally {
    /// Counts what a server got.
    pub fn take(&mut self, message: &Message, long: &[u8]) {
        if message.m_type != COUNTED {
            return;
        }
        if sum_of(message, message.source, long) != word(message, 3) {
            self.altered += 1;
            return;
        }
        let number = word(message, 0);
        let latest = self.latest.insert(message.source.0, number).unwrap_or(0);
        match number.cmp(&(latest + 1)) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.lost += number - latest - 1,
            std::cmp::Ordering::Less => self.doubled += 1,
        }
        self.whole += 1;
        self.late_by(word(message, 1));
    }

    /// Counts the answer that a client got.
    pub fn answered(&mut self, asked: &Message, answer: &Message, server: Address, began_ns: u64) {
        let whole = answer.source == server
            && answer.m_type == ANSWER
            && word(answer, 0) == word(asked, 0)
            && word(answer, 3) == sum_of(answer, server, &[]);
        if whole {
            self.whole += 1;
        } else {
            self.altered += 1;
        }
        self.late_by(began_ns);
    }

    /// Counts a call that failed.
    pub fn failed(&mut self, why: &str) {
        eprintln!("an honest call failed: {why}");
        self.lost += 1;
    }

    fn late_by(&mut self, since_ns: u64) {
        let late_us = m3ipc_sys::monotonic_ns().saturating_sub(since_ns) / 1000;
        self.worst_us = self.worst_us.max(late_us);
    }

    /// The tally in a line that a process said.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.strip_prefix("tally ")?.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            whole: next()?,
            lost: next()?,
            doubled: next()?,
            altered: next()?,
            worst_us: next()?,
            latest: HashMap::new(),
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "tally {} {} {} {} {}",
            self.whole, self.lost, self.doubled, self.altered, self.worst_us
        )
    }
}
