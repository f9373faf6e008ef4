//! servo's ipc-channel: a channel of six words each way. The client makes both and sends the server's ends along.
//!
//! It has no threads of its own, so a side may also look again and again (`try_recv`) without leaving its CPU.

use ::ipc_channel::TryRecvError;
use ::ipc_channel::ipc::{self, IpcOneShotServer, IpcReceiver, IpcSender};
use m3ipc_bench::Error;
use m3ipc_bench::job::{Report, Wait};
use m3ipc_bench::mechanism::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use m3ipc_bench::payload::Message;
use m3ipc_bench::peer::Run;

use crate::{Meeting, await_file, failed, meeting, not_here};

type Words = [u64; 6];
type Ends = (IpcReceiver<Words>, IpcSender<Words>);

/// Two typed channels.
pub struct IpcChannel;

impl Mechanism for IpcChannel {
    fn name(&self) -> &'static str {
        "ipc-channel"
    }

    fn waits(&self) -> &'static [Wait] {
        &[Wait::Spin, Wait::Block]
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        Err(not_here())
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let place = Meeting::of(&meeting(&inherited)?, "channel");
        await_file(&place.0);
        let name = std::fs::read_to_string(&place.0).map_err(failed("read the server's name"))?;
        let server = IpcSender::<Ends>::connect(name).map_err(failed("connect"))?;
        // The file is ours and not the library's: it is no part of what a killed server leaves behind.
        drop(place);
        let (requests, there) = ipc::channel::<Words>().map_err(failed("a channel"))?;
        let (back, answers) = ipc::channel::<Words>().map_err(failed("a channel"))?;
        server.send((there, back)).map_err(failed("send the ends"))?;
        run.drive(End { output: requests, input: answers, wait: run.job().wait })
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let place = Meeting::of(&meeting(&inherited)?, "channel");
        let (server, name) = IpcOneShotServer::<Ends>::new().map_err(failed("a server"))?;
        // Whole before it has its name, so nobody reads half of it.
        let beside = place.0.with_extension("new");
        std::fs::write(&beside, name)
            .and_then(|()| std::fs::rename(&beside, &place.0))
            .map_err(failed("tell the name"))?;
        let (_, (input, output)) = server.accept().map_err(failed("accept"))?;
        run.serve(End { output, input, wait: run.job().wait })
    }
}

struct End {
    output: IpcSender<Words>,
    input: IpcReceiver<Words>,
    wait: Wait,
}

impl End {
    fn put(&self, message: &Message) -> Result<(), Error> {
        self.output.send(message.words).map_err(failed("send"))
    }

    fn take(&self, message: &mut Message) -> Result<(), Error> {
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

impl ClientEnd for End {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.take(answer)
    }
}

impl ServerEnd for End {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.take(request)
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
