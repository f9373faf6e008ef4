//! IPC2 by the C library: the same verbs as [`super::m3ipc`], through `libm3ipc`.

use std::ffi::{CString, c_int};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use m3ipc_report::schema::{Family, Wait};

use crate::ends::{ClientEnd, ServerEnd};
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::raw::c_library::CLibrary;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::m3ipc::{ADAPTIVE_TRIPS, STOP};
use crate::subjects::message::{inward, outward};
use crate::subjects::node::BenchVm;

/// The variable that names the C library.
const VARIABLE: &str = "M3IPC_LIBRARY";
/// The library beside this program, as cargo builds it, and where it is installed.
const PLACES: [&str; 5] = [
    "libm3ipc.so.0",
    "libm3ipc_c.so",
    "../lib/libm3ipc.so.0",
    "../lib64/libm3ipc.so.0",
    "../lib/x86_64-linux-gnu/libm3ipc.so.0",
];
/// The slots of the two sides in their VM.
const SERVER_SLOT: c_int = 1;
const CLIENT_SLOT: c_int = 2;
/// M3_ANY.
const ANY: c_int = m3ipc::ANY.0;

/// m3ipc as a program of C uses it.
pub struct CCalls;

/// The C library: named by the variable, beside this program, or installed.
fn library() -> Result<PathBuf, Error> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let exe = std::env::current_exe().ok();
    let own = exe.as_deref().and_then(Path::parent);
    let beside = own.into_iter().flat_map(|own| PLACES.iter().map(|place| own.join(place)));
    let found = match named {
        Some(path) => Some(path).filter(|path| path.is_file()),
        None => beside.into_iter().find(|path| path.is_file()),
    };
    found.ok_or_else(|| Error::Unavailable {
        why: "libm3ipc.so.0 is neither beside this program nor in ../lib".into(),
        next: "build it (cargo build --release -p m3ipc-capi), or name it with M3IPC_LIBRARY",
    })
}

impl Subject for CCalls {
    fn name(&self) -> &'static str {
        m3ipc_report::names::C_CALLS
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        match (load.test, load.pace_ns) {
            (Test::Ipc2, None) if load.count == 1 => &[Wait::Spin, Wait::Adaptive, Wait::Block],
            _ => &[],
        }
    }

    fn bytes(&self, _: &Load) -> usize {
        MESSAGE_BYTES
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        library()?;
        let vm = BenchVm::with_room(site, load.count)?;
        let mut opened = match load.test {
            Test::Straight => Opened::alone(vm.inherited("server")),
            _ => Opened::pair(vm.inherited("server"), vm.inherited("server")),
        };
        opened.environment = vec![("M3_RUNTIME_DIR".into(), vm.id().0.into())];
        Ok(opened.keeping(vm))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let [_, vm, name] = inherited.names.as_slice() else {
            return Err(Error::Usage("a peer of m3ipc-c gets directory, VM and server".into()));
        };
        let vm = vm.parse().map_err(|_| Error::Usage(format!("{vm:?} is no VM id")))?;
        let name = CString::new(name.as_str())
            .map_err(|_| Error::Usage("the server's name has a zero byte".into()))?;
        let library = CLibrary::load(&library()?)?;
        if run.load().test == Test::Straight {
            return straight(library, vm, run);
        }
        let slot = if run.is_client() { CLIENT_SLOT } else { SERVER_SLOT };
        checked("mnx_bind", library.bind(vm, slot))?;
        checked("m3_set_wait", library.set_wait(wait_number(run.job().wait)))?;
        if run.is_client() {
            let server = checked("m3_wait4name", library.wait_name(&name))?;
            return run.drive(Caller { library, server });
        }
        checked("m3_name_attach", library.name_attach(&name))?;
        run.serve(Server { library, client: 0 })
    }
}

/// The number of a wait mode: M3_WAIT_*.
const fn wait_number(wait: Wait) -> c_int {
    match wait {
        Wait::Adaptive | Wait::Yield => 0,
        Wait::Spin => 1,
        Wait::Block => 2,
    }
}

/// The result of a call, or its code as an error.
#[inline]
fn checked(call: &'static str, result: c_int) -> Result<c_int, Error> {
    if result < 0 { Err(failed(call, result)) } else { Ok(result) }
}

#[cold]
fn failed(call: &str, code: c_int) -> Error {
    Error::Usage(format!("{call} of libm3ipc returned {code}"))
}

struct Caller {
    library: CLibrary,
    server: c_int,
}

impl ClientEnd for Caller {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let mut message = outward(request);
        checked("mnx_sendrec", self.library.sendrec(self.server, &mut message))?;
        inward(&message, answer);
        Ok(())
    }
}

struct Server {
    library: CLibrary,
    client: c_int,
}

impl ServerEnd for Server {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let mut message = m3ipc::Message::new(0);
        checked("mnx_receive", self.library.receive(ANY, &mut message))?;
        self.client = message.source.0;
        inward(&message, request);
        Ok(())
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        checked("mnx_send", self.library.send(self.client, &mut outward(answer))).map(drop)
    }
}

/// IPC2 of two threads on one CPU, as [`super::m3ipc`] counts it. The client calls on the endpoint
/// of the process, the server on one of its thread.
fn straight(library: CLibrary, vm: c_int, run: &Run) -> Result<Report, Error> {
    checked("mnx_bind", library.bind(vm, CLIENT_SLOT))?;
    crate::cpus::pin(rustix::thread::sched_getcpu())?;
    let (sender, bound) = channel();
    let server = std::thread::spawn(move || {
        let address = checked("mnx_tbind", library.thread_bind(vm, SERVER_SLOT))?;
        let _ = sender.send(address);
        serve(library)
    });
    let to = bound.recv().map_err(|_| Error::PeerGone)?;
    run.at_the_start()?;
    let trips = run.load().limit.unwrap_or(0);
    let called = call(library, to, trips);
    let served = server.join().map_err(|_| Error::PeerGone)?;
    served.and(called)?;
    Ok(Report { trips, ..Report::default() })
}

/// Sends requests, the last of which stops the server.
fn call(library: CLibrary, to: c_int, trips: u64) -> Result<(), Error> {
    for trip in 0..trips {
        if trip == ADAPTIVE_TRIPS {
            checked("m3_set_wait", library.set_wait(wait_number(Wait::Spin)))?;
        }
        let m_type = (trip & 0xff) as i32;
        let mut message = m3ipc::Message::new(m_type);
        checked("mnx_sendrec", library.sendrec(to, &mut message))?;
        if message.m_type != m_type + 1 {
            return Err(Error::Usage(format!("an answer of type {}", message.m_type)));
        }
    }
    checked("mnx_send", library.send(to, &mut m3ipc::Message::new(STOP))).map(drop)
}

/// Answers requests until one says stop.
fn serve(library: CLibrary) -> Result<(), Error> {
    let mut message = m3ipc::Message::new(0);
    checked("mnx_receive", library.receive(ANY, &mut message))?;
    let mut trips = 0;
    while message.m_type != STOP {
        trips += 1;
        if trips == ADAPTIVE_TRIPS {
            checked("m3_set_wait", library.set_wait(wait_number(Wait::Spin)))?;
        }
        message.m_type += 1;
        checked("m3_reply_receive", library.reply_receive(message.source.0, &mut message))?;
    }
    Ok(())
}
