//! Questions to the daemon: names, waits for other endpoints, wakeup, unbind.

use super::Endpoint;
use super::daemon_watch::MARKED_SLEEP_NS;
use super::waiter::SLOW_CHECK_NS;
use crate::control::{Control, Decided, RequestLimit};
use crate::error::{Fail, NameError, UnbindError, WaitError, WakeupError};
use crate::timeout::{Deadline, Timeout};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{DaemonMark, WaitCall, WaitMode};
use m3ipc_wire::{AwaitedEvent, Reply, Request};

/// The environment variable with the key of a reserved name: see [`Endpoint::name_reserve`]. A
/// program with more rights than its caller reads it too: it gives no rights over the program.
pub const NAME_KEY: &str = "M3_NAME_KEY";

/// The pauses of a wait while nobody can start a daemon, in nanoseconds: first and longest.
const RETURN_PAUSE_NS: u64 = 10_000_000;
const RETURN_PAUSE_MAX_NS: u64 = 160_000_000;

/// The request for a name, with the key that this process has.
pub(crate) fn attach_request(name: &str) -> Request {
    let key = std::env::var(NAME_KEY).ok().and_then(|key| key.parse().ok());
    Request::NameAttach { name: name.to_owned(), key }
}

impl Endpoint {
    /// Takes a name that is unique in the VM, of up to
    /// [`NAME_MAX_BYTES`](crate::NAME_MAX_BYTES) bytes. The name ends with the endpoint.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// server.name_attach("stock")?;
    /// assert_eq!(client.name_locate("stock")?, server.address());
    /// # Ok::<(), m3ipc::NameError>(())
    /// ```
    ///
    /// # Errors
    /// [`NameError::Taken`], [`NameError::TooLong`], and others.
    pub fn name_attach(&mut self, name: &str) -> Result<(), NameError> {
        self.ask_daemon(&attach_request(name))?;
        Ok(())
    }

    /// Reserves a name until this endpoint ends: no process takes it but those that have the key
    /// in the environment variable [`NAME_KEY`](crate::NAME_KEY), and this one. Only the VM's owner
    /// may. An endpoint that has the name keeps it. Returns the key.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut supervisor, _client) = node.pair();
    /// let key = supervisor.name_reserve("stock")?;
    /// let mut service = std::process::Command::new("./stock");
    /// service.env(m3ipc::NAME_KEY, key.to_string());
    /// supervisor.name_release("stock")?;
    /// # Ok::<(), m3ipc::NameError>(())
    /// ```
    ///
    /// # Errors
    /// [`NameError::Taken`] if another endpoint has reserved the name, and others.
    pub fn name_reserve(&mut self, name: &str) -> Result<u64, NameError> {
        let key = super::bind::random_number();
        self.ask_daemon(&Request::NameReserve { name: name.to_owned(), key: Some(key) })?;
        Ok(key)
    }

    /// Ends the reservation of a name. The example is at [`name_reserve`](Self::name_reserve).
    ///
    /// # Errors
    /// As [`name_reserve`](Self::name_reserve).
    pub fn name_release(&mut self, name: &str) -> Result<(), NameError> {
        self.ask_daemon(&Request::NameReserve { name: name.to_owned(), key: None })?;
        Ok(())
    }

    /// The endpoint that has this name.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// assert!(matches!(client.name_locate("stock"), Err(m3ipc::NameError::Unknown(_))));
    /// ```
    ///
    /// # Errors
    /// [`NameError::Unknown`] if no endpoint has the name, and others.
    pub fn name_locate(&mut self, name: &str) -> Result<Address, NameError> {
        Ok(self.ask_daemon(&Request::NameLocate(name.to_owned())).map(Address)?)
    }

    /// Waits until an endpoint has this name.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use std::time::Duration;
    ///
    /// let waited = client.wait_name("stock", Duration::from_millis(1));
    /// assert!(matches!(waited, Err(m3ipc::WaitError::TimedOut(_))));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], [`WaitError::Interrupted`], and others.
    pub fn wait_name(
        &mut self,
        name: &str,
        limit: impl Into<Timeout>,
    ) -> Result<Address, WaitError> {
        self.await_event(AwaitedEvent::Name(name.to_owned()), m3ipc_abi::NONE, limit.into())
    }

