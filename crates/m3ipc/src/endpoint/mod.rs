//! The endpoint: what a process is in its VM, and all it can do there.
//!
//! ```text
//! Endpoint ── control: the daemon      peers: links, by address and index
//!     │                                inbox: who has something for us
//!     ├ send  sendrec  reply  notify ──┐
//!     └ receive ───────────────────────┴─ wait: look, give way, sleep
//! ```
//!
//! Each call first does what can be done at once, and only then enters
//! [`wait`]: there the endpoint says what it waits for, and comes back when
//! the thing has happened, the peer has died, the time is over or a signal
//! came. A message that is on its way then is withdrawn or known delivered.

mod areas;
mod ask;
mod bind;
mod blocks;
mod copy;
mod fd;
mod given;
mod inbox;
mod missed;
mod news;
mod notify;
mod peers;
mod receive;
mod reply;
mod request;
mod send;
mod sendrec;
mod trace;
mod wait;

pub use blocks::Hold;
pub use copy::{Audience, Grant, Loan, Location, Rights};
pub use given::Given;
pub use receive::{Long, Source};
pub use request::PendingRequest;
pub use trace::{StampCost, cost};

use crate::control::{Absent, Control};
use crate::error::Fail;
use inbox::Inbox;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{AdaptiveSpin, ControlPage, OwnStatus, ReadyBitmap, WaitStrategy};
use m3ipc_sys::ForkGuard;
use peers::Peers;
use trace::{At, Tracing};

pub(crate) use bind::{bind, claim};

/// Calls between two looks after the daemon, where no sleep gives occasion.
const CALLS_PER_CHECK: u32 = 4096;

/// Bits of the trap mask: the calls that privileges speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Trap {
    Send = 0,
    Receive = 1,
    SendRec = 2,
    Notify = 3,
    Rcvrqst = 4,
    Reply = 5,
    Relay = 6,
}

/// Who a peer is, as the node daemon vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its address.
    pub address: Address,
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What one daemon made for this endpoint: links know the pages of the daemon
/// that made them, so after a takeover there are several, written alike.
#[derive(Debug)]
struct Face {
    status: OwnStatus,
    hints: ReadyBitmap,
}

/// A bound endpoint. Unbound when it is dropped.
///
/// One thread uses it at a time; a process gives each of its threads an
/// endpoint of its own ([`Vm::bind_thread`](crate::Vm::bind_thread)).
#[derive(Debug)]
pub struct Endpoint {
    control: Control,
    vm: i32,
    vm_name: String,
    address: Address,
    tid: Option<i32>,
    traps: u32,
    guard: ForkGuard,
    desk: ControlPage,
    /// Held for the daemon to see when this process or thread ends.
    pulse: Option<m3ipc_sys::LivenessLock>,
    news_seen: u32,
    faces: Vec<Face>,
    peers: Peers,
    inbox: Inbox,
    pace: AdaptiveSpin,
    /// Where the endpoint waits for its descriptor to become readable.
    bell: Option<fd::Bells>,
    armed: bool,
    /// What the endpoint said last that it waits for, for the desk of the next daemon.
    blocked: Option<(m3ipc_link::WaitCall, Address, u64)>,
    last_look_ns: u64,
    /// When the daemon was last looked after.
    checked_ns: u64,
    calls: u32,
    /// When something was taken last, and when all links were looked at because of that.
    taken_ticks: u64,
    looked_ticks: u64,
    /// Messages taken without a look at the clock since the last one with it.
    quick: u32,
    /// How many of them there may be.
    quick_max: u32,
    /// Notifications delivered out of turn since the last message.
    notes_again: u32,
    latest_note: i32,
    /// The slot whose notification was the latest to be let through in turn.
    turn_note: i32,
    /// Peers that died and whose links are still held, until no call looks at them.
    dead: Vec<u32>,
    /// Peers whose links could not be taken up.
    missed: Vec<i32>,
    /// Tickets of waits that are over, with the endpoint they were about.
    ready: Vec<(u64, i32)>,
    /// Who sent what was taken last.
    latest: Option<Identity>,
    copies: copy::Copies,
    areas: areas::Areas,
    /// Where somebody traces this VM.
    tracing: Option<Box<Tracing>>,
    /// The same while no stamps are wanted.
    set_aside: Option<Box<Tracing>>,
    /// Why nothing can be done with this endpoint any more.
    left: Option<Code>,
}

