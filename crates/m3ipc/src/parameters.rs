//! Parameters of a VM or a node from words, a file, a program, or a directory.
//!
//! | source | parameters |
//! |---|---|
//! | `procs=64 mode=0700` | these words |
//! | `file:/etc/m3/shop` | the words of a file; `#` begins a comment |
//! | `program:/usr/bin/m3 ldap get vm {}` | the words that a program prints; `{}` is the name |
//! | `ldap` | as `program:`, with the command `m3 ldap` of the installation |
//!
//! The program runs without a shell, for ten seconds at most. A library that is linked into each
//! program of a VM so has no client of a directory in it.
//!
//! Limits: a value has no spaces.

use crate::info::VmLife;
use crate::runtime::check_program;
use crate::spawn;
use crate::vm::VmConfig;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The time of a program.
const LIMIT_NS: u64 = 10_000_000_000;
/// The longest text of parameters.
const TEXT_MAX_BYTES: usize = 65_536;

/// All keys.
const KEYS: &[&str] = &[
    "copy",
    "grace_ms",
    "life",
    "max_copy_bytes",
    "mode",
    "name",
    "nodeid",
    "nodes",
    "nr_nodes",
    "procs",
    "tasks",
    "vmid",
    "vms",
];

/// Why a source gives no parameters.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParametersError {
    /// A file cannot be read.
    File(PathBuf, io::Error),
    /// A program is not trusted, did not start, failed, or took too long.
    Program(PathBuf, String),
    /// A word is no parameter.
    Word(String),
    /// A value is out of range, or of another kind.
    Value(String, String),
}

impl std::fmt::Display for ParametersError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, cause) => write!(f, "{}: {cause}", path.display()),
            Self::Program(program, why) => {
                write!(f, "{} {why}; run it by hand to see why", program.display())
            }
            Self::Word(word) => {
                write!(f, "{word:?} is no parameter; write KEY=VALUE, with one of the keys ")?;
                f.write_str(&KEYS.join(", "))
            }
            Self::Value(key, value) => write!(f, "{key} has no value {value:?}"),
        }
    }
}

impl std::error::Error for ParametersError {}

/// Parameters by their keys.
///
/// ```
/// use m3ipc::Parameters;
///
/// let parameters = Parameters::read("procs=64 mode=0700", "shop")?;
/// assert_eq!(parameters.number("procs")?, Some(64));
/// assert_eq!(parameters.text("life"), None);
/// # Ok::<(), m3ipc::ParametersError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    words: BTreeMap<String, String>,
}

impl Parameters {
    /// Reads a source. `name` is the VM or the node that is asked for. The example is at
    /// [`Parameters`].
    ///
    /// # Errors
    /// [`ParametersError`].
    pub fn read(source: &str, name: &str) -> Result<Self, ParametersError> {
        if let Some(path) = source.strip_prefix("file:") {
            let path = Path::new(path);
            let text = fs::read_to_string(path);
            return Self::parse(&text.map_err(|cause| ParametersError::File(path.into(), cause))?);
        }
        if let Some(words) = source.strip_prefix("program:") {
            return Self::parse(&output(words.split_whitespace(), name)?);
        }
        if source == "ldap" {
            let program = spawn::installed("m3");
            let program = program.to_string_lossy();
            let words = [program.as_ref(), "ldap", "get", "vm", "{}"];
            return Self::parse(&output(words.into_iter(), name)?);
        }
        Self::parse(source)
    }