    /// Waits until an endpoint is bound at this address (`wait4bindep`), also while it moves
    /// between two nodes.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// assert_eq!(client.wait_bind(server.address(), None)?, server.address());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_bind(
        &mut self,
        address: Address,
        limit: impl Into<Timeout>,
    ) -> Result<Address, WaitError> {
        self.await_event(AwaitedEvent::Bind(address.0), address, limit.into())
    }

    /// Waits until no endpoint is bound at this address (`wait4unbind`).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// let worker = node.vm().bind_additional(Some(3))?;
    /// let address = worker.address();
    /// drop(worker);
    /// client.wait_unbind(address, None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_unbind(
        &mut self,
        address: Address,
        limit: impl Into<Timeout>,
    ) -> Result<(), WaitError> {
        self.await_event(AwaitedEvent::Unbind(address.0), address, limit.into()).map(drop)
    }

    /// The address of a process of this VM (`getep`).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// let mut server = node.vm().bind(1)?;
    /// let pid = i32::try_from(std::process::id())?;
    /// assert_eq!(server.locate_process(pid)?, server.address());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NameError::Unknown`] if the process is not bound here, and others.
    pub fn locate_process(&mut self, pid: i32) -> Result<Address, NameError> {
        Ok(self.ask_daemon(&Request::GetEndpoint(pid)).map(Address)?)
    }

    /// Ends the receive from ANY of another endpoint. An endpoint in another state remembers the
    /// wakeup for its next receive from ANY.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// let woken = client.wakeup(server.address());
    /// assert!(woken.is_err(), "the server does not receive; it remembers the wakeup");
    /// assert!(matches!(server.receive(m3ipc::ANY), Err(m3ipc::ReceiveError::Woken(_))));
    /// ```
    ///
    /// # Errors
    /// [`WakeupError::WasRunning`] and [`WakeupError::WasBusy`] if the endpoint remembers it, and
    /// others.
    pub fn wakeup(&mut self, address: Address) -> Result<(), WakeupError> {
        self.membership.check_bound().map_err(|fail| WakeupError::Unbound(fail.code))?;
        let request = Request::Wakeup { vm: self.membership.vm(), address: address.0 };
        self.ask_daemon(&request).map(drop).map_err(|fail| WakeupError::of(fail, address))
    }

    /// Unbinds another endpoint and waits until it has left.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{ReceiveError, Source};
    ///
    /// let mut worker = node.vm().bind_additional(Some(3))?;
    /// let address = worker.address();
    /// let thread = std::thread::spawn(move || worker.receive(Source::Any));
    /// client.unbind_other(address)?;
    /// assert!(matches!(thread.join().unwrap(), Err(ReceiveError::Unbound(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`UnbindError`].
    pub fn unbind_other(&mut self, address: Address) -> Result<(), UnbindError> {
        self.membership.check_bound().map_err(|fail| UnbindError::Unbound(fail.code))?;
        let request = Request::Unbind { vm: self.membership.vm(), address: address.0 };
        self.ask_daemon(&request).map(drop).map_err(|fail| UnbindError::of(fail, address))
    }

    /// Asks the daemon; asks its successor if the daemon dies meanwhile.
    pub(super) fn ask_daemon(&mut self, request: &Request) -> Result<i32, Fail> {
        self.membership.check_bound()?;
        self.disarm();
        let ask = |control: &mut Control| match request {
            // The reply waits for the end of the other endpoint.
            Request::Unbind { .. } => control.request_while_running(request),
            // That of an endpoint of another node waits for the proxy.
            Request::Wakeup { .. } => {
                match control.request_decided(request, Deadline::NEVER, || false)? {
                    Decided::Answered(reply) => Ok((reply, Vec::new())),
                    Decided::GivenUp(why) => {
                        let why = format!("the endpoint may have been woken: {why}");
                        Err(Fail::new(Code::Unknown, why))
                    }
                    Decided::Unknown(why) => Err(Fail::new(Code::TimedOut, why)),
                }
            }
            _ => control.request(request),
        };
        let reply = match ask(self.session.control_mut()) {
            Err(fail) if fail.code == Code::NotConn => {
                self.reattach_if_closed();
                match (request, ask(self.session.control_mut())) {
                    // The dead daemon may have ended the endpoint before its answer.
                    (Request::Unbind { .. }, Err(fail)) if fail.code == Code::NotBind => {
                        return Ok(0);
                    }
                    (_, again) => again,
                }
            }
            other => other,
        };
        match reply?.0 {
            Reply::Number(number) => Ok(number),
            _ => Ok(0),
        }
    }

    fn await_event(
        &mut self,
        what: AwaitedEvent,
        about: Address,
        limit: Timeout,
    ) -> Result<Address, WaitError> {
        self.await_number(what, about, limit).map_err(|fail| WaitError::of(fail, about))
    }

    fn await_number(
        &mut self,
        what: AwaitedEvent,
        about: Address,
        limit: Timeout,
    ) -> Result<Address, Fail> {
        self.membership.check_bound()?;
        let deadline = limit.deadline();
        self.disarm();
        let (now_ns, tid) = (m3ipc_sys::monotonic_ns(), m3ipc_sys::thread_id().cast_unsigned());
        self.session.begin_wait(WaitCall::Wait, about);
        self.session.begin_sleep(WaitCall::Wait, about, now_ns, tid);
        let result = self.await_ticket(&what, deadline);
        self.session.end_wait();
        result
    }

    /// A pause of a wait that lost its daemon: none, if the next one is there. The limit of the
    /// wait and signals end it, although nobody can start a daemon.
    #[cold]
    fn pause_without_daemon(&mut self, pause_ns: u64, deadline: Deadline) -> Result<(), Fail> {
        let pause_ns = if self.session.control_mut().is_closed() { pause_ns } else { 0 };
        let page = self.session.page();
        let words = [(page.event_word(), page.event_word().load(Ordering::Acquire))];
        let until_ns = deadline.at_ns.min(m3ipc_sys::monotonic_ns().saturating_add(pause_ns));
        let is_over = match m3ipc_sys::wait_any(&words, until_ns)? {
            m3ipc_sys::WaitOutcome::Signal => self.waiter.interruption().by_signal(),
            _ => self.waiter.interruption().is_due(),
        };
        if is_over {
            return Err(Code::Intr.into());
        }
        if m3ipc_sys::monotonic_ns() >= deadline.at_ns {
            return Err(Code::TimedOut.into());
        }
        Ok(())
    }

    fn await_ticket(&mut self, what: &AwaitedEvent, deadline: Deadline) -> Result<Address, Fail> {
        let (mut ticket, mut pause_ns) = (None, RETURN_PAUSE_NS);
        loop {
            let Some(open) = ticket else {
                // The loop registers the wait again with the next daemon if this one dies.
                let until_ns = RequestLimit::until(deadline).end_ns();
                match self
                    .session
                    .control_mut()
                    .request_through(&Request::Await(what.clone()), until_ns)
                {
                    Ok((Reply::Number(address), _)) => return answer_of(address),
                    Ok((Reply::Wait(open), _)) => ticket = Some(open),
                    Ok(_) => return Err(crate::control::unexpected()),
                    Err(fail) if fail.code == Code::NotConn => {
                        self.reattach_if_closed();
                        self.receive_events()?;
                        self.pause_without_daemon(pause_ns, deadline)?;
                        pause_ns = RETURN_PAUSE_MAX_NS.min(2 * pause_ns);
                    }
                    // The daemon is silent, and the caller has time left.
                    Err(fail)
                        if fail.code == Code::TimedOut
                            && m3ipc_sys::monotonic_ns() < deadline.at_ns =>
                    {
                        return Err(Fail::new(Code::NotConn, self.session.control().why_silent()));
                    }
                    Err(fail) => return Err(fail),
                }
                continue;
            };
            // Read the event word before the events: a ticket that comes later changes the word.
            let before = self.session.page().event_word().load(Ordering::Acquire);
            self.receive_all_events();
            if let Some(address) = self.session.take_ended_wait(open) {
                return answer_of(address);
            }
            self.receive_events()?;
            let now_ns = m3ipc_sys::monotonic_ns();
            if now_ns >= deadline.at_ns {
                self.session.control_mut().request_later(&Request::Forget(open));
                return Err(Code::TimedOut.into());
            }
            self.waiter.set_mode(WaitMode::Awake);
            let page = self.session.page();
            let mark = page.daemon_mark().load(Ordering::Acquire);
            let words = [(page.event_word(), before), (page.daemon_mark(), mark)];
            // Without a mark, the clock tells when to look for the daemon, as for a hook.
            let has_mark =
                DaemonMark::of(mark) == DaemonMark::Live && !self.waiter.has_interruption();
            let limit_ns = if has_mark { MARKED_SLEEP_NS } else { SLOW_CHECK_NS };
            let until_ns = deadline.at_ns.min(now_ns.saturating_add(limit_ns));
            match m3ipc_sys::wait_any(&words[..1 + usize::from(has_mark)], until_ns)? {
                m3ipc_sys::WaitOutcome::Signal if self.waiter.interruption().by_signal() => {
                    self.session.control_mut().request_later(&Request::Forget(open));
                    return Err(Code::Intr.into());
                }
                m3ipc_sys::WaitOutcome::Limit if self.waiter.interruption().is_due() => {
                    self.session.control_mut().request_later(&Request::Forget(open));
                    return Err(Code::Intr.into());
                }
                m3ipc_sys::WaitOutcome::Changed => {}
                _ if self.session.control_mut().is_closed() => {
                    self.reattach_if_closed();
                    ticket = None;
                }
                m3ipc_sys::WaitOutcome::Signal | m3ipc_sys::WaitOutcome::Limit => {}
            }
        }
    }
}

/// A ticket ends with an address, or with the code that ended the wait.
pub(super) fn answer_of(number: i32) -> Result<Address, Fail> {
    match Code::from_number(number) {
        Some(code @ (Code::VmNotRun | Code::Endpoint)) => Err(code.into()),
        _ => Ok(Address(number)),
    }
}
