//! Messages as arguments of the command line, and payloads as text.
//!
//! Fields lie one after the other, each at a multiple of its size, as in a C structure:
//! `i32:5 i64:7` is `05 00 00 00 | 4 bytes of padding | 07 ...`.

use crate::error::{CliError, Result};
use clap::Args;
use m3ipc::{LARGE_MAX_BYTES, Message};
use m3ipc_abi::PAYLOAD_BYTES;
use std::io::Read;

/// The arguments that describe a message.
#[derive(Args, Clone, Debug, Default)]
pub struct MessageArgs {
    /// Type of the message.
    #[arg(long = "type", value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub m_type: i32,
    /// Payload as hexadecimal digits.
    #[arg(long, value_name = "DIGITS", conflicts_with = "fields")]
    pub hex: Option<String>,
    /// Read a payload of any size, up to 1 GiB, from standard input.
    #[arg(long)]
    pub stdin: bool,
    /// Payload as fields, at most 40 bytes in all: i32:5 i64:7 str:hello hex:0011.
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
    /// Text with a zero byte at its end.
    Str(String),
    /// Bytes.
    Hex(Vec<u8>),
}

impl std::str::FromStr for Field {
    type Err = String;

    fn from_str(written: &str) -> std::result::Result<Self, String> {
        let wrong =
            || format!("{written:?} is not a field; write i32:5, i64:7, str:hello or hex:0011");
        let (kind, value) = written.split_once(':').ok_or_else(wrong)?;
        match kind {
            "i32" => value.parse().map(Self::I32).map_err(|_cause| no_number(value, i32::BITS)),
            "i64" => value.parse().map(Self::I64).map_err(|_cause| no_number(value, i64::BITS)),
            "str" => Ok(Self::Str(value.to_owned())),
            "hex" => from_hex(value).map(Self::Hex),
            _ => Err(wrong()),
        }
    }
}

fn no_number(written: &str, bits: u32) -> String {
    format!("{written:?} is not a whole number of {bits} bits; write one in decimal digits")
}

impl Field {
    /// Appends the field, after its padding.
    fn append_to(&self, bytes: &mut Vec<u8>) {
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

impl MessageArgs {
    /// The message and its long payload.
    pub fn message(&self) -> Result<(Message, Vec<u8>)> {
        let mut bytes = Vec::new();
        if let Some(digits) = &self.hex {
            bytes = from_hex(digits).map_err(|why| CliError::advised_usage(&why))?;
        }
        for field in &self.fields {
            field.append_to(&mut bytes);
        }
        // A payload of 40 bytes may end with text: its zero byte would be the 41st.
        if bytes.len() == PAYLOAD_BYTES + 1 && matches!(self.fields.last(), Some(Field::Str(_))) {
            bytes.pop();
        }
        if bytes.len() > PAYLOAD_BYTES {
            let what =
                format!("the payload has {} bytes, and a message {PAYLOAD_BYTES}", bytes.len());
            return Err(CliError::usage(what).advice("send it as a long payload with --stdin"));
        }
        let mut long = Vec::new();
        if self.stdin {
            // One byte beyond the limit detects an input that is too long.
            let most = LARGE_MAX_BYTES as u64 + 1;
            let read = std::io::stdin().lock().take(most).read_to_end(&mut long);
            read.map_err(|cause| CliError::system("cannot read standard input", cause))?;
            if long.len() > LARGE_MAX_BYTES {
                let what = format!(
                    "standard input has more than {LARGE_MAX_BYTES} bytes, the most of a message"
                );
                return Err(CliError::usage(what).advice("send it in several messages"));
            }
        }
        Ok((Message::new(self.m_type).with_bytes(&bytes), long))
    }

    /// The kinds of the fields, to show an answer in the same form.
    pub fn kinds(&self) -> Vec<FieldKind> {
        let kind = |field: &Field| match field {
            Field::I32(_) => FieldKind::I32,
            Field::I64(_) => FieldKind::I64,
            Field::Str(_) => FieldKind::Str,
            Field::Hex(bytes) => FieldKind::Hex(bytes.len()),
        };
        self.fields.iter().map(kind).collect()
    }
}

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
    /// Text up to a zero byte.
    Str,
    /// This number of bytes.
    Hex(usize),
}

impl std::str::FromStr for FieldKind {
    type Err = String;

    fn from_str(written: &str) -> std::result::Result<Self, String> {
        let wrong =
            || format!("{written:?} is not a kind of field; write i32, i64, str, hex or hex8");
        match (written, written.strip_prefix("hex")) {
            ("i32", _) => Ok(Self::I32),
            ("i64", _) => Ok(Self::I64),
            ("str", _) => Ok(Self::Str),
            (_, Some("")) => Ok(Self::Hex(PAYLOAD_BYTES)),
            (_, Some(bytes)) => bytes.parse().map(Self::Hex).map_err(|_no_number| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// The payload as fields of these `kinds`, in the form of the command line.
///
/// Without kinds: as one text field if the payload looks like text, else as hexadecimal digits.
pub fn payload_text(payload: &[u8; PAYLOAD_BYTES], kinds: &[FieldKind]) -> String {
    if kinds.is_empty() {
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
    for kind in kinds {
        let field = match *kind {
            FieldKind::I32 => take(4, 4)
                .and_then(|part| part.try_into().ok())
                .map(i32::from_ne_bytes)
                .map(|n| format!("i32:{n}")),
            FieldKind::I64 => take(8, 8)
                .and_then(|part| part.try_into().ok())
                .map(i64::from_ne_bytes)
                .map(|n| format!("i64:{n}")),
            FieldKind::Str => {
                let mut text = Vec::new();
                while let Some([byte @ 1..=u8::MAX]) = take(1, 1) {
                    text.push(*byte);
                }
                Some(format!("str:{}", String::from_utf8_lossy(&text).escape_debug()))
            }
            FieldKind::Hex(bytes) => {
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

/// The text before the first zero byte; `None` unless it is printable and the rest is zero.
pub fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    let text = str::from_utf8(text).ok()?;
    let printable =
        text.chars().all(|letter| !letter.is_control() || letter == '\n' || letter == '\t');
    (end > 0 && printable && rest.iter().all(|byte| *byte == 0)).then(|| text.to_owned())
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> std::result::Result<Vec<u8>, String> {
    let digits: Vec<u32> = digits
        .chars()
        .filter(|letter| !matches!(letter, ' ' | '_' | ':'))
        .map(|letter| {
            letter.to_digit(16).ok_or_else(|| {
                format!("{letter:?} is no hexadecimal digit; write 0 to 9 and a to f")
            })
        })
        .collect::<std::result::Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        let count = digits.len();
        return Err(format!("hexadecimal digits come in pairs, and there are {count}; add one"));
    }
    // Two digits are at most 255.
    Ok(digits.chunks(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect())
}

#[cfg(test)]
mod tests;
