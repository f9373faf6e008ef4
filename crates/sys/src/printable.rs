//! Text that cannot steer a terminal.

use std::borrow::Cow;

/// Text without control characters, which may come from names and messages of other users.
///
/// Line ends, tabs and colours stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (part, left) = rest.split_at(colour_bytes(rest).unwrap_or(letter.len_utf8()));
        if is_plain(letter) || part.len() > 1 && letter == '\x1b' {
            clean.push_str(part);
        } else {
            clean.extend(letter.escape_default());
        }
        rest = left;
    }
    Cow::Owned(clean)
}

/// JSON without control characters: serde_json leaves U+007F to U+009F, which a terminal may obey.
#[must_use]
pub fn json_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// The length of the colour at the begin of a text, as the output of `m3` writes it.
fn colour_bytes(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\x1b[")?;
    let digits = code.bytes().take_while(u8::is_ascii_digit).count();
    code[digits..].starts_with('m').then_some(digits + "\x1b[m".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_others_do_not_reach_the_terminal() {
        assert_eq!(printable("plain\tname\n"), "plain\tname\n");
        assert_eq!(printable("\x1b[1mbold\x1b[0m"), "\x1b[1mbold\x1b[0m");
        assert_eq!(
            printable("a\x1b]0;title\x07b\u{9b}2J\r"),
            "a\\u{1b}]0;title\\u{7}b\\u{9b}2J\\r"
        );
        assert_eq!(printable("\x1b[2Jx\x1b"), "\\u{1b}[2Jx\\u{1b}");
    }
}
