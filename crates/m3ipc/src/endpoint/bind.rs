//! Binding.

use super::attached_areas::AttachedAreas;
use super::claims::Claims;
use super::copy::Copies;
use super::daemon_session::DaemonSession;
use super::fast_calls::FastCalls;
use super::interruption::Interruption;
use super::leaving;
use super::membership::Membership;
use super::page_set::map_pages;
use super::retries::{retry_on_daemon_death, retry_waits};
use super::trace::EndpointTrace;
use super::waiter::Waiter;
use super::{Endpoint, Inbox, Peers};
use crate::control::{Control, IfAbsent, RequestLimit, unexpected};
use crate::error::Fail;
use crate::observe;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{Address, Code};
use m3ipc_link::{ControlPage, WaitStrategy};
use m3ipc_wire::{AwaitedEvent, BackedSlot, BindKind, Reply, Request};
use std::hash::{BuildHasher, Hasher};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Set in the environment of a process, this variable switches the fast path off. For tests of the
/// slow path, and for measurements that compare both.
const NO_FAST_PATH: &str = "M3_NO_FAST_PATH";
/// The wait strategy of new endpoints: `spin`, `block` or `adaptive`. For tests.
const WAIT: &str = "M3_WAIT";

/// The longest sleep until a hook is asked whether a signal ends the wait.
const SIGNAL_CHECK_NS: u64 = 1_000_000_000;

/// Binds the calling process or thread.
pub(crate) fn bind(
    directory: &Path,
    vm: i32,
    slot: Option<i32>,
    kind: BindKind,
    limit: RequestLimit,
) -> Result<Endpoint, Fail> {
    let tid = match kind {
        BindKind::Process | BindKind::Additional | BindKind::Anchor => None,
        BindKind::Thread(tid) => Some(tid),
    };
    bind_by(directory, tid, limit, &Request::Bind { vm, slot, kind, nonce: random_number() })
}

/// A number by which the daemon tells a repeat of a bind from another bind of the process.
pub(super) fn random_number() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// Binds by this request. Ends dropped endpoints of this process that may have the slot.
pub(crate) fn bind_by(
    directory: &Path,
    tid: Option<i32>,
    limit: RequestLimit,
    request: &Request,
) -> Result<Endpoint, Fail> {
    loop {
        let leaving = leaving::all_in(directory);
        match bind_once(directory, tid, limit, request) {
            Err(fail) if fail.code == Code::SlotUsed && leaving::end_some(&leaving) => {}
            other => return other,
        }
    }
}

fn bind_once(
    directory: &Path,
    tid: Option<i32>,
    limit: RequestLimit,
    request: &Request,
) -> Result<Endpoint, Fail> {
    retry_on_daemon_death(|| {
        let (control, reply, fds) =
            Control::connect_asking(directory, IfAbsent::Revive, limit, request)?;
        // A peer that asks for this endpoint lets the daemon look at the control page first.
        attach(control, &reply, fds, tid, |control, page| match page.set_mapped() {
            true => control.send(&Request::MappedNoReply),
            false => Ok(()),
        })
    })
}

/// Waits until another process binds this one (`lclbind`), and takes the endpoint.
pub(crate) fn claim(directory: &Path, limit: Timeout) -> Result<Endpoint, Fail> {
    let deadline = limit.deadline();
    // One limit for all attempts.
    let within = RequestLimit::until(deadline);
    retry_waits(m3ipc_sys::monotonic_ns, || {
        let mut control = Control::connect_within(directory, IfAbsent::Revive, within)?;
        // A registered wait is the consent to be bound by others: a look without a wait gives none.
        if !deadline.no_wait
            && let (Reply::Wait(ticket), _) =
                control.request(&Request::Await(AwaitedEvent::OwnBind))?
        {
            wait_ticket(&mut control, ticket, deadline, &mut Interruption::default())?;
        }
        let claimed = control.request(&Request::Claim);
        let (reply, fds) = claimed.map_err(|fail| match fail.code {
            Code::NotBind if deadline.no_wait => Code::TimedOut.into(),
            _ => fail,
        })?;
        // Notifications may wait for this endpoint: its first receive finds them.
        attach(control, &reply, fds, None, |control, _page| {
            control.request(&Request::Mapped).map(drop)
        })
    })
}

