//! Requests to a server without an event loop.

use super::*;
use crate::quota::{Accounts, Resource};
use crate::state::connection::Deferred;
use crate::state::timers::Timer;
use crate::test_server::{NO_PROCESS, TestMember, TestServer};
use m3ipc_link::trace_bytes;
use m3ipc_wire::{
    AreaAudience, AreaEvent, AreaParams, DaemonEvent, ForeignRange, FromDaemon, Privileges,
    RecalledPeer, Refusal, Reply, SockRequest, TraceEvent,
};

/// The codes of the refusals among frames.
fn refusals(frames: Vec<FromDaemon>) -> Vec<i32> {
    let code = |frame| match frame {
        FromDaemon::Reply(Reply::Refused(Refusal { code, .. })) => Some(code),
        _ => None,
    };
    frames.into_iter().filter_map(code).collect()
}

/// Two endpoints with a link, which the first one asked for.
fn linked(test: &mut TestServer) -> [TestMember; 2] {
    let [one, other] = test.members();
    test.server.serve(one.token, Request::Contact(other.address()));
    assert!(matches!(other.events()[..], [DaemonEvent::Contact(_)]));
    one.frames();
    [one, other]
}

/// Allows an endpoint to exchange messages with no other one.
fn isolate(server: &mut Server, id: MemberId) {
    let none = Some(Vec::new());
    let privileges = Privileges { traps: u32::MAX, ipc_to: none.clone(), ipc_from: none, level: 0 };
    server.node.set_priv(id, privileges, &Credentials::new(7, 7, 1)).unwrap();
    server.record();
}

#[test]
fn a_requester_with_a_full_queue_hears_of_a_death_after_a_renewed_contact() {
    let mut test = TestServer::new("requester");
    let [requester, peer] = linked(&mut test);
    let server = &mut test.server;
    let is_full = |server: &Server| server.connections.get(requester.token).unwrap().is_full;
    while !is_full(server) {
        server.send_own_event(requester.token, DaemonEvent::Traps(0), Vec::new());
    }
    server.serve(peer.token, Request::Renew(requester.address()));
    server.close(peer.token);
    let mut events = Vec::new();
    while is_full(server) {
        events.extend(requester.events());
        server.flush(requester.token);
    }
    events.extend(requester.events());
    assert!(events.contains(&DaemonEvent::Died(peer.address())));
}

#[test]
fn a_returned_endpoint_hears_which_messages_its_links_may_carry() {
    let mut test = TestServer::new("recall");
    let [one, other] = linked(&mut test).map(|member| member.id);
    isolate(&mut test.server, one);
    let mut test = test.restart();
    let returned = test.attach(one);
    let (address, life) = (other.address.0, test.server.node.endpoint(other).unwrap().life);
    let recalled = RecalledPeer { address, life, was_stand_in: false };
    test.server.serve(returned.token, Request::Recall(vec![recalled]));
    let (may_send, may_receive) =
        (test.server.allowed_messages(one, other), test.server.allowed_messages(other, one));
    let allowed = DaemonEvent::Allowed { address, may_send, may_receive };
    assert_eq!(returned.events(), [allowed]);
}

#[test]
fn a_wakeup_waits_for_an_endpoint_that_has_no_connection() {
    let mut test = TestServer::new("wakeup");
    let [waker] = test.members();
    let id = test.bind(waker.id.vm, NO_PROCESS + 9);
    let wakeup = Request::Wakeup { vm: id.vm, address: id.address.0 };
    test.server.serve(waker.token, wakeup);
    assert_eq!(refusals(waker.frames()), [Code::ProcRun.number()]);
    assert_eq!(test.attach(id).events(), [DaemonEvent::Wakeup]);
    assert!(!test.server.pending_notifications.take_wakeup(id), "once");
}

#[test]
fn an_endpoint_that_ended_leaves_no_wakeup_to_the_next_one() {
    let mut test = TestServer::new("wakeup-end");
    let [waker] = test.members();
    let id = test.bind(waker.id.vm, NO_PROCESS + 9);
    test.server.serve(waker.token, Request::Wakeup { vm: id.vm, address: id.address.0 });
    test.server.unbind_endpoint(id);
    assert!(!test.server.pending_notifications.take_wakeup(id));
}

#[test]
fn a_trace_ring_counts_until_its_member_answers() {
    const SLOTS: u32 = 64;
    let mut test = TestServer::new("trace");
    let [member] = test.members();
    let (tracer, _socket) = test.connect(7, NO_PROCESS + 9);
    let server = &mut test.server;
    server.connections.get_mut(tracer).unwrap().greeted = true;
    let used = |server: &Server| {
        (server.accounts.used(7, Resource::Descriptors), server.traces.bytes_of(7))
    };
    let before = used(server);
    let vm = member.id.vm;
    let begin = TraceRequest::Begin { vm, slots: SLOTS, sharp: false };
    for _ in 0..2 {
        server.serve(tracer, Request::Trace(begin));
        server.serve(tracer, Request::Trace(TraceRequest::End));
        assert_eq!(used(server), (before.0 + 1, trace_bytes(SLOTS)));
    }
    let events = member.events();
    assert!(matches!(events.first(), Some(DaemonEvent::Trace(TraceEvent::On { .. }))));
    server.serve(member.token, Request::Trace(TraceRequest::Mapped));
    assert_eq!(used(server), before);
}

