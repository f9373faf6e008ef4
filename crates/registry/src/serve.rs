//! What the proxy reads: the registry, and each later one.
//!
//! ```text
//! registry 417\n      a registry of 417 bytes follows, as a TOML file
//! note ...\n          a line for the log of the proxy
//! ```
//!
//! The first lines of the output are a registry, or the program ends with its reason. The input has
//! nothing in it: its end is the end of the proxy, and this program then ends the life of the node
//! in the registry and itself.

use crate::backend::{Backend, BackendError, Wanted};
use crate::cache::Cache;
use m3ipc_fabric::{Registry, SlotRange};
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What to serve.
#[derive(Debug)]
pub struct Plan {
    /// The own node.
    pub node: String,
    /// How many slots the node wants of each VM.
    pub claims: Vec<(String, u32)>,
    /// The pause between two reads.
    pub every: Duration,
    /// The last registry, for a start without the directory.
    pub cache: Option<Cache>,
}

/// Why the service has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The registry cannot be served.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The registry cannot be written as text.
    #[error(transparent)]
    Text(#[from] m3ipc_fabric::RegistryError),
    /// The reader has gone.
    #[error("the output: {0}")]
    Output(#[from] io::Error),
}

/// Serves until the input ends.
pub fn serve(backend: &mut dyn Backend, plan: &Plan, out: impl Write) -> Result<(), ServeError> {
    let input_ended = watch_input();
    let mut server = Server { backend, plan, out, text: String::new(), said: String::new() };
    server.begin()?;
    loop {
        match input_ended.recv_timeout(plan.every) {
            Err(RecvTimeoutError::Timeout) => server.step()?,
            _ => {
                server.backend.end();
                return Ok(());
            }
        }
    }
}

/// A channel that closes with the input.
fn watch_input() -> Receiver<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _sender = sender;
        let mut input = io::stdin().lock();
        while matches!(input.read(&mut [0; 64]), Ok(1..)) {}
    });
    receiver
}

struct Server<'a, W> {
    backend: &'a mut dyn Backend,
    plan: &'a Plan,
    out: W,
    /// The registry that was written last.
    text: String,
    /// The note that was written last.
    said: String,
}

impl<W: Write> Server<'_, W> {
    /// Begins the life of the node, and writes the first registry.
    fn begin(&mut self) -> Result<(), ServeError> {
        let begun = self.backend.begin(&self.plan.node);
        match begun.and_then(|()| self.read()) {
            Ok(registry) => self.tell(&registry),
            Err(error) if error.is_loss() && self.plan.cache.is_some() => {
                let Some(cache) = &self.plan.cache else { return Err(error.into()) };
                let registry = cache.read()?;
                let path = cache.path().display().to_string();
                self.tell(&registry)?;
                self.note(&format!("{error}; this start took {path}"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Claims what the node lacks, and reads the registry.
    fn read(&mut self) -> Result<Registry, BackendError> {
        for (vm, count) in &self.plan.claims {
            let _new: Vec<SlotRange> =
                self.backend.claim(&self.plan.node, vm, Wanted::InAll(*count))?;
        }
        self.backend.read()
    }

    fn step(&mut self) -> Result<(), ServeError> {
        let kept = self.backend.keep();
        match kept.and_then(|()| self.read()) {
            Ok(registry) => {
                if !self.said.is_empty() {
                    self.note("the registry answers again")?;
                    self.said.clear();
                }
                self.tell(&registry)
            }
            // Also a wrong registry, or a second life: what was read before stays in force.
            Err(error) => self.note(&error.to_string()),
        }
    }

    fn tell(&mut self, registry: &Registry) -> Result<(), ServeError> {
        let text = registry.to_toml()?;
        if text == self.text {
            return Ok(());
        }
        write!(self.out, "registry {}\n{text}", text.len())?;
        self.out.flush()?;
        if let Some(Err(error)) = self.plan.cache.as_ref().map(|cache| cache.write(&text)) {
            self.note(&error.to_string())?;
        }
        self.text = text;
        Ok(())
    }

    /// Writes a note once.
    fn note(&mut self, note: &str) -> Result<(), ServeError> {
        if note != self.said {
            writeln!(self.out, "note {}", note.replace('\n', " "))?;
            self.out.flush()?;
            note.clone_into(&mut self.said);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const TEXT: &str = "cluster = \"lab\"\n[[node]]\nid = 1\nname = \"alpha\"\n\
                        address = \"127.0.0.1:1\"\n";

    /// Answers in turn: a registry, or a loss.
    struct Script(VecDeque<bool>);

    impl Backend for Script {
        fn read(&mut self) -> Result<Registry, BackendError> {
            match self.0.pop_front() {
                Some(true) => Ok(Registry::parse(TEXT).expect("a registry")),
                _ => Err(BackendError::Lost { what: "it".into(), cause: "killed".into() }),
            }
        }
    }

    fn output(answers: &[bool], cache: Option<Cache>) -> (Result<(), ServeError>, String) {
        let mut backend = Script(answers.iter().copied().collect());
        let every = Duration::from_secs(1);
        let plan = Plan { node: "alpha".into(), claims: Vec::new(), every, cache };
        let mut out = Vec::new();
        let mut server = Server {
            backend: &mut backend,
            plan: &plan,
            out: &mut out,
            text: String::new(),
            said: String::new(),
        };
        let mut done = server.begin();
        for _ in 1..answers.len() {
            done = done.and_then(|()| server.step());
        }
        (done, String::from_utf8(out).expect("text"))
    }

    #[test]
    fn a_loss_is_said_once_and_a_registry_is_sent_once() {
        let (done, text) = output(&[true, true, false, false, true, false], None);
        done.expect("a loss is no end");
        assert_eq!(text.matches("registry ").count() - text.matches("the registry").count(), 1);
        assert_eq!(text.matches("cannot be reached").count(), 2);
        assert_eq!(text.matches("answers again").count(), 1);
    }

    #[test]
    fn a_start_needs_the_registry_or_the_last_one() {
        let (done, text) = output(&[false], None);
        assert!(matches!(done, Err(ServeError::Backend(BackendError::Lost { .. }))));
        assert_eq!(text, "");
        let path = std::env::temp_dir().join(format!("m3-registry-cache-{}", std::process::id()));
        let (done, _) = output(&[true], Some(Cache::new(path.clone())));
        done.expect("served");
        let (done, text) = output(&[false], Some(Cache::new(path.clone())));
        done.expect("served from the file");
        assert!(text.starts_with("registry ") && text.contains("this start took"), "{text}");
        std::fs::remove_file(path).expect("it was written");
    }
}
