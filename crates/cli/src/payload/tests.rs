use super::*;

fn message_args(fields: &[&str]) -> MessageArgs {
    MessageArgs {
        fields: fields.iter().map(|field| field.parse().unwrap()).collect(),
        ..MessageArgs::default()
    }
}

#[test]
fn fields_lie_as_in_a_c_structure() {
    let (message, _) = message_args(&["i32:5", "i64:-7", "str:hi", "hex:0011"]).message().unwrap();
    assert_eq!((message.word(0), message.long(1)), (5, -7));
    assert_eq!(&message.payload[16..21], b"hi\0\0\x11");
}

#[test]
fn fields_are_shown_as_they_were_written() {
    let written = ["i32:5", "str:hello", "i64:7", "hex:0011"];
    let args = message_args(&written);
    let (message, _) = args.message().unwrap();
    assert_eq!(payload_text(&message.payload, &args.kinds()), written.join(" "));
}

#[test]
fn without_kinds_the_payload_is_shown_as_text_or_digits() {
    let shown =
        |fields: &[&str]| payload_text(&message_args(fields).message().unwrap().0.payload, &[]);
    assert_eq!(shown(&[]), "");
    assert_eq!(shown(&["str:hello"]), "str:hello");
    assert_eq!(shown(&["hex:ff01"]), "hex:ff01");
}

#[test]
fn payloads_that_are_too_long_and_malformed_fields_are_refused() {
    assert!(message_args(&["str:0123456789012345678901234567890123456789"]).message().is_ok());
    assert!(message_args(&["str:01234567890123456789012345678901234567890"]).message().is_err());
    assert!("i32:many".parse::<Field>().is_err() && "hex:abc".parse::<Field>().is_err());
    assert!("five".parse::<Field>().is_err());
}

#[test]
fn kinds_beyond_the_payload_are_ignored() {
    let kinds = [FieldKind::I64; 7];
    assert_eq!(payload_text(&[0; PAYLOAD_BYTES], &kinds).split(' ').count(), 5);
}
