//! Descriptors in messages of Unix sockets.

use crate::look;
use crate::table::{self, Entry};
use crate::watch;
use libc::{c_int, cmsghdr, msghdr};
use m3ipc_shim::engine::Pin;

unsafe fn each(message: *const msghdr, mut visit: impl FnMut(c_int)) {
    if (*message).msg_control.is_null() {
        return;
    }
    let mut header = libc::CMSG_FIRSTHDR(message);
    while !header.is_null() {
        if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
            let data = libc::CMSG_DATA(header).cast::<c_int>();
            let bytes = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            for index in 0..bytes / size_of::<c_int>() {
                visit(data.add(index).read_unaligned());
            }
        }
        // The C library's walk does not stop at a length that is too short.
        if ((*header).cmsg_len as usize) < size_of::<cmsghdr>() {
            return;
        }
        header = libc::CMSG_NXTHDR(message, header);
    }
}

/// Descriptors leave: whoever gets one may be without this library, so what is ours already returns to the kernel.
pub unsafe fn leaving(message: *const msghdr) {
    each(message, |fd| {
        if look::known(fd).is_some() {
            look::pin(fd, Pin::Passed, false);
        }
        if let Entry::Set(index) = table::get(fd) {
            watch::wait_for_set(index, fd);
        }
    });
}

/// Descriptors have come: whatever their numbers stood for before is gone.
pub unsafe fn arrived(message: *const msghdr) {
    each(message, |fd| table::set(fd, Entry::Unknown));
}