impl Endpoint {
    /// Its address in the VM.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The id of its VM.
    #[must_use]
    pub fn vm(&self) -> i32 {
        self.vm
    }

    /// The name of its VM.
    #[must_use]
    pub fn vm_name(&self) -> &str {
        &self.vm_name
    }

    /// How it waits.
    #[must_use]
    pub fn strategy(&self) -> WaitStrategy {
        self.pace.strategy()
    }

    /// Chooses how it waits.
    pub fn set_strategy(&mut self, strategy: WaitStrategy) {
        self.pace = AdaptiveSpin::new(strategy);
    }

    /// Who this peer is: its user, group and process, as the daemon vouches
    /// for it. Known of everybody this endpoint has exchanged a message with and who lives.
    #[must_use]
    pub fn peer(&self, address: Address) -> Option<Identity> {
        self.peers.find(address).map(|index| self.peers.get(index).identity)
    }

    /// Who sent the message or notification that was taken last, also where it
    /// has gone since. One in another's name has the process -1, user and group unknown.
    #[must_use]
    pub fn latest_peer(&self) -> Option<Identity> {
        self.latest
    }

    /// Whether this endpoint is still one: not unbound by another, its VM not
    /// ended, and this is no child by fork. Two loads where there is nothing to hear.
    #[must_use]
    #[inline]
    pub fn is_bound(&mut self) -> bool {
        self.guard.is_original() && self.hear().is_ok()
    }

    /// Begins a call: it must be the binder's process, bound, and allowed.
    #[inline]
    fn enter(&mut self, trap: Trap) -> Result<(), Fail> {
        if self.guard.is_original() {
            self.stamp(At::Begun);
            // An end or other privileges may be in the news; the former is told below.
            let _ = self.hear();
        }
        self.stand()?;
        // Who never sleeps has no other moment to look after the daemon.
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(CALLS_PER_CHECK) {
            self.reattach_if_cut();
            self.take_up_missed();
        }
        if self.traps & (1 << trap as u8) == 0 {
            return Err(Code::TrapDenied.into());
        }
        self.disarm();
        Ok(())
    }

    /// Tells peers on which CPU this endpoint runs, where that has changed.
    #[inline]
    fn publish_cpu(&mut self) -> u32 {
        let cpu = m3ipc_sys::current_cpu();
        for face in &mut self.faces {
            face.status.set_cpu(cpu);
        }
        cpu
    }

    /// Whether this endpoint is still one.
    #[inline]
    fn stand(&self) -> Result<(), Fail> {
        if !self.guard.is_original() {
            return Err(Code::NotBind.into());
        }
        match self.left {
            None => Ok(()),
            Some(Code::Shutdown) => Err(Code::NotBind.into()),
            Some(code) => Err(code.into()),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // In a child by fork the pages are not even mapped, and the endpoint is the parent's.
        if self.guard.is_original() && self.left.is_none() {
            m3ipc_sys::pause_point("client.before_unbind");
            let request = m3ipc_wire::Request::Unbind { vm: self.vm, address: self.address.0 };
            // A daemon that does not answer sees the closed connection when it can;
            // the successor of a killed one sees none, so it is told.
            let told = self.control.request_soon(&request);
            if told.is_err_and(|fail| fail.code == Code::NotConn)
                && let Ok(mut next) = Control::connect(self.control.directory(), Absent::Revive)
            {
                let _ = next.request_soon(&request);
            }
        }
    }
}
