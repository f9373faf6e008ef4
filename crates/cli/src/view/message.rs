//! A received message as text and as JSON.

use crate::error::Result;
use crate::output::Output;
use crate::payload::{FieldKind, payload_text, text_of, to_hex};
use m3ipc::{Identity, Message};

/// A message, its kind, and its sender.
pub struct MessageView<'a> {
    message: &'a Message,
    long: &'a [u8],
    kind: &'static str,
    sender: Option<Identity>,
}

impl<'a> MessageView<'a> {
    /// A view of `message` with its long payload.
    pub fn new(
        message: &'a Message,
        long: &'a [u8],
        kind: &'static str,
        sender: Option<Identity>,
    ) -> Self {
        Self { message, long, kind, sender }
    }

    /// One line, and the long payload below.
    ///
    /// The payload is shown as fields of these `kinds`.
    pub fn text(&self, kinds: &[FieldKind]) -> String {
        let sender = match self.sender {
            Some(sender) => format!(" (pid {}, user {})", sender.pid, sender.uid),
            None => String::new(),
        };
        let mut line = format!("{} from {}{sender}", self.kind, self.message.source);
        if self.kind == "notification" {
            let bits = self.notified_bits();
            if bits != 0 {
                line.push_str(&format!("  bits {bits:#x}"));
            }
            return line;
        }
        line.push_str(&format!("  type {}", self.message.m_type));
        let payload = payload_text(&self.message.payload, kinds);
        if !payload.is_empty() {
            line.push_str(&format!("  {payload}"));
        }
        if !self.long.is_empty() {
            line.push_str(&format!("  and {} bytes:\n{}", self.long.len(), self.long_text()));
        }
        line
    }

    /// Prints the message as JSON or as text.
    pub fn print(&self, kinds: &[FieldKind], out: Output) -> Result<()> {
        if out.is_json() { out.json(&self.json()) } else { out.line(self.text(kinds)) }
    }

    fn long_text(&self) -> String {
        text_of(self.long)
            .map_or_else(|| to_hex(self.long), |text| text.trim_end_matches('\n').to_owned())
    }

    /// The bits of a notification by HARDWARE or SYSTEM.
    fn notified_bits(&self) -> i64 {
        self.message.long(0)
    }

    /// The message as JSON.
    pub fn json(&self) -> serde_json::Value {
        let words: Vec<i32> = (0..10).map(|index| self.message.word(index)).collect();
        serde_json::json!({
            "kind": self.kind,
            "source": self.message.source.0,
            "pid": self.sender.map(|sender| sender.pid),
            "uid": self.sender.map(|sender| sender.uid),
            "gid": self.sender.map(|sender| sender.gid),
            "type": self.message.m_type,
            "hex": to_hex(&self.message.payload),
            "words": words,
            "text": text_of(&self.message.payload),
            "long_hex": (!self.long.is_empty()).then(|| to_hex(self.long)),
            "long_text": text_of(self.long),
        })
    }
}
