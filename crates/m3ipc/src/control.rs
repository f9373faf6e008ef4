//! The control connection: requests to the node daemon, and its news.

use crate::error::Fail;
use crate::{daemon, runtime, spawn};
use m3ipc_abi::Code;
use m3ipc_link::LinkSide;
use m3ipc_sys::{Errno, ParentOnlyFd};
use m3ipc_wire::{AreaEvent, DaemonEvent, FromDaemon, REPLY_MAX_BYTES, Reply, Request, VERSION};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a daemon that was just started may take until it answers.
const START_LIMIT_NS: u64 = 5_000_000_000;
/// How long one that was started may keep silent before another is.
const START_AGAIN_NS: u64 = 200_000_000;

/// How long a daemon may take for what it can answer at once.
const SOON_NS: u64 = 200_000_000;

/// How long a daemon may take to greet: it may be stopped, or overrun by newcomers.
const GREET_NS: u64 = 10_000_000_000;

/// How often a closed connection is read for what was said before.
const CLOSED_TRIES: u32 = 3;

/// How often, and how long, a daemon that leaves is waited for.
const LEAVING_TRIES: u32 = 50;
const LEAVING_PAUSE: Duration = Duration::from_millis(2);

/// News with the descriptors that came with them. Of a contact: our side of
/// the link, zero where we had asked for it ourselves.
pub(crate) type NewsFrame = (DaemonEvent, Vec<OwnedFd>, LinkSide);

/// What to do where no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Fail.
    Fail,
    /// Fail, but where one was killed start its successor.
    Revive,
    /// Start one, ready for use.
    Start,
    /// Start one that waits for drvs_init.
    StartUninitialised,
}

/// One connection to the daemon.
#[derive(Debug)]
pub(crate) struct Control {
    /// Forgotten before the socket is closed and its number given to another.
    _not_for_children: ParentOnlyFd,
    socket: OwnedFd,
    directory: PathBuf,
    news: VecDeque<NewsFrame>,
    /// Answers to requests that were given up: they come before the next one's.
    late: u32,
}

impl Control {
    /// Connects to the daemon of this directory.
    pub(crate) fn connect(directory: &Path, absent: Absent) -> Result<Self, Fail> {
        Self::connect_saying(directory, absent, None)
    }

    /// Connects and asks in one go: greeting and request travel together.
    pub(crate) fn connect_asking(
        directory: &Path,
        absent: Absent,
        request: &Request,
    ) -> Result<(Self, Reply, Vec<OwnedFd>), Fail> {
        let mut control = Self::connect_saying(directory, absent, Some(request))?;
        let (reply, fds) = control.answer()?;
        Ok((control, reply, fds))
    }

    fn connect_saying(
        directory: &Path,
        absent: Absent,
        more: Option<&Request>,
    ) -> Result<Self, Fail> {
        let mut daemon = String::new();
        for _ in 0..LEAVING_TRIES {
            match Self::greet(directory, absent, more) {
                Err(fail) if fail.code == Code::NotConn => {
                    daemon = fail.why();
                    std::thread::sleep(LEAVING_PAUSE);
                }
                other => return other,
            }
        }
        let why = format!(
            "the node daemon ({daemon}) closes every connection: it is leaving, or of a version that this \
             program (version {VERSION}) cannot talk to; try again, or see its log"
        );
        Err(Fail::new(Code::DrvsInit, why))
    }

