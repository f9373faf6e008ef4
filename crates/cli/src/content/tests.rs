use super::*;

fn content(fields: &[&str]) -> Content {
    Content {
        fields: fields.iter().map(|field| field.parse().unwrap()).collect(),
        ..Content::default()
    }
}

#[test]
fn fields_lie_as_in_a_c_structure() {
    let (message, _) = content(&["i32:5", "i64:-7", "str:hi", "hex:0011"]).message().unwrap();
    assert_eq!((message.word(0), message.long(1)), (5, -7));
    assert_eq!(&message.payload[16..21], b"hi\0\0\x11");
}

#[test]
fn what_is_written_is_what_is_shown() {
    let written = ["i32:5", "str:hello", "i64:7", "hex:0011"];
    let content = content(&written);
    let (message, _) = content.message().unwrap();
    assert_eq!(show_payload(&message.payload, &content.shape()), written.join(" "));
}

#[test]
fn without_kinds_text_is_shown_as_text_and_the_rest_as_digits() {
    let shown = |fields: &[&str]| show_payload(&content(fields).message().unwrap().0.payload, &[]);
    assert_eq!(shown(&[]), "");
    assert_eq!(shown(&["str:hello"]), "str:hello");
    assert_eq!(shown(&["hex:ff01"]), "hex:ff01");
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(content(&["str:0123456789012345678901234567890123456789"]).message().is_ok());
    assert!(content(&["str:01234567890123456789012345678901234567890"]).message().is_err());
    assert!("i32:many".parse::<Field>().is_err() && "hex:abc".parse::<Field>().is_err());
    assert!("five".parse::<Field>().is_err());
}

#[test]
fn more_kinds_than_bytes_show_what_is_there() {
    let shapes = [Shape::I64; 7];
    assert_eq!(show_payload(&[0; PAYLOAD_BYTES], &shapes).split(' ').count(), 5);
}
