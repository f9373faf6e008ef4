//! A peer does not choose how much memory a process uses: one request of 900 MiB against each
//! server, in a process with few addresses and in a cgroup with little memory. The sender gets -73
//! with both lengths. The server sees nothing, and serves the next client.

use m3ipc::{Address, Code, Endpoint, RECEIVE_LIMIT_BYTES, SendError, SendRecError};
use m3ipc_abi::PAYLOAD_BYTES;
use m3ipc_area::BlockName;
use m3ipc_hostile::hostile_process;
use m3ipc_link::{Link, LinkSide, MessageFate, MessageKind, Payload, ReadyBitmap, SlotRefusal};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{MemberProcess, NodeFixture, until, watchdog};
use m3ipc_wire::{BindKind, Reply, Request};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HUGE: usize = 900 << 20;
const GROUP_BYTES: &str = "268435456";
const SERVERS: [&str; 5] = ["bytes", "room", "serve", "calls", "awaiting"];
/// Servers of the C library: the source, its compiler and its standard.
const FOREIGN: [[&str; 3]; 2] = [["echo.c", "cc", "-std=c11"], ["echo.cpp", "c++", "-std=c++17"]];

/// A cgroup with little memory.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Moves a process into a new one; `None` where this user cannot.
    fn of(pid: i32) -> Option<Self> {
        let kinds =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        kinds.into_iter().find_map(|(root, limit)| {
            let group = Self(Path::new(root).join(format!("m3-tests-{pid}")));
            fs::create_dir(&group.0).ok()?;
            // The kernel makes the files, if this is a cgroup with memory.
            let is_one = group.0.join(limit).exists();
            let set = |file: &str, text: &str| fs::write(group.0.join(file), text).is_ok();
            let is_ready =
                is_one && set(limit, GROUP_BYTES) && set("cgroup.procs", &pid.to_string());
            is_ready.then_some(group)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        until("the cgroup is empty", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

/// Builds the servers of the C library in a folder; none where the library or a compiler is absent.
fn foreign_servers(folder: &Path) -> Vec<PathBuf> {
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.ancestors().nth(2).expect("tests are built in a folder");
    let library = built.join("libm3ipc_c.so");
    if !library.exists() {
        eprintln!("SKIP: servers in C and C++: {} is not built", library.display());
        return Vec::new();
    }
    for name in ["libm3ipc.so", "libm3ipc.so.0"] {
        std::os::unix::fs::symlink(&library, folder.join(name)).expect("a link");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = |[source, compiler, standard]: [&str; 3]| {
        let program = folder.join(format!("{source}.out"));
        let mut command = Command::new(compiler);
        command.arg(standard).arg("-o").arg(&program).arg(root.join("servers").join(source));
        command.arg("-I").arg(root.join("../../crates/capi/include")).arg("-L").arg(folder);
        command.arg("-lm3ipc").arg(format!("-Wl,-rpath,{}", folder.display()));
        match command.status() {
            Ok(built) => assert!(built.success(), "{source} is built"),
            Err(cause) => {
                eprintln!("SKIP: {source}: no {compiler}: {cause}");
                return None;
            }
        }
        Some(program)
    };
    FOREIGN.into_iter().filter_map(build).collect()
}

/// A server and its cgroup, which is empty when the server has ended.
struct Limited {
    server: MemberProcess,
    address: Address,
    _group: Option<MemoryGroup>,
}

impl Limited {
    fn start(fixture: &NodeFixture, kind: &str) -> Self {
        let directory = fixture.directory().to_string_lossy();
        let mut server = hostile_process(0, "limited", &[&directory, "memory", kind]);
        let address = Address(server.line().parse().expect("its address"));
        let group = MemoryGroup::of(server.pid());
        if group.is_none() {
            eprintln!("SKIP: {kind} runs in no cgroup: this user cannot make one with memory");
        }
        Self { server, address, _group: group }
    }
}

/// A member without the library, with a link to a server.
struct Liar {
    _raw: RawMember,
    link: Link,
    ready: ReadyBitmap,
    index_there: u32,
}

impl Liar {
    fn to(fixture: &NodeFixture, vm: i32, server: Address) -> Self {
        let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
        let bind = Request::Bind { vm, slot: None, kind: BindKind::Additional, nonce: 1 };
        assert!(matches!(raw.request(&bind), Some((Reply::Bound { .. }, _))));
        assert!(matches!(raw.request(&Request::Mapped), Some((Reply::Done, _))));
        let Some((Reply::Contact(info), fds)) = raw.request(&Request::Contact(server.0)) else {
            panic!("no link");
        };
        let link = Link::map(&fds[0], LinkSide::Zero).expect("a link");
        let ready = ReadyBitmap::map(&fds[2]).expect("a ready bitmap");
        Self { _raw: raw, link, ready, index_there: info.index_there }
    }

    /// Claims that a payload of so many bytes comes with a message. What became of it.
    /// It rings no doorbell, so `nudge` wakes a server on tokio.
    fn claim(&mut self, kind: MessageKind, bytes: u64, mut nudge: impl FnMut()) -> MessageFate {
        let name = BlockName {
            area: 77,
            number: 1,
            generation: 1,
            hop: 1,
            bytes,
            shared: false,
            payload: true,
        };
        let (name, stamp) = (name.encode(), m3ipc_sys::ticks());
        let payload = Payload::block(&name);
        let posted = self.link.post(kind, stamp, 7, &[0; PAYLOAD_BYTES], payload);
        until("the server has looked", || {
            self.ready.set(self.index_there);
            self.link.wake_peer();
            nudge();
            self.link.fate(posted) != MessageFate::Open
        });
        self.link.fate(posted)
    }
}

fn refused_with(client: &mut Endpoint, to: Address, huge: &[u8], most: usize) {
    let (bytes, max_bytes) = (huge.len(), most);
    let sent = client.send_bytes(to, 7, huge, None);
    assert_eq!(sent, Err(SendError::TooLong { bytes, max_bytes }));
    let asked = client.sendrec_bytes(to, 7, huge, None).expect_err("it is too long");
    assert_eq!(
        (&asked, asked.code()),
        (&SendRecError::TooLong { bytes, max_bytes }, Code::MsgSize)
    );
    assert_eq!(client.call(to, huge, None), Err(asked));
}

#[test]
fn no_request_makes_a_server_use_more_memory_than_its_owner_said() {
    watchdog(300);
    let fixture = NodeFixture::new("memory");
    let vm = fixture.vm("memory");
    let mut client = vm.bind_any().expect("a slot");
    let huge = vec![0; HUGE];
    let folder = std::env::temp_dir().join(format!("m3-memory-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let foreign = foreign_servers(&folder);
    let foreign = foreign.iter().map(|program| program.to_str().expect("a plain path"));
    for kind in SERVERS.into_iter().chain(foreign) {
        let mut limited = Limited::start(&fixture, kind);
        let to = limited.address;
        let most = if kind == "calls" { (1 << 20) + 40 } else { RECEIVE_LIMIT_BYTES };
        // It says its address before it has its own limit.
        until("the limit of the server holds", || {
            let refusal = SendError::TooLong { bytes: HUGE, max_bytes: most };
            kind != "calls" || client.send_bytes(to, 7, &huge, None) == Err(refusal)
        });
        refused_with(&mut client, to, &huge, most);
        let mut liar = Liar::to(&fixture, vm.id(), to);
        for message in [MessageKind::Send, MessageKind::Request] {
            for bytes in [HUGE as u64, most as u64 + 1, u64::MAX] {
                // Not to be repeated: the server did not even look for the area.
                let end = liar.claim(message, bytes, || {
                    if matches!(kind, "calls" | "awaiting") {
                        client.notify(to).expect("the server lives");
                    }
                });
                assert_eq!(end, MessageFate::Refused(SlotRefusal::Final));
            }
        }
        assert!(!limited.server.has_ended(), "{kind} lives");
        let next = vec![5; 300_000];
        let (_, answer) = client.sendrec_bytes(to, 7, &next, None).expect("the next one is served");
        assert!(answer == next, "{kind}");
    }
    fs::remove_dir_all(&folder).expect("own files");
}