    /// A daemon that was just leaving takes connections without serving them: what
    /// follows a greeting that was not answered was not heard either.
    fn greet(directory: &Path, absent: Absent, more: Option<&Request>) -> Result<Self, Fail> {
        let socket = reach(directory, absent)?;
        let mut control = Self {
            _not_for_children: ParentOnlyFd::new(&socket),
            socket,
            directory: directory.to_owned(),
            news: VecDeque::new(),
            late: 0,
        };
        let daemon = |control: &Self| daemon::describe(directory, &control.socket);
        match control.hello(more) {
            Ok(Reply::Welcome { .. }) => Ok(control),
            Ok(_) => Err(unexpected()),
            Err(fail) if fail.code == Code::NotConn => {
                Err(Fail::new(Code::NotConn, daemon(&control)))
            }
            Err(fail) if fail.code == Code::Version => {
                let why = format!(
                    "the node daemon ({}) does not match this program, which speaks version {VERSION}: {}; end \
                     it by its own `m3 down` or by its pid, or name the right one with M3_DAEMON",
                    daemon(&control),
                    fail.why(),
                );
                Err(Fail::new(Code::Version, why))
            }
            Err(fail) => Err(fail),
        }
    }

    fn hello(&mut self, more: Option<&Request>) -> Result<Reply, Fail> {
        // Where the daemon has closed, it may have said why: that is read all the same. The
        // kernel tells of the close first, once, and then gives what was said before it.
        let sent = self.send(&Request::Hello { version: VERSION });
        let sent = sent.and_then(|()| more.map_or(Ok(()), |request| self.send(request)));
        let mut closed = u32::from(sent.is_err());
        let deadline_ns = m3ipc_sys::monotonic_ns() + GREET_NS;
        loop {
            match self.read(false) {
                Ok(Some(answer)) => return answered(answer).map(|(reply, _)| reply),
                Ok(None) => {}
                Err(fail) if fail.code == Code::NotConn && closed < CLOSED_TRIES => {
                    closed += 1;
                    continue;
                }
                Err(fail) => return Err(fail),
            }
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            // A signal is for the call that comes after; the clock decides here.
            if m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns) == Ok(false) {
                let why = "the node daemon takes the connection and does not answer; it may be stopped (its \
                           pid is in the file `lock` of the runtime directory), or see its log";
                return Err(Fail::new(Code::DrvsInit, why));
            }
        }
    }

    /// The runtime directory of its daemon.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Asks and waits for the answer.
    pub(crate) fn request(&mut self, request: &Request) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.send(request)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        loop {
            if let Some(answer) = self.read(true)? {
                return answered(answer);
            }
        }
    }

    /// Asks and waits for the answer until the deadline, or until a signal.
    /// The answer that comes too late is [kept for its owner](Self::next_late).
    pub(crate) fn request_until(
        &mut self,
        request: &Request,
        deadline_ns: u64,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.send(request)?;
        m3ipc_sys::pause_point("client.contact_requested");
        loop {
            if let Some(answer) = self.read(false)? {
                return answered(answer);
            }
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            match m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns) {
                Ok(true) => {}
                Ok(false) => {
                    self.late += 1;
                    return Err(Code::TimedOut.into());
                }
                Err(_signal) => {
                    self.late += 1;
                    return Err(Code::Intr.into());
                }
            }
        }
    }

    /// Asks, and does not wait for a daemon that is stopped: for questions in
    /// the middle of calls that have limits of their own.
    pub(crate) fn request_soon(
        &mut self,
        request: &Request,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.request_until(request, m3ipc_sys::monotonic_ns() + SOON_NS)
    }

    /// Tells the daemon something that has no answer.
    pub(crate) fn send(&self, request: &Request) -> Result<(), Fail> {
        loop {
            match m3ipc_sys::send_packet(&self.socket, &m3ipc_wire::encode(request), &[], true) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(gone()),
            }
        }
    }

    /// Reads one frame: an answer is returned, news are kept.
    fn read(&mut self, wait: bool) -> Result<Option<(Reply, Vec<OwnedFd>)>, Fail> {
        if wait {
            // Without room, which others may need meanwhile; the read tells what is wrong, if anything.
            let _ = m3ipc_sys::wait_readable(&[self.socket.as_fd()], u64::MAX);
        }
        let mut room = Room::take()?;
        let packet = loop {
            match m3ipc_sys::receive_packet(&self.socket, &mut room.0, wait, true) {
                Ok(packet) => break packet,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(_) => return Err(gone()),
            }
        };
        if packet.bytes == 0 {
            return Err(gone());
        }
        let frame = m3ipc_wire::decode(&room.0[..packet.bytes]);
        // Of news what can be told is told; the descriptors are missed where they are needed.
        if packet.truncated && self.late == 0 && matches!(frame, Ok(FromDaemon::Reply(_))) {
            return Err(no_descriptors());
        }
        match frame {
            Ok(FromDaemon::Event(news)) => {
                self.news.push_back((news, packet.fds, LinkSide::One));
                Ok(None)
            }
            // A contact that came too late is a link all the same.
            Ok(FromDaemon::Reply(Reply::Contact(peer))) if self.late > 0 => {
                self.late -= 1;
                self.news.push_back((DaemonEvent::Contact(peer), packet.fds, LinkSide::Zero));
                Ok(None)
            }
            Ok(FromDaemon::Reply(_)) if self.late > 0 => {
                self.late -= 1;
                Ok(None)
            }
            Ok(FromDaemon::Reply(reply)) => Ok(Some((reply, packet.fds))),
            Err(malformed) => Err(Fail::new(Code::Version, malformed.to_string())),
        }
    }

    /// The next news, if any; never waits.
    pub(crate) fn next_news(&mut self) -> Result<Option<NewsFrame>, Fail> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(Some(news));
            }
            match self.read_nothing_but_news()? {
                true => {}
                false => return Ok(None),
            }
        }
    }

    /// What there is of news of areas, ahead of the others; never waits.
    pub(crate) fn take_area_news(&mut self) -> Vec<(AreaEvent, Vec<OwnedFd>)> {
        while let Ok(true) = self.read_nothing_but_news() {}
        let mut taken = Vec::new();
        for (news, fds, side) in std::mem::take(&mut self.news) {
            match news {
                DaemonEvent::Area(news) => taken.push((news, fds)),
                other => self.news.push_back((other, fds, side)),
            }
        }
        taken
    }

    /// The next news that were read already: with an answer, those before it.
    pub(crate) fn next_read_news(&mut self) -> Option<NewsFrame> {
        self.news.pop_front()
    }

    /// Keeps an answer to be heard as the latest news.
    pub(crate) fn keep(&mut self, news: NewsFrame) {
        self.news.push_back(news);
    }

    /// Takes over what a former daemon said and nobody has heard: it comes first.
    pub(crate) fn inherit(&mut self, former: &mut Self) {
        former.news.append(&mut self.news);
        std::mem::swap(&mut self.news, &mut former.news);
    }

    /// Who has made a link that nobody has heard of here yet.
    pub(crate) fn unheard_contacts(&self) -> impl Iterator<Item = i32> + '_ {
        self.news.iter().filter_map(|(news, ..)| match news {
            DaemonEvent::Contact(peer) => Some(peer.address),
            _ => None,
        })
    }

    fn read_nothing_but_news(&mut self) -> Result<bool, Fail> {
        // Both, not their sum: a contact that came too late moves from one to the other.
        let before = (self.news.len(), self.late);
        let answer = self.read(false)?;
        // An answer that nobody waits for can only be a daemon's mistake.
        Ok(answer.is_some() || (self.news.len(), self.late) != before)
    }

    /// Whether the daemon is gone: its end of the socket is closed.
    pub(crate) fn is_cut(&mut self) -> bool {
        // What it said before it went comes first.
        while let Ok(true) = m3ipc_sys::wait_readable(&[self.socket.as_fd()], 0) {
            if let Err(fail) = self.read(false) {
                return fail.code == Code::NotConn;
            }
        }
        false
    }
}

