//! Lines for people on standard error, from programs that go on without it.
//!
//! | standard error | line of [`report!`](crate::report) | line of [`tell!`](crate::tell) |
//! |---|---|---|
//! | closed, or on a full disk | lost | lost |
//! | a pipe that nobody reads | lost | waits |
//!
//! The print macros of the standard library end the program in the first case, and stop it in the
//! second one. Control characters may come from names and texts of others, so they are escaped.

use crate::PerProcess;
use crate::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stderr;
use std::fmt::Arguments;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A line is cut here: a pipe with any room takes so much at once.
///
/// # Source
/// pipe(7), `PIPE_BUF`
const LINE_MAX_BYTES: usize = 4096;
const CUT: &[u8] = b" ...\n";

/// The size at which standard error is emptied, if it is a file; 0 for none.
static FILE_MAX_BYTES: AtomicU64 = AtomicU64::new(0);
/// Lines that were lost since the latest one.
static LOST: PerProcess<Mutex<u64>> = PerProcess::new();

/// Writes a line of a program that serves others: without a wait, and without a failure.
#[macro_export]
macro_rules! report {
    ($($text:tt)*) => { $crate::write_report(format_args!($($text)*)) };
}

/// Writes a line of a program that serves a person: without a failure.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => { $crate::write_line(format_args!($($text)*)) };
}

/// Bounds a log file that the starter of this program made its standard error.
pub fn bound_standard_error(bytes: u64) {
    FILE_MAX_BYTES.store(bytes, Ordering::Relaxed);
}

/// See [`report!`](crate::report).
pub fn write_report(line: Arguments<'_>) {
    let _ = io::Write::write(&mut ReportWriter, line.to_string().as_bytes());
}

/// See [`tell!`](crate::tell).
pub fn write_line(line: Arguments<'_>) {
    let line = line.to_string();
    if line.is_empty() {
        return;
    }
    let text = format!("{}\n", printable(&line));
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}

/// A writer of whole lines, as [`report!`](crate::report) writes them.
#[derive(Clone, Copy, Debug)]
pub struct ReportWriter;

impl io::Write for ReportWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // One writer at a time: the room is that of one line.
        let mut lost = LOST.get().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A line end in a text of others would make a line of its own.
        let text = String::from_utf8_lossy(line).trim_end_matches('\n').replace('\n', "\\n");
        let text = format!("{}\n", printable(&text));
        let before = match *lost {
            0 => String::new(),
            lost => format!("({lost} lines before this one are lost)\n"),
        };
        let mut bytes = [before.as_bytes(), text.as_bytes()].concat();
        if bytes.len() > LINE_MAX_BYTES {
            bytes.truncate(LINE_MAX_BYTES - CUT.len());
            bytes.extend(CUT);
        }
        *lost = if write_now(&bytes) { 0 } else { *lost + 1 };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes bytes if there is room for them at once.
fn write_now(bytes: &[u8]) -> bool {
    let max_bytes = FILE_MAX_BYTES.load(Ordering::Relaxed);
    if max_bytes > 0
        && let Ok(file) = rustix::fs::fstat(stderr())
        && rustix::fs::FileType::from_raw_mode(file.st_mode).is_file()
        && u64::try_from(file.st_size).is_ok_and(|size| size + bytes.len() as u64 > max_bytes)
    {
        let _ = rustix::fs::ftruncate(stderr(), 0);
    }
    let mut room = [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)];
    let has_room = poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1);
    has_room && rustix::io::write(stderr(), bytes).is_ok_and(|written| written == bytes.len())
}

/// Ends the process where a print macro of the standard library panics because standard output
/// takes no more: quietly with `closed` if its reader has gone, as in `m3 ps | head -1`, and with
/// `full` and the reason otherwise.
pub fn end_without_output(program: &'static str, closed: u8, full: u8) {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        let cause = message.and_then(|text| text.strip_prefix("failed printing to stdout: "));
        match cause {
            Some(cause) if cause.starts_with("Broken pipe") => std::process::exit(closed.into()),
            Some(cause) => {
                crate::tell!("{program}: cannot write to standard output: {cause}; free space");
                std::process::exit(full.into());
            }
            None => default_hook(info),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// The lines of a test that [`in_child`] runs.
    const LINES: usize = 1_000;

    #[test]
    fn child_that_writes() {
        if std::env::var_os("M3_TEST_WRITES").is_none() {
            return;
        }
        for number in 0..LINES {
            crate::report!("line {number} {}\n\x1b[2Jforged", "x".repeat(200));
        }
        write!(ReportWriter, "the end").unwrap();
        std::process::exit(7);
    }

    /// Runs the test above with this standard error; its exit code.
    fn in_child(stderr: Stdio) -> Option<i32> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "report::tests::child_that_writes", "--nocapture"]);
        command.env("M3_TEST_WRITES", "1").stdout(Stdio::null()).stderr(stderr);
        command.status().unwrap().code()
    }

    #[test]
    fn a_closed_or_full_standard_error_ends_and_stops_no_program() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // Nobody reads: the pipe takes 64 KiB, and the program goes on. Larger pages take more.
        fcntl_setpipe_size(&write, 64 << 10).unwrap();
        assert_eq!(in_child(write.into()), Some(7));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::fs::File::from(read), &mut text).unwrap();
        assert!(text.starts_with("line 0 x") && text.lines().count() < LINES, "{}", text.len());
        assert!(text.contains("\\n\\u{1b}[2Jforged\n"), "escaped: {}", &text[..300]);
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        drop(read);
        assert_eq!(in_child(write.into()), Some(7), "closed");
        if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
            assert_eq!(in_child(full.into()), Some(7), "a full disk");
        }
    }

    #[test]
    fn a_file_has_a_bounded_size() {
        let path = std::env::temp_dir().join(format!("m3-report-{}", std::process::id()));
        let mut options = std::fs::File::options();
        let file = options.append(true).create(true).open(&path).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "report::tests::child_with_a_bound", "--nocapture"]);
        command.env("M3_TEST_WRITES", "1").stdout(Stdio::null()).stderr(file);
        assert_eq!(command.status().unwrap().code(), Some(7));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.len() < 10_000 && text.ends_with("line 999\n"), "{}", text.len());
    }

    #[test]
    fn child_with_a_bound() {
        if std::env::var_os("M3_TEST_WRITES").is_none() {
            return;
        }
        bound_standard_error(10_000);
        for number in 0..LINES {
            crate::report!("{} line {number}", "x".repeat(200));
        }
        std::process::exit(7);
    }
}
