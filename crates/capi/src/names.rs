//! Names of endpoints.

use crate::current;
use crate::failure::CallResult;
use crate::memory::{ReadText, TooLong};
use m3ipc::{Code, Timeout};

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
    current::with(|member| Ok(member.endpoint.wait_name(&read(name)?, limit)?.0))
}

/// Reads a name: 1 to 63 bytes of UTF-8.
fn read(name: ReadText) -> CallResult<String> {
    let text = name.read(NAME_MAX_BYTES)?.map_err(|TooLong| Code::NameSize)?;
    let text = String::from_utf8(text).map_err(|_not_utf8| Code::Inval)?;
    if text.is_empty() { Err(Code::Inval.into()) } else { Ok(text) }
}
