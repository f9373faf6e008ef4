//! The keeper of the program of the registry: starts it again when it has ended.
//!
//! ```text
//! proxy (sandbox: starts no process) ── pipe ── keeper ── pipe ── m3-registry serve
//! ```
//! The proxy starts the keeper before it closes its sandbox. The keeper passes whole registries and
//! notes on, so a program that dies within a line spoils nothing. It ends with the proxy, at the
//! end of its input. A program that ends before its first registry has said why, and ends the
//! keeper.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest registry, in bytes.
pub(super) const REGISTRY_MAX_BYTES: usize = 1 << 20;
/// The first and the longest pause before the program starts again.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// A program that has worked for so long is started again after the first pause.
const STEADY: Duration = Duration::from_secs(60);

/// Keeps a program until the end of `input`, or until it gives no registry at all.
///
/// # Errors
/// The program cannot be started, or the proxy has ended.
pub fn keep(
    program: &Path,
    arguments: &[String],
    input: &impl AsFd,
    output: &mut impl Write,
    pauses: [Duration; 2],
) -> io::Result<()> {
    let (mut pause, mut passed) = (pauses[0], false);
    loop {
        let begin = Instant::now();
        let why = match start(program, arguments) {
            Ok(child) => {
                let Some(status) = pass_on(child, input, output, &mut passed)? else {
                    return Ok(());
                };
                status.to_string()
            }
            Err(cause) if passed => cause.to_string(),
            Err(cause) => return Err(cause),
        };
        if !passed {
            return Ok(());
        }
        if begin.elapsed() >= STEADY {
            pause = pauses[0];
        }
        let name = program.display();
        let after_ms = pause.as_millis();
        writeln!(output, "note {name} has ended ({why}); it starts again in {after_ms} ms")?;
        output.flush()?;
        if has_ended(input, pause)? {
            return Ok(());
        }
        pause = pauses[1].min(pause * 2);
    }
}

/// The command of a program that runs a keeper: `__keep PROGRAM ARGUMENTS`.
pub const COMMAND: &str = "__keep";

static IS_OFFERED: AtomicBool = AtomicBool::new(false);

/// Says that this program has the [`COMMAND`]. Without it, a proxy starts the program of the
/// registry without a keeper.
pub fn offer() {
    IS_OFFERED.store(true, Ordering::Relaxed);
}

/// Whether this program has the command.
pub(super) fn is_offered() -> bool {
    IS_OFFERED.load(Ordering::Relaxed)
}

/// As [`keep`], between the proxy and the program, with the pauses of real use.
///
/// # Errors
/// As [`keep`].
pub fn run(program: &Path, arguments: &[String]) -> io::Result<()> {
    keep(program, arguments, &io::stdin(), &mut io::stdout(), PAUSES)
}

fn start(program: &Path, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Passes on what a program writes. Its end, or none at the end of the own input.
fn pass_on(
    mut child: Child,
    input: &impl AsFd,
    output: &mut impl Write,
    passed: &mut bool,
) -> io::Result<Option<ExitStatus>> {
    let mut source = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut bytes = Vec::new();
    loop {
        let mut wanted = [PollFd::new(&source, PollFlags::IN), PollFd::new(input, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [written, ended] = wanted.map(|it| !it.revents().is_empty());
        if ended {
            // The program ends at the end of its own input.
            drop(child.stdin.take());
            return Ok(None);
        }
        if !written {
            continue;
        }
        let mut more = [0; 4096];
        match source.read(&mut more)? {
            0 => return child.wait().map(Some),
            count => bytes.extend_from_slice(more.get(..count).unwrap_or_default()),
        }
        while let Some((whole, is_registry)) = whole(&bytes) {
            output.write_all(bytes.get(..whole).unwrap_or_default())?;
            bytes.drain(..whole);
            *passed |= is_registry;
        }
        output.flush()?;
    }
}

/// The length of the first note or registry, once it is whole, and whether it is a registry. Of
/// anything else the proxy says what is wrong.
fn whole(bytes: &[u8]) -> Option<(usize, bool)> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return (bytes.len() > REGISTRY_MAX_BYTES).then_some((bytes.len(), false));
    };
    let line = std::str::from_utf8(bytes.get(..end)?).unwrap_or_default();
    let length = line.strip_prefix("registry ").and_then(|text| text.parse::<usize>().ok());
    match length.filter(|length| *length <= REGISTRY_MAX_BYTES) {
        Some(length) if bytes.len() > end + length => Some((end + 1 + length, true)),
        Some(_) => None,
        None => Some((end + 1, false)),
    }
}

/// Whether the input ends within a time.
fn has_ended(input: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(input, PollFlags::IN)], left.ok().as_ref()) {
            Ok(found) => return Ok(found > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    /// Keeps what so many lines say, and ends the input then.
    struct Lines {
        text: String,
        left: usize,
        input: Option<io::PipeWriter>,
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
            self.text.push_str(&String::from_utf8_lossy(bytes));
            if self.text.matches('\n').count() >= self.left {
                self.input = None;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    fn kept(script: &str, lines: usize) -> String {
        let (reader, writer) = io::pipe().expect("the system has a pipe");
        let mut output = Lines { text: String::new(), left: lines, input: Some(writer) };
        let words = ["-c".to_owned(), script.to_owned()];
        let pauses = [Duration::from_millis(1), Duration::from_millis(4)];
        keep(Path::new("/bin/sh"), &words, &reader, &mut output, pauses).expect("it ends");
        output.text
    }

    #[test]
    fn a_program_that_dies_starts_again_and_half_a_registry_is_never_passed_on() {
        let text = kept("printf 'registry 3\\nabcregistry 9\\nhalf'; kill -9 $$", 6);
        let mut lines = text.lines();
        for pause in [1, 2, 4] {
            assert_eq!(lines.next(), Some("registry 3"), "{text}");
            let note = lines.next().expect("a note");
            assert!(note.starts_with("abcnote /bin/sh has ended (signal: 9"), "{note}");
            assert!(note.ends_with(&format!("starts again in {pause} ms")), "{note}");
        }
        assert!(!text.contains("half"));
    }

    #[test]
    fn a_program_without_a_registry_ends_its_keeper() {
        assert_eq!(kept("echo note why; exit 3", 9), "note why\n");
        assert_eq!(kept("echo hello", 9), "hello\n");
    }

    #[test]
    fn the_end_of_the_input_ends_a_program_that_waits() {
        let text = kept("printf 'registry 2\\nab'; echo note x; cat", 2);
        assert!(text.starts_with("registry 2\nab"), "{text}");
    }

    #[test]
    fn absent_programs_are_errors() {
        let (reader, _writer) = io::pipe().expect("the system has a pipe");
        let kept = keep(Path::new("/no/such"), &[], &reader, &mut Vec::new(), PAUSES);
        assert_eq!(kept.map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    }
}
