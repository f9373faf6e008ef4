//! A capture file for Wireshark, with a packet per message. `dist/wireshark/m3ipc.lua` dissects it.
//!
//! ```text
//!  0 version 1    4 VM    8 from    12 to    16 verb, flags, 0, 0    20 type
//! 24 bytes of the long payload      28 0
//! 32 number of the message          40 number of the request that an answer belongs to
//! 48 nanoseconds of the whole call (in an answer)
//! 56 nanoseconds of T1 prepare, T2 deliver, T5 to wake, to run, to read, T3 find, T4 copy, sender
//! 88 nanoseconds of the server      92 lengths of both names, 0, 0
//! 96 name of `from`, name of `to`
//! ```
//! All numbers are little-endian. The time of a packet is the time at which the sender published
//! the message.
//!
//! # Source
//! draft-ietf-opsawg-pcapng; link type 147 (USER0), for private use.

use super::event::{TracedMessage, ns};
use super::names::EndpointNames;
use m3ipc::trace::{MessageKind, Phases, StampScale, TraceWhat};
use std::io::{self, Write};

const LINKTYPE_USER0: u16 = 147;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Flag of an answer whose call is known.
const ENDS_CALL: u8 = 1;

/// A writer of a capture file.
#[derive(Debug)]
pub struct Pcapng<W> {
    file: W,
    vm: i32,
    /// The time of day minus the monotonic clock, in nanoseconds.
    epoch_ns: u64,
}

impl<W: Write> Pcapng<W> {
    /// Writes the head of a file for this VM.
    pub fn create(mut file: W, vm: i32, epoch_ns: u64) -> io::Result<Self> {
        let mut section = vec![];
        section.extend(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend(1_u16.to_le_bytes());
        section.extend(0_u16.to_le_bytes());
        section.extend(u64::MAX.to_le_bytes());
        block(&mut file, SECTION, &section)?;
        let mut interface = vec![];
        interface.extend(LINKTYPE_USER0.to_le_bytes());
        interface.extend(0_u16.to_le_bytes());
        interface.extend(0_u32.to_le_bytes());
        option(&mut interface, 2, b"m3ipc");
        // if_tsresol: nanoseconds.
        option(&mut interface, 9, &[9]);
        option(&mut interface, 0, &[]);
        block(&mut file, INTERFACE, &interface)?;
        Ok(Self { file, vm, epoch_ns })
    }

    /// Writes a message.
    pub fn write(
        &mut self,
        message: &TracedMessage,
        names: &EndpointNames,
        scale: &StampScale,
    ) -> io::Result<()> {
        let packet = self.packet(message, names, scale);
        let at_ns = self.epoch_ns.wrapping_add(scale.monotonic_ns(message.transfer.published));
        let length = u32::try_from(packet.len()).unwrap_or(0);
        let mut body = vec![];
        body.extend(0_u32.to_le_bytes());
        body.extend(((at_ns >> 32) as u32).to_le_bytes());
        body.extend(((at_ns & 0xffff_ffff) as u32).to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        padded(&mut body, &packet);
        block(&mut self.file, PACKET, &body)
    }

    fn packet(
        &self,
        message: &TracedMessage,
        names: &EndpointNames,
        scale: &StampScale,
    ) -> Vec<u8> {
        let transfer = &message.transfer;
        let short = |ticks: u64| u32::try_from(ns(scale, ticks)).unwrap_or(u32::MAX);
        let phases = Phases::of(transfer);
        let (call_ns, server_ns, flags) = match &message.call {
            Some(call) => (ns(scale, call.ticks()), short(call.phases().server), ENDS_CALL),
            None => (0, 0, 0),
        };
        let verb = match transfer.what {
            TraceWhat::Message(MessageKind::Send) => 1,
            TraceWhat::Message(MessageKind::Request) => 2,
            TraceWhat::Message(MessageKind::Reply) => 3,
            TraceWhat::Message(MessageKind::Relay) => 4,
            TraceWhat::Notify => 16,
            TraceWhat::Copy => 17,
        };
        let mut packet = vec![];
        for word in [1, self.vm, transfer.from.0, transfer.to.0] {
            packet.extend(word.to_le_bytes());
        }
        packet.extend([verb, flags, 0, 0]);
        packet.extend(transfer.m_type.to_le_bytes());
        packet.extend(transfer.bytes.to_le_bytes());
        packet.extend(0_u32.to_le_bytes());
        for word in [transfer.sequence, transfer.answers, call_ns] {
            packet.extend(word.to_le_bytes());
        }
        let Phases { prepare, deliver, to_wake, to_run, to_read, find, copy, sender } = phases;
        for ticks in [prepare, deliver, to_wake, to_run, to_read, find, copy, sender] {
            packet.extend(short(ticks).to_le_bytes());
        }
        packet.extend(server_ns.to_le_bytes());
        let [from, to] = [transfer.from, transfer.to].map(|endpoint| {
            let mut name = names.name(endpoint).into_bytes();
            name.truncate(usize::from(u8::MAX));
            name
        });
        // The names were cut to at most 255 bytes.
        let length = |name: &Vec<u8>| u8::try_from(name.len()).unwrap_or(u8::MAX);
        packet.extend([length(&from), length(&to), 0, 0]);
        packet.extend(from);
        packet.extend(to);
        packet
    }

    /// Completes the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn padded(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(bytes);
    to.resize(to.len().next_multiple_of(4), 0);
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend(code.to_le_bytes());
    to.extend(u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
    padded(to, value);
}

fn block(file: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
    file.write_all(&kind.to_le_bytes())?;
    file.write_all(&length)?;
    file.write_all(body)?;
    file.write_all(&length)
}
