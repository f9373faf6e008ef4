//! The reason of the last failed call of a thread: `m3_last_reason`, `m3_last_delivery`,
//! `m3_last_block_kept`.
//!
//! A failure without a reason of its own neither allocates nor frees. So it may happen in a handler
//! of a signal that came at any moment.

use crate::why::Why;
use core::cell::RefCell;
use core::ffi::CStr;
use m3ipc::{Code, Delivery};
use std::ffi::CString;

/// What a thread reads before its first failed call, and while it ends.
const NONE: &CStr = c"no call of this thread has failed";

/// The last failed call of a thread.
#[derive(Debug, Default)]
struct Last {
    code: Option<Code>,
    why: Option<Why>,
    /// Whether `why` is that of this call, and not of an earlier one.
    is_of_this: bool,
    /// The text, once a program has asked for it. It stays until the next question after a failure.
    text: Option<CString>,
    is_told: bool,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last {
        code: None,
        why: None,
        is_of_this: false,
        text: None,
        is_told: false,
    }) };
}

/// Keeps a failure as the last one of this thread.
pub(crate) fn keep(code: Code, why: Option<Why>) {
    // A handler may interrupt the question below; a thread may end.
    let _ = LAST.try_with(|last| {
        let Ok(mut last) = last.try_borrow_mut() else { return };
        (last.code, last.is_of_this, last.is_told) = (Some(code), why.is_some(), false);
        if why.is_some() {
            last.why = why;
        }
    });
}

/// The reason of the last failed call of this thread. It lives until the next failed call of the
/// thread, or until the thread ends.
pub(crate) fn last() -> *const core::ffi::c_char {
    let told = LAST.try_with(|last| {
        let Ok(mut last) = last.try_borrow_mut() else { return None };
        let code = last.code?;
        if !last.is_told {
            let why = last.why.as_ref().filter(|_| last.is_of_this);
            let text = why.map_or_else(|| code.to_string(), Why::to_string);
            // A text of Rust may have a zero in it: a name that the program gave.
            last.text = Some(CString::new(text.replace('\0', "\\0")).unwrap_or_default());
            last.is_told = true;
        }
        last.text.as_ref().map(|text| text.as_ptr())
    });
    told.ok().flatten().unwrap_or(NONE.as_ptr())
}

/// What became of the message of the last failed call of this thread.
pub(crate) fn delivery() -> Delivery {
    let known = LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        let why = last.why.as_ref().filter(|_| last.is_of_this);
        why.and_then(Why::delivery).or_else(|| last.code.map(Delivery::of))
    });
    known.ok().flatten().unwrap_or(Delivery::NotTaken)
}

/// Whether the block of the last failed call of this thread, if it had one, is still the caller's.
pub(crate) fn has_block() -> bool {
    let is_gone = LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        Some(last.is_of_this && matches!(last.why, Some(Why::WithoutBlock(_))))
    });
    is_gone.ok().flatten() != Some(true)
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::failure::CallFailure;
    use m3ipc::{Address, SendError, SendRecError};

    fn said() -> String {
        // SAFETY: a text of this thread, which the next failure alone ends.
        unsafe { CStr::from_ptr(last()) }.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn the_last_failure_of_the_thread_has_the_text_of_its_error() {
        std::thread::spawn(|| {
            assert_eq!(said(), NONE.to_str().expect("UTF-8"));
            let error = SendError::Died(Address(5));
            assert_eq!(CallFailure::from(error.clone()).tell(), -109);
            assert_eq!((said(), last()), (error.to_string(), last()));
            // A failure without a reason of its own does not show that of another one.
            assert_eq!(CallFailure::of(Code::Again).tell(), Code::Again.number());
            assert!(said().starts_with(Code::Again.text()), "{}", said());
            assert_eq!(CallFailure::cut(Address(3), 100, 64).tell(), -73);
            assert!(said().starts_with("endpoint 3 sent 100 bytes and the buffer holds 64"));
            CallFailure::said(Code::NameSize, "a\0b").tell();
            assert_eq!(said(), "a\\0b");
            assert_eq!(delivery(), Delivery::NotTaken);
            CallFailure::from(SendRecError::TimedOutAfter(Address(5))).tell();
            assert_eq!(delivery(), Delivery::Taken);
            CallFailure::from(SendRecError::TimedOut(Address(5))).tell();
            assert_eq!(delivery(), Delivery::NotTaken);
            let error = SendRecError::TimedOutAfter(Address(5));
            CallFailure::from(error.clone()).without_block().tell();
            assert_eq!((said(), delivery()), (error.to_string(), Delivery::Taken));
            assert!(!has_block());
            CallFailure::of(Code::Unknown).tell();
            assert!(has_block());
            assert_eq!(delivery(), Delivery::Unknown);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn each_thread_has_its_own() {
        CallFailure::said(Code::Inval, "of this thread").tell();
        std::thread::spawn(|| CallFailure::said(Code::Inval, "of another one").tell())
            .join()
            .expect("no panic");
        assert_eq!(said(), "of this thread");
    }
}
