//! Bytes of which `Debug` prints the number alone: a payload may have megabytes.

use core::fmt;
use core::ops::{Deref, DerefMut};

/// Such bytes.
#[derive(Default)]
pub(crate) struct Octets<B = Vec<u8>>(pub(crate) B);

impl<B: AsRef<[u8]>> fmt::Debug for Octets<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.as_ref().len())
    }
}

impl<B> Deref for Octets<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0
    }
}

impl<B> DerefMut for Octets<B> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.0
    }
}