    fn parse(text: &str) -> Result<Self, ParametersError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let mut words = BTreeMap::new();
        for word in lines.flat_map(str::split_whitespace) {
            let pair = word.split_once('=').filter(|(key, _)| KEYS.contains(key));
            let Some((key, value)) = pair else {
                return Err(ParametersError::Word(word.to_owned()));
            };
            words.insert(key.to_owned(), value.to_owned());
        }
        Ok(Self { words })
    }

    /// The value of a key. The example is at [`Parameters`].
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(String::as_str)
    }

    /// The value of a key as a number. One that begins with 0 is octal. The example is at
    /// [`Parameters`].
    ///
    /// # Errors
    /// [`ParametersError::Value`].
    pub fn number(&self, key: &str) -> Result<Option<i32>, ParametersError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let octal = text.strip_prefix('0').filter(|rest| !rest.is_empty());
        let number = octal.map_or_else(|| text.parse(), |rest| i32::from_str_radix(rest, 8));
        number.map(Some).map_err(|_| self.wrong(key))
    }

    /// The numbers in the value of a key, with commas between.
    ///
    /// ```
    /// let parameters = m3ipc::Parameters::read("nodes=1,2", "shop")?;
    /// assert_eq!(parameters.numbers("nodes")?, [1, 2]);
    /// # Ok::<(), m3ipc::ParametersError>(())
    /// ```
    ///
    /// # Errors
    /// [`ParametersError::Value`].
    pub fn numbers(&self, key: &str) -> Result<Vec<i32>, ParametersError> {
        let all = self.text(key).unwrap_or_default().split(',').filter(|text| !text.is_empty());
        all.map(|text| text.parse().map_err(|_| self.wrong(key))).collect()
    }

    /// Whether the VM allows copies of granted memory alone; `None` if nothing is said.
    ///
    /// ```
    /// let parameters = m3ipc::Parameters::read("copy=granted life=members", "shop")?;
    /// assert_eq!(parameters.copy_granted()?, Some(true));
    /// assert_eq!(parameters.life()?, Some(m3ipc::VmLife::Members));
    /// # Ok::<(), m3ipc::ParametersError>(())
    /// ```
    ///
    /// # Errors
    /// [`ParametersError::Value`].
    pub fn copy_granted(&self) -> Result<Option<bool>, ParametersError> {
        match self.text("copy") {
            None => Ok(None),
            Some("open") => Ok(Some(false)),
            Some("granted") => Ok(Some(true)),
            Some(_) => Err(self.wrong("copy")),
        }
    }

    /// When the VM ends by itself; `None` if nothing is said. The example is at
    /// [`copy_granted`](Self::copy_granted).
    ///
    /// # Errors
    /// [`ParametersError::Value`].
    pub fn life(&self) -> Result<Option<VmLife>, ParametersError> {
        match self.text("life") {
            None => Ok(None),
            Some("ended") => Ok(Some(VmLife::UntilEnded)),
            Some("creator") => Ok(Some(VmLife::Creator)),
            Some("members") => Ok(Some(VmLife::Members)),
            Some(_) => Err(self.wrong("life")),
        }
    }

    /// The parameters of a VM.
    ///
    /// ```
    /// use m3ipc::{Parameters, VmConfig, VmLife};
    ///
    /// let parameters = Parameters::read("vmid=3 procs=64 life=members", "shop")?;
    /// let config = VmConfig::new("shop").id(3).procs(64).life(VmLife::Members);
    /// assert_eq!(parameters.vm("shop")?, config);
    /// # Ok::<(), m3ipc::ParametersError>(())
    /// ```
    ///
    /// # Errors
    /// [`ParametersError::Value`].
    pub fn vm(&self, name: &str) -> Result<VmConfig, ParametersError> {
        let mut config = VmConfig::new(self.text("name").unwrap_or(name));
        if let Some(id) = self.number("vmid")? {
            config = config.id(id);
        }
        if let Some(slots) = self.number("procs")? {
            config = config.procs(slots);
        }
        if let Some(slots) = self.number("tasks")? {
            config = config.tasks(slots);
        }
        if let Some(mode) = self.number("mode")? {
            config = config.mode(u16::try_from(mode).map_err(|_| self.wrong("mode"))?);
        }
        if let Some(ms) = self.number("grace_ms")? {
            config = config.grace_ms(u32::try_from(ms).map_err(|_| self.wrong("grace_ms"))?);
        }
        if let Some(granted) = self.copy_granted()? {
            config = config.copy_granted(granted);
        }
        if let Some(life) = self.life()? {
            config = config.life(life);
        }
        Ok(config)
    }

    fn wrong(&self, key: &str) -> ParametersError {
        ParametersError::Value(key.to_owned(), self.text(key).unwrap_or_default().to_owned())
    }
}

