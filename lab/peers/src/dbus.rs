//! D-Bus: method calls of zbus through a `dbus-daemon` that serves this pair alone.
//!
//! The client starts the daemon and ends it. A kill of the client ends it too, by `setpriv`. The
//! daemon may run on any CPU.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use m3ipc_bench::Error;
use m3ipc_bench::ends::{ClientEnd, ServerEnd};
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;
use tokio::runtime::Runtime;
use zbus::connection::Builder;
use zbus::fdo::DBusProxy;
use zbus::message::Type;
use zbus::{Connection, MessageStream};

use crate::library::Library;
use crate::{ServerFile, await_file, failed, fill, path, runtime};

/// A method call.
pub const LIBRARY: Library = Library {
    name: "dbus",
    version: || format!("zbus {}", env!("VERSION_ZBUS")),
    waits: &[Wait::Block],
    tells_death: true,
    client,
    server,
    tidy: || {},
};

const BUS_NAME: &str = "m3.Bench";
const OBJECT: &str = "/m3/Bench";
const INTERFACE: &str = "m3.Bench";
const METHOD: &str = "Call";

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let bus = Bus::start(name)?;
    let runtime = runtime()?;
    let connection = runtime.block_on(connect(&bus.socket.0))?;
    while !runtime.block_on(has_server(&connection))? {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.drive(Asking { connection, runtime, _bus: bus })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let socket = path(name, "dbus");
    await_file(&socket);
    let runtime = runtime()?;
    let (connection, calls) = runtime.block_on(async {
        let connection = connect(&socket).await?;
        let calls = MessageStream::from(&connection);
        connection.request_name(BUS_NAME).await.map_err(failed("request the name"))?;
        Ok::<_, Error>((connection, calls))
    })?;
    run.serve(Answering { connection, calls, call: None, runtime })
}

/// A daemon of this pair.
struct Bus {
    daemon: Child,
    socket: ServerFile,
}

impl Bus {
    fn start(name: &str) -> Result<Self, Error> {
        let socket = ServerFile(path(name, "dbus"));
        let mut daemon = Command::new("setpriv");
        daemon.args(["--pdeathsig", "KILL", "taskset", "--cpu-list", "0-1023"]);
        daemon.args(["dbus-daemon", "--session", "--nofork", "--nopidfile", "--nosyslog"]);
        daemon.arg(format!("--address=unix:path={}", socket.0.display()));
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = daemon.spawn().map_err(failed("start setpriv (package util-linux)"))?;
        let mut bus = Self { daemon, socket };
        while !bus.socket.0.exists() {
            if let Some(status) = bus.daemon.try_wait().map_err(failed("wait for dbus-daemon"))? {
                let why = format!("dbus-daemon (package dbus) ended: {status}");
                return Err(Error::Usage(why));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(bus)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

async fn connect(socket: &Path) -> Result<Connection, Error> {
    // The file is there a moment before the daemon listens. The watchdog limits the wait.
    while UnixStream::connect(socket).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let address = format!("unix:path={}", socket.display());
    let builder = Builder::address(address.as_str()).map_err(failed("an address"))?;
    builder.build().await.map_err(failed("connect"))
}

async fn has_server(connection: &Connection) -> Result<bool, Error> {
    let bus = DBusProxy::new(connection).await.map_err(failed("the bus"))?;
    let name = BUS_NAME.try_into().map_err(failed("a name"))?;
    bus.name_has_owner(name).await.map_err(failed("look for the server"))
}

struct Asking {
    connection: Connection,
    runtime: Runtime,
    _bus: Bus,
}

impl ClientEnd for Asking {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let (to, interface) = (Some(BUS_NAME), Some(INTERFACE));
        let bytes = request.bytes();
        let call = self.connection.call_method(to, OBJECT, interface, METHOD, &bytes);
        let answered = self.runtime.block_on(call).map_err(failed("call"))?;
        let body = answered.body();
        fill(answer, body.deserialize::<&[u8]>().map_err(failed("read the answer"))?)
    }
}

struct Answering {
    connection: Connection,
    calls: MessageStream,
    call: Option<zbus::Message>,
    runtime: Runtime,
}

impl ServerEnd for Answering {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        loop {
            let next = self.runtime.block_on(self.calls.next());
            let next = next.ok_or_else(|| Error::Usage("the bus ended".into()))?;
            let next = next.map_err(failed("receive"))?;
            if next.message_type() == Type::MethodCall {
                let body = next.body();
                fill(request, body.deserialize::<&[u8]>().map_err(failed("read the call"))?)?;
                self.call = Some(next);
                return Ok(());
            }
        }
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let call = self.call.take();
        let call = call.ok_or_else(|| Error::Usage("an answer without a call".into()))?;
        let (header, bytes) = (call.header(), answer.bytes());
        let reply = self.connection.reply(&header, &bytes);
        self.runtime.block_on(reply).map(drop).map_err(failed("answer"))
    }
}
