//! The lines of a measured process to its supervisor.

use std::io::{Read, Write};

use crate::error::Error;
use crate::job::Line;

/// Writes one line to the supervisor.
pub fn say(line: &Line) -> Result<(), Error> {
    let mut text = serde_json::to_string(line).map_err(Error::json("a line to the supervisor"))?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::os("write to the supervisor"))
}

/// Waits until the supervisor closes the standard input.
pub fn wait_for_eof() -> Result<(), Error> {
    std::io::stdin().lock().read_to_end(&mut Vec::new()).map_err(Error::os("wait for the end"))?;
    Ok(())
}