/// Waits until a slot with a backup is at this node, and binds an endpoint of this kind there. The
/// interruption ends the wait, and stays with the endpoint.
pub(crate) fn bind_backup(
    directory: &Path,
    BackedSlot { vm, slot }: BackedSlot,
    kind: BindKind,
    limit: Timeout,
    mut interruption: Interruption,
) -> Result<Endpoint, Fail> {
    let deadline = limit.deadline();
    // One limit for all attempts.
    let within = RequestLimit::until(deadline);
    let is_additional = kind == BindKind::Additional;
    let awaited = AwaitedEvent::Place { slot: BackedSlot { vm, slot }, is_additional };
    let bind = Request::Bind { vm, slot: Some(slot), kind, nonce: random_number() };
    let mut endpoint = retry_waits(m3ipc_sys::monotonic_ns, || {
        let mut control = Control::connect_within(directory, IfAbsent::Revive, within)?;
        loop {
            if let (Reply::Wait(ticket), _) = control.request(&Request::Await(awaited.clone()))? {
                wait_ticket(&mut control, ticket, deadline, &mut interruption)?;
            }
            // The bind asks on the connection that has waited: after the death of the daemon its
            // successor must hear of the slots of other nodes first.
            let (reply, fds) = match control.request(&bind) {
                // The home of the slot came back meanwhile.
                Err(fail) if fail.code == Code::RmtProc => continue,
                other => other?,
            };
            return attach(control, &reply, fds, None, |control, page| match page.set_mapped() {
                true => control.send(&Request::MappedNoReply),
                false => Ok(()),
            });
        }
    })?;
    *endpoint.waiter.interruption() = interruption;
    Ok(endpoint)
}

fn wait_ticket(
    control: &mut Control,
    ticket: u64,
    deadline: Deadline,
    interruption: &mut Interruption,
) -> Result<(), Fail> {
    use std::os::fd::AsFd;
    loop {
        match control.next_event()? {
            Some((m3ipc_wire::DaemonEvent::Ready { ticket: ready, .. }, ..)) if ready == ticket => {
                return Ok(());
            }
            Some(_) => continue,
            None => {}
        }
        let left_ns = deadline.at_ns.saturating_sub(m3ipc_sys::monotonic_ns());
        if left_ns == 0 {
            return Err(Code::TimedOut.into());
        }
        // The limit is checked above.
        match m3ipc_sys::wait_readable(&[control.as_fd()], left_ns.min(SIGNAL_CHECK_NS)) {
            Err(m3ipc_sys::Errno::INTR) if !interruption.by_signal() => {}
            Ok(false) if interruption.is_due() => return Err(Code::Intr.into()),
            other => drop(other?),
        }
    }
}

/// The wait strategy that the environment names, else the default.
fn chosen_strategy() -> WaitStrategy {
    match m3ipc_sys::text_variable(WAIT).as_deref() {
        Some("spin") => WaitStrategy::Spin,
        Some("block") => WaitStrategy::Block,
        _ => WaitStrategy::default(),
    }
}

fn attach(
    mut control: Control,
    reply: &Reply,
    fds: Vec<OwnedFd>,
    tid: Option<i32>,
    tell_mapped: impl FnOnce(&mut Control, &ControlPage) -> Result<(), Fail>,
) -> Result<Endpoint, Fail> {
    let Reply::Bound { vm, vm_name, address, traps, copy_granted, max_copy_bytes } = reply else {
        return Err(unexpected());
    };
    let (control_page, page_set, liveness_lock) = map_pages(fds)?;
    m3ipc_sys::pause_point("client.pages_mapped");
    // Peers that learn of this endpoint from now on find it ready.
    tell_mapped(&mut control, &control_page)?;
    // The limit of the bind does not bound the calls of the endpoint.
    control.set_limit(RequestLimit::ANSWER);
    let address = Address(*address);
    let membership = Membership::begin((*vm, vm_name.clone()), address, tid, *traps)?;
    observe::bound(*vm, address);
    Ok(Endpoint {
        session: DaemonSession::new(control, control_page, liveness_lock),
        membership,
        peers: Peers::default(),
        inbox: Inbox::default(),
        waiter: Waiter::new(page_set, chosen_strategy()),
        fast: FastCalls::new(m3ipc_sys::variable(NO_FAST_PATH).is_some()),
        copies: Copies::new(*copy_granted, *max_copy_bytes),
        claims: Claims::default(),
        areas: AttachedAreas::default(),
        payloads: super::payload_state::Payloads::default(),
        trace: EndpointTrace::default(),
        priorities: super::inheritance::Priorities::default(),
    })
}
