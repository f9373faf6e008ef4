//! A private node for tests and examples: own runtime directory, own daemon, ended on drop.
//!
//! The daemon is the program in `M3_DAEMON`, or else `m3d` beside the test program or in the target
//! directory. `cargo build -p m3ipc-daemon` makes it. Functions here panic on failure, since a test
//! without a node has no other end.

use crate::error::Fail;
use crate::spawn::check_program;
use crate::{Code, Endpoint, Message, Node, NodeError, Source, Timeout, Vm, VmConfig, VmLife};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time that a daemon may take until it listens, and the pause between two attempts.
const START_LIMIT: Duration = Duration::from_secs(40);
const START_POLL: Duration = Duration::from_millis(2);

/// A node of its own. Its daemon ends and its directory vanishes on drop. The example is at
/// [`node`].
#[derive(Debug)]
pub struct TestNode {
    directory: PathBuf,
    node: Option<Node>,
    vm: Vm,
}

/// Starts a daemon in a new temporary runtime directory and creates a VM.
///
/// ```
/// use m3ipc::Source;
///
/// let node = m3ipc::test::node();
/// let (mut server, mut client) = node.pair();
/// client.notify(server.address())?;
/// assert!(server.receive(Source::Any)?.is_notification());
/// assert_eq!(node.vm().name(), "test");
/// assert!(node.directory().is_dir());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// If no daemon can be started.
#[must_use]
pub fn node() -> TestNode {
    match try_node() {
        Ok(node) => node,
        Err(error) => panic!("no node: {error}; run `cargo build -p m3ipc-daemon` first"),
    }
}

/// The same, for programs that report the error to a person.
///
/// ```
/// let node = m3ipc::test::try_node()?;
/// assert_eq!(node.vm().name(), "test");
/// # Ok::<(), m3ipc::NodeError>(())
/// ```
///
/// # Errors
/// [`NodeError`]: no daemon can be started, or the directory cannot be made.
pub fn try_node() -> Result<TestNode, NodeError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("m3ipc-test-{}-{count}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    crate::runtime::make(&directory, 0o700)
        .map_err(|error| Fail::new(Code::DrvsInit, error.to_string()))?;
    let attached = attach(&directory).and_then(|mut node| {
        let vm = node.vm_init(&VmConfig::new("test").life(VmLife::Creator))?;
        Ok((node, vm))
    });
    match attached {
        Ok((node, vm)) => Ok(TestNode { directory, node: Some(node), vm }),
        Err(error) => {
            let _ = std::fs::remove_dir_all(&directory);
            Err(error)
        }
    }
}

fn attach(directory: &Path) -> Result<Node, NodeError> {
    let Some(program) = built_daemon() else { return Node::attach_at(directory) };
    crate::spawn::use_for_tests(&program);
    let deadline_ns = crate::Timeout::After(START_LIMIT).deadline().at_ns;
    crate::spawn::start(&program, &[], directory, false, deadline_ns)?;
    let begun = Instant::now();
    loop {
        match Node::find(directory) {
            // The daemon has started and does not listen yet.
            Err(error) if error.code() == Code::DrvsInit && begun.elapsed() < START_LIMIT => {
                std::thread::sleep(START_POLL);
            }
            other => return other,
        }
    }
}

/// The daemon that cargo has built, for tests whose program lies elsewhere, as those of rustdoc do.
fn built_daemon() -> Option<PathBuf> {
    if m3ipc_sys::variable("M3_DAEMON").is_some() {
        return None;
    }
    let target = m3ipc_sys::variable("CARGO_TARGET_DIR").map(PathBuf::from);
    // Cargo and rustdoc run tests in the folder of the package.
    let package = std::env::current_dir().ok()?;
    let above = package.ancestors().map(|folder| folder.join("target"));
    let targets = target.into_iter().chain(above);
    let programs = targets.flat_map(|it| [it.join("debug/m3d"), it.join("release/m3d")]);
    // The test itself lies in PROFILE/deps, also where `--target-dir` names the folder.
    let test = std::env::current_exe().ok()?;
    let beside = test.ancestors().nth(2).map(|profile| profile.join("m3d"));
    let mut programs = beside.into_iter().chain(programs);
    // A folder above may be that of another user.
    programs.find(|program| check_program(program).is_ok())
}

impl TestNode {
    /// The runtime directory. The example is at [`node`].
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The VM. The example is at [`node`].
    #[must_use]
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// Two endpoints of this process in slots 1 and 2: a server and a client, with a link between
    /// them. So no call of an example waits for the daemon. The client ends with the server. The
    /// example is at [`node`].
    ///
    /// # Panics
    /// If they cannot be bound.
    #[must_use]
    pub fn pair(&self) -> (Endpoint, Endpoint) {
        let (server, mut client) = self.pair_without_link();
        if let Err(fail) = client.meet(server.address()) {
            panic!("no link: {}", fail.why());
        }
        (server, client)
    }

    /// The same without a link: the first call makes it.
    ///
    /// # Panics
    /// If they cannot be bound.
    #[must_use]
    pub fn pair_without_link(&self) -> (Endpoint, Endpoint) {
        let bound = self.vm.bind(1).and_then(|one| Ok((one, self.vm.bind_additional(Some(2))?)));
        match bound {
            Ok(pair) => pair,
            Err(error) => panic!("no endpoints: {error}"),
        }
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            // A node whose daemon is gone has ended already.
            let _ = node.end();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Answers requests on a thread of its own until the endpoint is unbound.
///
/// The thread is not joined: it ends with the process or with the VM.
///
/// ```
/// use m3ipc::Message;
///
/// let node = m3ipc::test::node();
/// let (server, mut client) = node.pair();
/// let to = server.address();
/// m3ipc::test::serve(server, |request| Message::new(request.m_type + 1));
/// assert_eq!(client.sendrec(to, &Message::new(7))?.m_type, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve(
    mut server: Endpoint,
    answer: impl Fn(Message) -> Message + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while let Ok(request) = server.receive(Source::Any) {
            let _ = server.reply(request.source, &answer(request));
        }
    })
}

/// Answers requests of bytes on a thread of its own; see [`serve`].
///
/// ```
/// let node = m3ipc::test::node();
/// let (server, mut client) = node.pair();
/// let to = server.address();
/// m3ipc::test::serve_bytes(server, |bytes| bytes.repeat(2));
/// assert_eq!(client.sendrec_bytes(to, 7, b"ab", None)?.1, b"abab");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve_bytes(
    mut server: Endpoint,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while let Ok((request, bytes)) = server.receive_bytes(Source::Any, Timeout::Never) {
            let _ = server.reply_bytes(request.message.source, 0, &answer(&bytes));
        }
    })
}
