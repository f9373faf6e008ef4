//! Texts of peers without characters that a terminal obeys.

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
