//! The C library `libm3ipc`, loaded at run time as a program of C has it: by its exported names.
//!
//! # Safety
//! The types of the functions are those of the headers in `crates/capi/include`. The library stays
//! loaded until the process ends, so a function outlives each value that holds it. Each function
//! takes numbers, a message that outlives the call, or a string that ends with a zero byte.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use crate::error::Error;

/// A message as the C library has it: 48 bytes, of which the payload starts at byte 8.
pub type CMessage = m3ipc::Message;

type OnMessage = unsafe extern "C" fn(c_int, *mut CMessage) -> c_int;
type OnPair = unsafe extern "C" fn(c_int, c_int) -> c_int;
type OnAnswer = unsafe extern "C" fn(c_int, *mut CMessage, *mut c_int) -> c_int;
type OnNumber = unsafe extern "C" fn(c_int) -> c_int;
type OnName = unsafe extern "C" fn(*const c_char) -> c_int;

/// The functions of the library that a measurement calls.
#[derive(Clone, Copy)]
pub struct CLibrary {
    sendrec: OnMessage,
    receive: OnMessage,
    send: OnMessage,
    reply_receive: OnAnswer,
    bind: OnPair,
    thread_bind: OnPair,
    set_wait: OnNumber,
    name_attach: OnName,
    wait_name: OnName,
}

/// Finds a function of the library.
macro_rules! function {
    ($library:expr, $name:literal, $type:ty) => {{
        // SAFETY: the name ends with a zero byte; the handle is that of a loaded library.
        let found = unsafe { libc::dlsym($library, $name.as_ptr()) };
        if found.is_null() {
            return Err(Error::Unavailable {
                why: format!("libm3ipc has no function {:?}", $name),
                next: "build the library of this version (cargo build --release -p m3ipc-capi)",
            });
        }
        // SAFETY: a function of that name has the type of the field, by the headers.
        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
    }};
}

impl CLibrary {
    /// Loads the library.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the file is no such library.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let name = std::ffi::CString::new(bytes)
            .map_err(|_| Error::Usage(format!("{} has a zero byte", path.display())))?;
        // SAFETY: the name ends with a zero byte. The initialisers of the library are its own.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(Error::Unavailable {
                why: format!("{} cannot be loaded", path.display()),
                next: "name libm3ipc.so.0 with M3IPC_LIBRARY",
            });
        }
        Ok(Self {
            sendrec: function!(library, c"mnx_sendrec", OnMessage),
            receive: function!(library, c"mnx_receive", OnMessage),
            send: function!(library, c"mnx_send", OnMessage),
            reply_receive: function!(library, c"m3_reply_receive", OnAnswer),
            bind: function!(library, c"mnx_bind", OnPair),
            thread_bind: function!(library, c"mnx_tbind", OnPair),
            set_wait: function!(library, c"m3_set_wait", OnNumber),
            name_attach: function!(library, c"m3_name_attach", OnName),
            wait_name: function!(library, c"m3_wait4name", OnName),
        })
    }

    /// Calls `mnx_sendrec`.
    #[inline]
    pub fn sendrec(&self, to: c_int, message: &mut CMessage) -> c_int {
        // SAFETY: the message is borrowed for the call.
        unsafe { (self.sendrec)(to, message) }
    }

    /// Calls `mnx_receive`.
    #[inline]
    pub fn receive(&self, from: c_int, message: &mut CMessage) -> c_int {
        // SAFETY: the message is borrowed for the call.
        unsafe { (self.receive)(from, message) }
    }

    /// Calls `mnx_send`.
    #[inline]
    pub fn send(&self, to: c_int, message: &mut CMessage) -> c_int {
        // SAFETY: the message is borrowed for the call.
        unsafe { (self.send)(to, message) }
    }

    /// Calls `m3_reply_receive`: the message is the answer, then the next request.
    #[inline]
    pub fn reply_receive(&self, to: c_int, message: &mut CMessage) -> c_int {
        let mut answered = 0;
        // SAFETY: message and result are borrowed for the call.
        unsafe { (self.reply_receive)(to, message, &raw mut answered) }
    }

    /// Calls `mnx_bind`.
    pub fn bind(&self, vm: c_int, slot: c_int) -> c_int {
        // SAFETY: the function takes numbers.
        unsafe { (self.bind)(vm, slot) }
    }

    /// Calls `mnx_tbind`.
    pub fn thread_bind(&self, vm: c_int, slot: c_int) -> c_int {
        // SAFETY: the function takes numbers.
        unsafe { (self.thread_bind)(vm, slot) }
    }

    /// Calls `m3_set_wait`.
    pub fn set_wait(&self, wait: c_int) -> c_int {
        // SAFETY: the function takes a number.
        unsafe { (self.set_wait)(wait) }
    }

    /// Calls `m3_name_attach`.
    pub fn name_attach(&self, name: &CStr) -> c_int {
        // SAFETY: the string ends with a zero byte and is borrowed for the call.
        unsafe { (self.name_attach)(name.as_ptr()) }
    }

    /// Calls `m3_wait4name`.
    pub fn wait_name(&self, name: &CStr) -> c_int {
        // SAFETY: the string ends with a zero byte and is borrowed for the call.
        unsafe { (self.wait_name)(name.as_ptr()) }
    }
}
