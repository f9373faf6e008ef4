//! Messages as they are written on the command line, and as they are shown.
//!
//! Fields are laid out one after the other, each at a multiple of its size, as
//! a C structure would be: `i32:5 i64:7` is `05 00 00 00 | 4 bytes | 07 ...`.

use crate::fail::{Fail, Result};
use clap::Args;
use m3ipc::{LONG_MAX_BYTES, Message};
use m3ipc_abi::PAYLOAD_BYTES;
use std::io::Read;

/// A message as it is written.
#[derive(Args, Clone, Debug, Default)]
pub struct Content {
    /// The message's type.
    #[arg(long = "type", value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub m_type: i32,
    /// The payload as hexadecimal digits.
    #[arg(long, value_name = "DIGITS", conflicts_with = "fields")]
    pub hex: Option<String>,
    /// Take a long payload from standard input, of at most 1,792 bytes.
    #[arg(long)]
    pub stdin: bool,
    /// The payload as fields: i32:5 i64:7 str:hello hex:0011, 40 bytes in all.
    #[arg(value_name = "FIELD")]
    pub fields: Vec<Field>,
}

/// A field with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// 32 bits.
    I32(i32),
    /// 64 bits.
    I64(i64),
    /// Text, ended by a zero byte.
    Str(String),
    /// Bytes.
    Hex(Vec<u8>),
}

impl std::str::FromStr for Field {
    type Err = String;

    fn from_str(written: &str) -> std::result::Result<Self, String> {
        let wrong =
            || format!("{written:?} is no field; write i32:5, i64:7, str:hello or hex:0011");
        let (kind, value) = written.split_once(':').ok_or_else(wrong)?;
        match kind {
            "i32" => value.parse().map(Self::I32).map_err(|cause| format!("{written:?}: {cause}")),
            "i64" => value.parse().map(Self::I64).map_err(|cause| format!("{written:?}: {cause}")),
            "str" => Ok(Self::Str(value.to_owned())),
            "hex" => from_hex(value).map(Self::Hex),
            _ => Err(wrong()),
        }
    }
}

impl Field {
    fn put(&self, bytes: &mut Vec<u8>) {
        let align = match self {
            Self::I32(_) => 4,
            Self::I64(_) => 8,
            Self::Str(_) | Self::Hex(_) => 1,
        };
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        match self {
            Self::I32(value) => bytes.extend(value.to_ne_bytes()),
            Self::I64(value) => bytes.extend(value.to_ne_bytes()),
            Self::Str(text) => bytes.extend(text.bytes().chain([0])),
            Self::Hex(value) => bytes.extend(value),
        }
    }
}

impl Content {
    /// The message and its long payload.
    pub fn message(&self) -> Result<(Message, Vec<u8>)> {
        let mut bytes = Vec::new();
        if let Some(digits) = &self.hex {
            bytes = from_hex(digits).map_err(Fail::usage)?;
        }
        for field in &self.fields {
            field.put(&mut bytes);
        }
        // The zero that ends the last text is there anyway.
        if bytes.len() == PAYLOAD_BYTES + 1 && matches!(self.fields.last(), Some(Field::Str(_))) {
            bytes.pop();
        }
        if bytes.len() > PAYLOAD_BYTES {
            let what =
                format!("the payload has {} bytes, a message holds {PAYLOAD_BYTES}", bytes.len());
            return Err(Fail::usage(what).next("give it by --stdin as a long payload"));
        }
        let mut long = Vec::new();
        if self.stdin {
            // One byte more than fits tells that there was too much.
            let most = LONG_MAX_BYTES as u64 + 1;
            let read = std::io::stdin().lock().take(most).read_to_end(&mut long);
            read.map_err(|cause| Fail::system("cannot read standard input", cause))?;
            if long.len() > LONG_MAX_BYTES {
                return Err(Fail::usage(format!(
                    "standard input has more than {LONG_MAX_BYTES} bytes"
                )));
            }
        }
        Ok((Message::new(self.m_type).with_bytes(&bytes), long))
    }

