//! What an endpoint asks the daemon: names, waits for others, rights, its own end.

use super::Endpoint;
use crate::error::{CallError, Fail};
use crate::timeout::Timeout;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{WaitCall as Verb, WaitMode};
use m3ipc_wire::{AwaitedEvent, Reply, Request};

impl Endpoint {
    /// Takes a name of up to 63 bytes, unique in the VM; freed with the endpoint.
    ///
    /// # Errors
    /// [`CallError::System`] with -342 where it is taken, -343 where it is too long.
    pub fn name_attach(&mut self, name: &str) -> Result<(), CallError> {
        self.ask(&Request::NameAttach(name.to_owned())).map(drop)
    }

    /// Who has this name.
    ///
    /// # Errors
    /// [`CallError::System`] with -316 where nobody has.
    pub fn name_locate(&mut self, name: &str) -> Result<Address, CallError> {
        self.ask(&Request::NameLocate(name.to_owned())).map(Address)
    }

    /// Waits until somebody has this name.
    ///
    /// # Errors
    /// [`CallError::TimedOut`], [`CallError::Interrupted`], and the others.
    pub fn wait_name(&mut self, name: &str, limit: Timeout) -> Result<Address, CallError> {
        self.await_event(AwaitedEvent::Name(name.to_owned()), m3ipc_abi::NONE, limit)
    }

    /// Waits until an endpoint of this address is bound (wait4bindep).
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_bind(&mut self, address: Address, limit: Timeout) -> Result<Address, CallError> {
        self.await_event(AwaitedEvent::Bind(address.0), address, limit)
    }

    /// Waits until the endpoint of this address is gone (wait4unbind).
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_unbind(&mut self, address: Address, limit: Timeout) -> Result<(), CallError> {
        self.await_event(AwaitedEvent::Unbind(address.0), address, limit).map(drop)
    }

    /// The address of a process of this VM (getep).
    ///
    /// # Errors
    /// [`CallError::System`] with -310 where it is not bound here.
    pub fn locate_process(&mut self, pid: i32) -> Result<Address, CallError> {
        self.ask(&Request::GetEndpoint(pid)).map(Address)
    }

    /// Ends another's receive from ANY, or is remembered for its next one.
    ///
    /// # Errors
    /// [`CallError::WasRunning`] and [`CallError::WasBusy`] where it is only remembered, and the others.
    pub fn wakeup(&mut self, address: Address) -> Result<(), CallError> {
        let request = Request::Wakeup { vm: self.vm, address: address.0 };
        self.ask_daemon(&request).map(drop).map_err(|fail| CallError::of(fail, address))
    }

    /// Unbinds another endpoint, and waits until it has left.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn unbind_other(&mut self, address: Address) -> Result<(), CallError> {
        let request = Request::Unbind { vm: self.vm, address: address.0 };
        self.ask_daemon(&request).map(drop).map_err(|fail| CallError::of(fail, address))
    }

    fn ask(&mut self, request: &Request) -> Result<i32, CallError> {
        self.ask_daemon(request).map_err(|fail| CallError::of(fail, self.address))
    }

    /// Asks the daemon; once more where it has died meanwhile.
    pub(super) fn ask_daemon(&mut self, request: &Request) -> Result<i32, Fail> {
        self.stand()?;
        let reply = match self.control.request(request) {
            Err(fail) if fail.code == Code::NotConn => {
                self.reattach_if_cut();
                self.control.request(request)
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
    ) -> Result<Address, CallError> {
        self.await_number(what, about, limit).map_err(|fail| CallError::of(fail, about))
    }

    fn await_number(
        &mut self,
        what: AwaitedEvent,
        about: Address,
        limit: Timeout,
    ) -> Result<Address, Fail> {
        self.stand()?;
        let deadline = limit.deadline();
        self.disarm();
        self.desk.set_blocked(Verb::Wait, about);
        self.desk
            .set_sleep_start(m3ipc_sys::monotonic_ns(), m3ipc_sys::thread_id().cast_unsigned());
        let result = self.await_ticket(&what, deadline);
        self.desk.set_running();
        result
    }

    fn await_ticket(
        &mut self,
        what: &AwaitedEvent,
        deadline: crate::timeout::Deadline,
    ) -> Result<Address, Fail> {
        let mut ticket = None;
        loop {
            let Some(open) = ticket else {
                // Registered anew with the next daemon where this one dies.
                match self.control.request(&Request::Await(what.clone())) {
                    Ok((Reply::Number(address), _)) => return told(address),
                    Ok((Reply::Wait(open), _)) => ticket = Some(open),
                    Ok(_) => return Err(crate::control::unexpected()),
                    Err(fail) if fail.code == Code::NotConn => {
                        self.reattach_if_cut();
                        self.hear()?;
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                    Err(fail) => return Err(fail),
                }
                continue;
            };
            // Before the news are read: a ticket that comes later changes the word.
            let before = self.desk.event_word().load(Ordering::Acquire);
            self.hear_all();
            if let Some(at) = self.ready.iter().position(|(ready, _)| *ready == open) {
                return told(self.ready.swap_remove(at).1);
            }
            self.hear()?;
            let now_ns = m3ipc_sys::monotonic_ns();
            if now_ns >= deadline.at_ns {
                let _ = self.control.request(&Request::Forget(open));
                return Err(Code::TimedOut.into());
            }
            let until_ns = deadline.at_ns.min(now_ns + 1_000_000_000);
            self.set_mode(WaitMode::Awake);
            match m3ipc_sys::wait_any(&[(self.desk.event_word(), before)], until_ns)? {
                m3ipc_sys::WaitOutcome::Changed => {}
                m3ipc_sys::WaitOutcome::Signal => {
                    let _ = self.control.request(&Request::Forget(open));
                    return Err(Code::Intr.into());
                }
                m3ipc_sys::WaitOutcome::Limit if self.control.is_cut() => {
                    self.reattach_if_cut();
                    ticket = None;
                }
                m3ipc_sys::WaitOutcome::Limit => {}
            }
        }
    }
}

/// A ticket is answered with an address, or with the code that ended the wait.
fn told(number: i32) -> Result<Address, Fail> {
    match Code::from_number(number) {
        Some(code @ Code::VmNotRun) => Err(code.into()),
        _ => Ok(Address(number)),
    }
}