/// Room for one frame: lent by the process, so that sleeping endpoints hold none.
struct Room(Box<[u8]>);

static SPARE: Mutex<Option<Box<[u8]>>> = Mutex::new(None);
/// Whether the process has made room before: then it comes back soon.
static LENT: AtomicBool = AtomicBool::new(false);
/// How often one looks after it, giving way in between.
const ROOM_TRIES: u32 = 1000;

impl Room {
    fn take() -> Result<Self, Fail> {
        // Lent for no longer than a frame takes to be read. Not waited for without end: a child
        // by fork may find it lent to a thread that it has not.
        for _ in 0..ROOM_TRIES {
            if let Some(spare) = SPARE.try_lock().ok().and_then(|mut spare| spare.take()) {
                return Ok(Self(spare));
            }
            if !LENT.swap(true, Ordering::Relaxed) {
                break;
            }
            std::thread::yield_now();
        }
        let mut room = Vec::new();
        room.try_reserve_exact(REPLY_MAX_BYTES).map_err(|_| no_memory())?;
        room.resize(REPLY_MAX_BYTES, 0);
        Ok(Self(room.into_boxed_slice()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Ok(mut spare) = SPARE.try_lock() {
            *spare = Some(std::mem::take(&mut self.0));
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn answered((reply, fds): (Reply, Vec<OwnedFd>)) -> Result<(Reply, Vec<OwnedFd>), Fail> {
    match reply {
        Reply::Refused(refusal) => {
            let code = Code::from_number(refusal.code).unwrap_or(Code::BadRequest);
            Err(Fail::new(code, refusal.why))
        }
        other => Ok((other, fds)),
    }
}

/// What came with an answer did not fit into this process.
fn no_descriptors() -> Fail {
    let why = "this process has no descriptor left for what the node daemon gives it; close some, or raise \
               the limit of open files (ulimit -n)";
    Fail::new(Code::NoMem, why)
}

/// There is no room for a frame of the daemon's.
fn no_memory() -> Fail {
    let why = "this process has no memory left to hear the node daemon; free some, or raise its limit (ulimit -v)";
    Fail::new(Code::NoMem, why)
}

/// The daemon has gone while we talked to it.
fn gone() -> Fail {
    Fail::new(Code::NotConn, "the node daemon has gone; the next call will find or start another")
}

/// The daemon answered what no request of this kind is answered with.
pub(crate) fn unexpected() -> Fail {
    Fail::new(Code::Version, "the node daemon gave an unexpected answer; end it with `m3 down`")
}

fn reach(directory: &Path, absent: Absent) -> Result<OwnedFd, Fail> {
    let path = runtime::socket(directory);
    match m3ipc_sys::connect(&path) {
        Ok(socket) => return Ok(socket),
        // A socket where nobody listens is what a killed daemon leaves.
        Err(Errno::CONNREFUSED) if absent != Absent::Fail => {}
        Err(Errno::NOENT) if !matches!(absent, Absent::Fail | Absent::Revive) => {}
        Err(errno) => return Err(unreachable(&path, errno)),
    }
    let deadline_ns = m3ipc_sys::monotonic_ns() + START_LIMIT_NS;
    loop {
        // Again and again: a daemon that is dying may still hold its lock, and who starts then gives way to it.
        spawn::daemon(directory, absent == Absent::StartUninitialised)?;
        let again_ns = deadline_ns.min(m3ipc_sys::monotonic_ns() + START_AGAIN_NS);
        loop {
            match m3ipc_sys::connect(&path) {
                Ok(socket) => return Ok(socket),
                Err(errno) if m3ipc_sys::monotonic_ns() > deadline_ns => {
                    return Err(unreachable(&path, errno));
                }
                Err(_) if m3ipc_sys::monotonic_ns() > again_ns => break,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

fn unreachable(path: &Path, errno: Errno) -> Fail {
    if matches!(errno, Errno::MFILE | Errno::NFILE) {
        return Fail::new(
            Code::NoMem,
            format!(
                "no descriptor for a connection to the node daemon: {errno}; raise `ulimit -n`"
            ),
        );
    }
    let why =
        format!("no node daemon answers at {}: {errno}; start one with `m3 up`", path.display());
    let code = if errno == Errno::ACCESS { Code::Privileges } else { Code::DrvsInit };
    Fail::new(code, why)
}
