//! The name of a VM, as C passes it.

use crate::failure::{CallFailure, CallResult};
use crate::records::{Name, bytes_of};
use m3ipc::Code;

/// The bytes of the name of a VM.
pub(crate) fn name_bytes(name: &Name) -> CallResult<Vec<u8>> {
    bytes_of(name).ok_or_else(|| {
        let text =
            format!("the VM name has no end within {} bytes; choose a shorter one", name.len());
        CallFailure::said(Code::NameSize, text)
    })
}
