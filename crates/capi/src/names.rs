//! Names of endpoints.

use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::memory::{ReadText, TooLong};
use m3ipc::{Code, Timeout, WaitError};

/// `M3_NAME_MAX`.
const NAME_MAX_BYTES: usize = 63;

pub(crate) fn attach(name: ReadText) -> CallResult {
    current::with(|member| {
        member.endpoint.name_attach(&read(name)?)?;
        Ok(0)
    })
}

pub(crate) fn locate(name: ReadText) -> CallResult {
    current::with(|member| Ok(member.endpoint.name_locate(&read(name)?)?.0))
}

pub(crate) fn wait(name: ReadText, limit: Timeout) -> CallResult {
    current::with(|member| {
        let name = read(name)?;
        let awaited = member.endpoint.wait_name(&name, limit).map_err(|error| match error {
            WaitError::TimedOut(_) => {
                let text = format!("no endpoint took the name {name:?} within the time limit");
                CallFailure::said(error.code(), text)
            }
            other => other.into(),
        });
        Ok(awaited?.0)
    })
}

/// Reads a name: 1 to 63 bytes of UTF-8.
fn read(name: ReadText) -> CallResult<String> {
    let bytes = name.read(NAME_MAX_BYTES)?.map_err(|TooLong| {
        let text = format!("the name is longer than {NAME_MAX_BYTES} bytes; choose a shorter one");
        CallFailure::said(Code::NameSize, text)
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let text = format!("the name {} is no UTF-8", error.as_bytes().escape_ascii());
        CallFailure::said(Code::Inval, text)
    })?;
    if text.is_empty() {
        return Err(CallFailure::said(Code::Inval, "the name is empty; choose one"));
    }
    Ok(text)
}
