//! Texts of peers and JSON, without characters that a terminal obeys.

/// JSON without control characters: serde_json leaves U+007F to U+009F, which a terminal may obey.
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

/// A text of a peer in one line without colours: no row and no column of its own.
pub fn one_line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            clean.extend(letter.escape_default());
        } else {
            clean.push(letter);
        }
    }
    clean
}