#[test]
fn the_files_of_domains_end_with_their_vm() {
    let mut test = TestServer::new("domains");
    let [member] = test.members();
    let vm = member.id.vm;
    let join = Request::Sock(SockRequest::Join { vm, domain: Some(3) });
    test.server.serve(member.token, join);
    let of_vm = test.server.runtime_directory.domain((vm, 3), 7);
    let of_none = test.server.runtime_directory.domain((vm + 1, 3), 7);
    assert!(of_vm.exists());
    std::fs::write(&of_none, "").unwrap();
    let mut test = test.restart();
    assert!(test.server.sockets.is_taken((vm, 3)), "its party has not returned");
    assert!(!test.server.sockets.is_taken((vm + 1, 3)));
    assert_eq!((of_vm.exists(), of_none.exists()), (true, false));
    test.server.end_domains(vm);
    assert!(!of_vm.exists() && !test.server.sockets.is_taken((vm, 3)));
}

#[test]
fn a_vm_that_ends_with_its_stand_ins_leaves_no_timer() {
    let mut test = TestServer::new("stand-ins");
    let vm = test.vm(7);
    let cred = Credentials::new(7, 7, 1);
    let server = &mut test.server;
    let range = ForeignRange { vm, first: 10, last: 19, node: "beta".to_owned() };
    server.node.set_foreign(vec![range].into(), true, |_| true).unwrap();
    let member = crate::tables::Member { pid: NO_PROCESS, tid: None, started: 0 };
    let id = MemberId::new(vm, Address::new(1, 10));
    server.node.bind_stand_in(id, member, &cred).unwrap();
    server.node.begin_end(vm, &cred).unwrap();
    server.end_members(vm, None);
    assert!(server.node.vm(vm).is_err(), "it has ended");
    assert!(!server.sources.is_timer_set(Timer::VmGrace(vm)));
}

#[test]
fn no_member_of_a_running_vm_is_killed() {
    let mut test = TestServer::new("running");
    let [member] = test.members();
    // An unwatched process would be tried again later.
    test.server.kill_members(member.id.vm);
    assert!(!test.server.sources.is_timer_set(Timer::VmGrace(member.id.vm)));
}

#[test]
fn requests_for_copies_that_were_given_up_use_no_quota() {
    let mut test = TestServer::new("copies");
    let [requester, party] = linked(&mut test);
    let peer = party.address();
    let server = &mut test.server;
    let request = Request::CopyGate { peer, surely: true, bounce_buffer: true };
    let ready = Request::CopyGateReady { peer: requester.address(), address: 0, probe: [0; 2] };
    let gate = |bounce_buffer| DaemonEvent::CopyGate { peer: requester.address(), bounce_buffer };
    let mut events = Vec::new();
    for _ in 0..20 {
        server.serve(requester.token, request.clone());
        let deferred = server.connections.get(requester.token).unwrap().deferred;
        assert_eq!(deferred, Some(Deferred::CopyGate(party.id)));
        events.extend(party.events());
    }
    assert_eq!(events, [gate(true)]);
    // An answer that comes too late leaves the buffer for the next request.
    server.serve(requester.token, Request::VmList);
    server.serve(party.token, ready.clone());
    server.serve(requester.token, request);
    assert_eq!(party.events(), [gate(false)]);
    server.serve(party.token, ready);
    assert_eq!(server.links.bounce_buffers(requester.id, party.id), 1);
    assert!(server.links.undelivered_buffer(requester.id, party.id).is_none());
    let codes = refusals(requester.frames());
    assert!(codes.iter().all(|code| *code == Code::TimedOut.number()), "{codes:?}");
}

#[test]
fn a_refused_renewal_ends_the_link_at_its_peer() {
    let mut test = TestServer::new("refused-renewal");
    let [one, other] = linked(&mut test);
    isolate(&mut test.server, one.id);
    test.server.serve(one.token, Request::Renew(other.address()));
    assert_eq!(refusals(one.frames()).len(), 1);
    assert_eq!(other.events(), [DaemonEvent::Died(one.address())]);
    assert!(!test.server.links.is_held(other.id, one.id));
}

#[test]
fn a_renewal_without_memory_keeps_the_link() {
    let mut test = TestServer::new("poor-renewal");
    let [one, other] = linked(&mut test);
    let server = &mut test.server;
    server.accounts = Accounts::new(None, 8);
    let charges: Vec<_> =
        std::iter::from_fn(|| server.accounts.charge(7, &[(Resource::Descriptors, 1)]).ok())
            .collect();
    server.serve(one.token, Request::Renew(other.address()));
    assert_eq!(refusals(one.frames()), [Code::NoMem.number()]);
    assert!(server.node.is_linked(one.id, other.id.address), "its peer holds it");
    drop(charges);
    server.close(one.token);
    assert_eq!(other.events(), [DaemonEvent::Died(one.address())]);
}

#[test]
fn a_newcomer_of_an_area_hears_of_the_end_of_a_member_that_never_joined() {
    let mut test = TestServer::new("never-joined");
    let [owner, expected, newcomer] = test.members();
    let server = &mut test.server;
    let params = AreaParams {
        limit_bytes: 1 << 20,
        audience: AreaAudience::Vm,
        owner_writes: false,
        huge: false,
        low: false,
    };
    server.serve(owner.token, Request::Area(AreaRequest::Create(params)));
    let area = server.node.areas(owner.id.vm).next().unwrap().id;
    let address = expected.address();
    for request in [AreaRequest::Mapped(area), AreaRequest::Index { area, address }] {
        server.serve(owner.token, Request::Area(request));
    }
    server.close(expected.token);
    server.serve(newcomer.token, Request::Area(AreaRequest::Attach(area)));
    let of_expected = [
        AreaEvent::Expected { area, index: 1, address },
        AreaEvent::Left { area, index: 1, died: true },
    ];
    let events = newcomer.events();
    let at = events.len() - 2;
    assert_eq!(events[at..], of_expected.map(DaemonEvent::Area));
}
