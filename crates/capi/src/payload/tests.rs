use super::*;
use crate::failure::CallFailure;
use core::ptr::null_mut;

const CUT: CallFailure = CallFailure::of(Code::MsgSize);

/// Memory of a program, for one delivery.
struct Program {
    message: Message,
    bytes: [u8; 8],
    length: usize,
}

impl Program {
    fn new() -> Self {
        Self { message: Message::new(0), bytes: [0xee; 8], length: usize::MAX }
    }

    fn delivery(&mut self, capacity: usize, has_length: bool) -> Delivery {
        let length = if has_length { &raw mut self.length } else { null_mut() };
        // SAFETY: fields of a live program, which the test accesses only after the delivery.
        unsafe {
            Delivery::long(
                WritePtr::new(&raw mut self.message),
                WriteBytes::new(self.bytes.as_mut_ptr().cast(), capacity),
                WritePtr::new(length),
            )
        }
    }

    /// Delivers a message of type 7 with these bytes.
    fn deliver(&mut self, capacity: usize, has_length: bool, bytes: &[u8]) -> CallResult {
        self.delivery(capacity, has_length).deliver(|buffer| {
            let Buffer::Slice(buffer) = buffer else { panic!("the room is short") };
            let fits = bytes.len().min(buffer.len());
            buffer[..fits].copy_from_slice(&bytes[..fits]);
            Ok((Message::new(7), bytes.len()))
        })
    }
}

#[test]
fn a_long_part_that_fits_is_delivered_with_its_length() {
    let mut program = Program::new();
    assert_eq!(program.deliver(8, true, b"abc"), Ok(0));
    assert_eq!((program.message.m_type, program.length), (7, 3));
    assert_eq!(&program.bytes, b"abc\xee\xee\xee\xee\xee");
}

#[test]
fn a_long_part_that_does_not_fit_is_cut_and_its_whole_length_reported() {
    let mut program = Program::new();
    assert_eq!(program.deliver(2, true, b"abcd"), Err(CUT));
    assert_eq!((program.message.m_type, program.length), (7, 4));
    assert_eq!(&program.bytes[..3], b"ab\xee");
}

#[test]
fn a_plain_receive_drops_the_long_part() {
    let mut program = Program::new();
    assert_eq!(program.deliver(0, false, b"abcd"), Err(CUT));
    assert_eq!((program.message.m_type, program.bytes), (7, [0xee; 8]));
    assert_eq!(program.deliver(0, false, b""), Ok(0));
}

#[test]
fn a_long_room_gets_memory_for_what_arrives() {
    let mut program = Program::new();
    let delivered = program.delivery(LARGE_MAX_BYTES, true).deliver(|buffer| {
        let Buffer::UpTo(memory, most) = buffer else { panic!("the room is long") };
        assert_eq!((memory.capacity(), *most), (0, LARGE_MAX_BYTES));
        memory.extend_from_slice(b"abc");
        Ok((Message::new(7), 3))
    });
    assert_eq!((delivered, program.length), (Ok(0), 3));
    assert_eq!(&program.bytes, b"abc\xee\xee\xee\xee\xee");
}

#[test]
fn a_failed_receive_leaves_a_length_of_0() {
    let mut program = Program::new();
    let failed = program.delivery(8, true).deliver(|_| Err(Code::Again.into()));
    assert_eq!(failed, Err(CallFailure::of(Code::Again)));
    assert_eq!(program.length, 0);
}

#[test]
fn a_bad_address_fails_before_the_message_is_taken() {
    // SAFETY: the null address.
    let delivery = unsafe { Delivery::plain(WritePtr::new(null_mut())) };
    let result = delivery.deliver(|_| panic!("the message was taken"));
    assert_eq!(result, Err(CallFailure::of(Code::AddrNotAvail)));
}

#[test]
fn a_copy_of_too_many_bytes_is_refused_before_they_are_read() {
    // SAFETY: an address without memory, which the call never reads.
    let source = unsafe {
        let nowhere = core::ptr::with_exposed_provenance(8);
        ReadBytes::new(nowhere, LARGE_MAX_BYTES + 1)
    };
    assert_eq!(with_copy(source, |_| Ok(())), Err(CUT));
}
