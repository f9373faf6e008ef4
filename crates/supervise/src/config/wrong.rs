//! What is wrong in the text of a file.

/// An error at a byte of the text.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) what: String,
    pub(super) next: String,
}

impl Wrong {
    pub(super) fn new(at: usize, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { at, what: what.into(), next: next.into() }
    }
}