/// What a program prints.
fn output<'a>(
    mut words: impl Iterator<Item = &'a str>,
    name: &str,
) -> Result<String, ParametersError> {
    let program = PathBuf::from(words.next().unwrap_or_default());
    let failed = |why: String| ParametersError::Program(program.clone(), why);
    if program.is_relative() {
        return Err(failed("is no absolute path".to_owned()));
    }
    // An installation may link to its programs.
    let file = program.canonicalize().unwrap_or_else(|_| program.clone());
    check_program(&file).map_err(&failed)?;
    let mut command = Command::new(&file);
    command.args(words.map(|word| word.replace("{}", name)));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|cause| failed(format!("cannot start: {cause}")))?;
    let text = read_all(&mut child);
    if text.is_err() {
        let _ = child.kill();
    }
    let status = child.wait();
    let text = text.map_err(|cause| failed(format!("gives no parameters: {cause}")))?;
    match status {
        Ok(status) if !status.success() => Err(failed(format!("has failed ({status})"))),
        // The program of a process that ignores SIGCHLD has no status.
        _ => Ok(text),
    }
}

/// Reads to the end of the output of a child.
fn read_all(child: &mut Child) -> io::Result<String> {
    let deadline_ns = m3ipc_sys::monotonic_ns().saturating_add(LIMIT_NS);
    let Some(mut stdout) = child.stdout.take() else { return Ok(String::new()) };
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
        match m3ipc_sys::wait_readable(&[stdout.as_fd()], left_ns) {
            Ok(false) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(true) => {}
            // A signal belongs to the call that follows.
            Err(_signal) => continue,
        }
        match stdout.read(&mut part)? {
            0 => break,
            bytes => text.extend(part.iter().take(bytes)),
        }
        if text.len() > TEXT_MAX_BYTES {
            return Err(io::Error::other("it prints more than 64 KiB"));
        }
    }
    // It has closed its output. A program that then goes on is ended.
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if m3ipc_sys::monotonic_ns() >= deadline_ns {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_have_the_same_words() {
        let file = std::env::temp_dir().join(format!("m3-parameters-{}", std::process::id()));
        fs::write(&file, "# of shop\nvmid=3\nmode=0640 # octal\n").unwrap();
        let sources = [
            "vmid=3 mode=0640".to_owned(),
            format!("file:{}", file.display()),
            "program:/bin/echo vmid=3 mode=0640".to_owned(),
        ];
        for source in sources {
            let parameters = Parameters::read(&source, "shop").unwrap();
            assert_eq!(parameters.number("vmid").unwrap(), Some(3), "{source}");
            assert_eq!(parameters.number("mode").unwrap(), Some(0o640), "{source}");
        }
        fs::remove_file(&file).unwrap();
        let named = Parameters::read("program:/bin/echo name={}", "shop").unwrap();
        assert_eq!(named.text("name"), Some("shop"));
    }

    #[test]
    fn each_mistake_is_named() {
        for (source, named) in [
            ("procs", "\"procs\" is no parameter"),
            ("proc=3", "max_copy_bytes"),
            ("file:/no/such/file", "/no/such/file"),
            ("program:echo procs=3", "no absolute path"),
            ("program:/no/such/program", "is absent"),
            ("program:/bin/false", "has failed"),
            ("program:/bin/echo hello", "\"hello\""),
            ("program:/usr/bin/yes procs=1", "64 KiB"),
        ] {
            let error = Parameters::read(source, "shop").unwrap_err().to_string();
            assert!(error.contains(named), "{source}: {error}");
        }
        for words in ["procs=many", "mode=0999", "mode=-1", "copy=all", "life=1", "grace_ms=-1"] {
            let error = Parameters::read(words, "").unwrap().vm("shop").unwrap_err();
            assert!(matches!(error, ParametersError::Value(..)), "{words}: {error}");
        }
    }
}
