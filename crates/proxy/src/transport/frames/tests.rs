//! The decoder against its encoder, and against any bytes in any pieces.

use super::*;
use proptest::prelude::*;

const LIMIT: usize = 1_000;

#[test]
fn an_oversize_frame_is_refused_at_its_header() {
    let mut decoder = Decoder::new(LIMIT);
    decoder.take(&[DATA, 0xff, 0xff, 0xff]);
    let limit = LIMIT;
    let expected = FrameError::Length { kind: DATA, bytes: LENGTH_LIMIT, limit };
    assert_eq!(decoder.next_frame(), Err(expected));
}

#[test]
fn lengths_fit_their_kinds() {
    for head in
        [[BEAT, 1, 0, 0], [CLOSE, 1, 0, 0], [CLOSE, 3, 0, 0], [NAME, 0, 0, 0], [NAME, 64, 0, 0]]
    {
        let mut decoder = Decoder::new(LIMIT);
        decoder.take(&head);
        assert!(matches!(decoder.next_frame(), Err(FrameError::Length { .. })), "{head:?}");
    }
    let mut decoder = Decoder::new(LIMIT);
    decoder.take(&[9, 0, 0, 0]);
    assert_eq!(decoder.next_frame(), Err(FrameError::Kind(9)));
}

#[test]
fn a_kept_frame_keeps_one_buffer_alone() {
    let mut decoder = Decoder::new(128 << 10);
    let (mut sent, mut kept) = (vec![], vec![]);
    Frame::Data(&[7; 64 << 10][..]).encode(&mut sent);
    for _ in 0..40 {
        for part in sent.chunks(16 << 10) {
            decoder.take(part);
            assert!(decoder.input.capacity() <= BUFFER_BYTES, "{}", decoder.input.capacity());
            kept.extend(decoder.next_frame().expect("well-formed"));
        }
    }
    assert_eq!(kept.len(), 40);
    // Nobody keeps one: the buffer is used again.
    drop(kept);
    let before = decoder.input.capacity();
    for _ in 0..40 {
        decoder.take(&sent);
        drop(decoder.next_frame());
    }
    assert!(decoder.input.capacity() <= BUFFER_BYTES.max(before));
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let encode = |frame: Frame<&[u8]>| {
        let mut output = vec![];
        frame.encode(&mut output);
        output
    };
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=LIMIT).prop_map(move |it| encode(Frame::Data(&it))),
        Just(encode(Frame::Beat)),
        any::<u16>().prop_map(move |it| encode(Frame::Close(Reason(it)))),
        prop::collection::vec(any::<u8>(), 1..=63).prop_map(move |it| encode(Frame::Name(&it))),
    ]
}

proptest! {
    #[test]
    fn frames_come_as_they_went(
        frames in prop::collection::vec(frame(), 0..20),
        piece in 1..700_usize,
    ) {
        let mut decoder = Decoder::new(LIMIT);
        let mut came = vec![];
        for bytes in frames.concat().chunks(piece) {
            decoder.take(bytes);
            while let Some(frame) = decoder.next_frame().expect("frames are well-formed") {
                let mut output = vec![];
                frame.encode(&mut output);
                came.push(output);
            }
        }
        prop_assert_eq!(came, frames);
        prop_assert_eq!(decoder.pending_bytes(), 0);
    }

    #[test]
    fn any_bytes_end_in_frames_or_an_error(
        bytes in prop::collection::vec(0..5_u8, 0..5_000),
        piece in 1..700_usize,
    ) {
        let mut decoder = Decoder::new(LIMIT);
        for bytes in bytes.chunks(piece) {
            decoder.take(bytes);
            loop {
                match decoder.next_frame() {
                    Ok(Some(Frame::Data(data))) => prop_assert!(data.len() <= LIMIT),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
            }
            prop_assert!(decoder.pending_bytes() <= HEADER_BYTES + LIMIT);
        }
    }
}

#[test]
fn a_reason_is_given_in_words() {
    let said = |number| Reason(number).to_string();
    assert!(said(1).contains("refused") && said(2).contains("its proxy has ended"));
    assert!(said(7).contains("reason 7"), "{}", said(7));
}
