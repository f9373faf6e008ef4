//! servo's ipc-channel: a channel of six words each way. The client makes both channels.
//!
//! It has no threads of its own, so a side may also poll (`try_recv`) without leaving its CPU.

use ::ipc_channel::TryRecvError;
use ::ipc_channel::ipc::{self, IpcOneShotServer, IpcReceiver, IpcSender};
use m3ipc_bench::Error;
use m3ipc_bench::ends::Exchange;
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;

use crate::library::Library;
use crate::{ServerFile, await_file, failed, path};

type Words = [u64; 6];
type Ends = (IpcReceiver<Words>, IpcSender<Words>);

/// Two typed channels.
pub const LIBRARY: Library = Library {
    name: "ipc-channel",
    version: || env!("VERSION_IPC_CHANNEL").into(),
    waits: &[Wait::Spin, Wait::Block],
    tells_death: true,
    client,
    server,
    tidy: || {},
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let file = ServerFile(path(name, "channel"));
    await_file(&file.0);
    let server = std::fs::read_to_string(&file.0).map_err(failed("read the server's name"))?;
    let server = IpcSender::<Ends>::connect(server).map_err(failed("connect"))?;
    // The file is ours, not the library's: a killed server must not leave it behind.
    drop(file);
    let (requests, there) = ipc::channel::<Words>().map_err(failed("a channel"))?;
    let (back, answers) = ipc::channel::<Words>().map_err(failed("a channel"))?;
    server.send((there, back)).map_err(failed("send the ends"))?;
    run.drive(End { output: requests, input: answers, wait: run.job().wait })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let file = ServerFile(path(name, "channel"));
    let (server, server_name) = IpcOneShotServer::<Ends>::new().map_err(failed("a server"))?;
    // A rename publishes the file as a whole.
    let new = file.0.with_extension("new");
    std::fs::write(&new, server_name)
        .and_then(|()| std::fs::rename(&new, &file.0))
        .map_err(failed("publish the name"))?;
    let (_, (input, output)) = server.accept().map_err(failed("accept"))?;
    run.serve(End { output, input, wait: run.job().wait })
}

struct End {
    output: IpcSender<Words>,
    input: IpcReceiver<Words>,
    wait: Wait,
}

impl Exchange for End {
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        self.output.send(message.words).map_err(failed("send"))
    }

    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        message.words = match self.wait {
            Wait::Spin => loop {
                match self.input.try_recv() {
                    Ok(words) => break words,
                    Err(TryRecvError::Empty) => std::hint::spin_loop(),
                    Err(TryRecvError::IpcError(_)) => return Err(Error::PeerGone),
                }
            },
            _ => self.input.recv().map_err(|_| Error::PeerGone)?,
        };
        Ok(())
    }
}
