//! A message that arrived, as it is shown.

use crate::content::{Shape, show_payload, text_of, to_hex};
use m3ipc::{Identity, Message};

/// A message with what is known of it.
pub struct Shown<'a> {
    message: &'a Message,
    long: &'a [u8],
    kind: &'static str,
    sender: Option<Identity>,
}

impl<'a> Shown<'a> {
    /// Of this kind, from this sender.
    pub fn new(
        message: &'a Message,
        long: &'a [u8],
        kind: &'static str,
        sender: Option<Identity>,
    ) -> Self {
        Self { message, long, kind, sender }
    }

    /// In one line, the long payload in further ones.
    pub fn text(&self, shapes: &[Shape]) -> String {
        let who = match self.sender {
            Some(sender) => format!(" (pid {}, user {})", sender.pid, sender.uid),
            None => String::new(),
        };
        let mut line = format!("{} from {}{who}", self.kind, self.message.source);
        if self.kind == "notification" {
            let set = self.bits();
            if set != 0 {
                line.push_str(&format!("  bits {set:#x}"));
            }
            return line;
        }
        line.push_str(&format!("  type {}", self.message.m_type));
        let payload = show_payload(&self.message.payload, shapes);
        if !payload.is_empty() {
            line.push_str(&format!("  {payload}"));
        }
        if !self.long.is_empty() {
            line.push_str(&format!("  and {} bytes:\n{}", self.long.len(), self.long_text()));
        }
        line
    }

    fn long_text(&self) -> String {
        text_of(self.long)
            .map_or_else(|| to_hex(self.long), |text| text.trim_end_matches('\n').to_owned())
    }

    /// The set that HARDWARE and SYSTEM notify with.
    fn bits(&self) -> i64 {
        self.message.long(0)
    }

    /// As JSON.
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