    /// The kinds of the fields, to show an answer in the same way.
    pub fn shape(&self) -> Vec<Shape> {
        let shape = |field: &Field| match field {
            Field::I32(_) => Shape::I32,
            Field::I64(_) => Shape::I64,
            Field::Str(_) => Shape::Str,
            Field::Hex(bytes) => Shape::Hex(bytes.len()),
        };
        self.fields.iter().map(shape).collect()
    }
}

/// The kind of a field that is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
    /// Text up to a zero byte.
    Str,
    /// So many bytes.
    Hex(usize),
}

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(written: &str) -> std::result::Result<Self, String> {
        match (written, written.strip_prefix("hex")) {
            ("i32", _) => Ok(Self::I32),
            ("i64", _) => Ok(Self::I64),
            ("str", _) => Ok(Self::Str),
            (_, Some("")) => Ok(Self::Hex(PAYLOAD_BYTES)),
            (_, Some(bytes)) => {
                bytes.parse().map(Self::Hex).map_err(|_no_number| written.to_owned())
            }
            _ => Err(format!("{written:?} is no kind of field; write i32, i64, str, hex or hex8")),
        }
    }
}

/// The payload in fields of these kinds, as they would be written; without
/// kinds as digits, and as text where it looks like one.
pub fn show_payload(payload: &[u8; PAYLOAD_BYTES], shapes: &[Shape]) -> String {
    if shapes.is_empty() {
        let used = payload.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let (used, text) = (&payload[..used], text_of(payload));
        return match (used.is_empty(), text) {
            (true, _) => String::new(),
            (false, Some(text)) => format!("str:{text}"),
            (false, None) => format!("hex:{}", to_hex(used)),
        };
    }
    let mut rest: &[u8] = payload;
    let mut shown = Vec::new();
    let mut at = 0_usize;
    let mut take = |bytes: usize, align: usize| {
        let skip = at.next_multiple_of(align) - at;
        let (part, left) = rest.get(skip..)?.split_at_checked(bytes)?;
        (rest, at) = (left, at + skip + bytes);
        Some(part)
    };
    for shape in shapes {
        let field = match *shape {
            Shape::I32 => take(4, 4)
                .and_then(|part| part.try_into().ok())
                .map(i32::from_ne_bytes)
                .map(|n| format!("i32:{n}")),
            Shape::I64 => take(8, 8)
                .and_then(|part| part.try_into().ok())
                .map(i64::from_ne_bytes)
                .map(|n| format!("i64:{n}")),
            Shape::Str => {
                let mut text = Vec::new();
                while let Some([byte @ 1..=u8::MAX]) = take(1, 1) {
                    text.push(*byte);
                }
                Some(format!("str:{}", String::from_utf8_lossy(&text).escape_debug()))
            }
            Shape::Hex(bytes) => {
                let mut part = Vec::new();
                while part.len() < bytes
                    && let Some([byte]) = take(1, 1)
                {
                    part.push(*byte);
                }
                Some(format!("hex:{}", to_hex(&part)))
            }
        };
        shown.extend(field);
    }
    shown.join(" ")
}

/// Bytes as text, where they are printable up to a zero byte and zero from there.
pub fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    let text = str::from_utf8(text).ok()?;
    let printable =
        text.chars().all(|letter| !letter.is_control() || letter == '\n' || letter == '\t');
    (end > 0 && printable && rest.iter().all(|byte| *byte == 0)).then(|| text.to_owned())
}

/// Digits of bytes.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> std::result::Result<Vec<u8>, String> {
    let digits: Vec<u32> = digits
        .chars()
        .filter(|letter| !matches!(letter, ' ' | '_' | ':'))
        .map(|letter| {
            letter.to_digit(16).ok_or_else(|| format!("{letter:?} is no hexadecimal digit"))
        })
        .collect::<std::result::Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits make no whole bytes", digits.len()));
    }
    // Two digits fit a byte.
    Ok(digits.chunks(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect())
}

#[cfg(test)]
mod tests;
