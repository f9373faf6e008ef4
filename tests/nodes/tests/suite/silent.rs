//! Silent stand-ins, with the test in place of the proxy: nobody rings, and marks and slots show
//! everything.

use m3ipc::nodes::{
    CopyEvent, CopyWish, ForeignRange, LocalCopyStep, Posted, PostedEnd, Proxy, StandIn,
    StandInEvent,
};
use m3ipc::{Address, Audience, Endpoint, Message, Rights, Source, Vm, VmConfig};
use m3ipc_test_fixture::{NodeFixture, until, watchdog};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const VM: i32 = 3;
const REMOTE: Address = Address(20);
const CLIENT: i32 = 1;

/// A node whose proxy is the test, with a stand-in and a member.
struct SilentNode {
    _fixture: NodeFixture,
    _proxy: Proxy,
    vm: Vm,
    stand_in: StandIn,
    member: Endpoint,
}

impl SilentNode {
    fn new(name: &str) -> Self {
        let fixture = NodeFixture::new(name);
        let vm = fixture.node().vm_init(&VmConfig::new("shop").id(VM)).expect("a fresh VM");
        let slot = REMOTE.0;
        let range = ForeignRange { vm: VM, first: slot, last: slot, node: "beta".to_owned() };
        let mut proxy = Proxy::register(fixture.directory(), vec![range]).expect("the only proxy");
        proxy.set_reachable("beta", true).expect("the daemon runs");
        let stand_in = proxy.stand_in(VM, REMOTE).expect("a slot of the other node");
        let member = vm.bind(CLIENT).expect("the slot is free");
        Self { _fixture: fixture, _proxy: proxy, vm, stand_in, member }
    }

    /// Whether the descriptor of the stand-in is readable.
    fn is_reported(&mut self) -> bool {
        let descriptor = self.stand_in.fd().expect("it has one");
        let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())).expect("a poll") > 0
    }

    /// Polls until nothing is found and the descriptor reports nothing.
    fn settle(&mut self) {
        until("all is quiet", || {
            while !self.stand_in.poll().expect("it is bound").is_empty() {}
            !self.is_reported()
        });
    }

    /// The next message, by marks alone.
    fn marked(&mut self) -> (Address, i32) {
        until("a mark", || self.stand_in.has_news());
        let found = self.stand_in.poll_marked().expect("it is bound");
        let [StandInEvent::Message { from, message, .. }] = &found[..] else { panic!("{found:?}") };
        (*from, message.m_type)
    }
}

#[test]
fn a_silent_stand_in_finds_messages_by_their_marks() {
    watchdog(60);
    let mut node = SilentNode::new("silent-marks");
    let others = (2..5).map(|slot| node.vm.bind_additional(Some(slot)).expect("a free slot"));
    let mut senders: Vec<Endpoint> = others.collect();
    // The first messages make the links.
    for sender in &mut senders {
        let pending = sender.begin_send(REMOTE, &Message::new(1), Vec::new()).expect("it lives");
        until("it comes", || !node.stand_in.poll().expect("it is bound").is_empty());
        node.stand_in.taken(sender.address());
        assert_eq!(sender.withdraw(&pending), m3ipc::Withdrawal::Taken);
    }
    node.settle();
    node.stand_in.set_silent(true);
    // The first poll ends the rings.
    assert!(node.stand_in.poll().expect("it is bound").is_empty());
    for round in 0..50 {
        assert!(!node.stand_in.has_news());
        let sender = &mut senders[round % 3];
        let message = Message::new(7 + i32::try_from(round).expect("small"));
        let pending = sender.begin_send(REMOTE, &message, Vec::new()).expect("it lives");
        let from = sender.address();
        assert_eq!(node.marked(), (from, message.m_type));
        node.stand_in.taken(from);
        assert_eq!(senders[round % 3].withdraw(&pending), m3ipc::Withdrawal::Taken);
    }
    // Loud again: what comes now is reported.
    node.stand_in.set_silent(false);
    node.settle();
    let _pending = senders[0].begin_send(REMOTE, &Message::new(3), Vec::new()).expect("it lives");
    assert!(node.is_reported());
    let found = node.stand_in.poll().expect("it is bound");
    assert!(matches!(found[..], [StandInEvent::Message { .. }]), "{found:?}");
}

#[test]
fn a_message_before_the_rings_are_back_is_found_by_the_poll_that_makes_them() {
    watchdog(60);
    let mut node = SilentNode::new("silent-loud");
    for _ in 0..20 {
        node.stand_in.set_silent(true);
        while !node.stand_in.poll().expect("it is bound").is_empty() {}
        let from = node.member.address();
        let pending = node.member.begin_send(REMOTE, &Message::new(1), Vec::new());
        let pending = pending.expect("it lives");
        node.stand_in.set_silent(false);
        until("it comes", || {
            let found = node.stand_in.poll().expect("it is bound");
            found.iter().any(|it| matches!(it, StandInEvent::Message { .. }))
        });
        node.stand_in.taken(from);
        assert_eq!(node.member.withdraw(&pending), m3ipc::Withdrawal::Taken);
    }
}

#[test]
fn a_posted_request_moves_at_its_take_and_at_its_answer() {
    watchdog(60);
    let mut node = SilentNode::new("silent-posted");
    let to = node.member.address();
    for silent in [false, true] {
        node.stand_in.set_silent(silent);
        let posted = node.stand_in.post(to, true, &Message::new(7), Vec::new());
        let mut posted: Posted = posted.expect("the member lives");
        until("the link is made", || {
            assert_eq!(node.stand_in.poll_posted(&mut posted), None);
            !node.stand_in.needs_rings()
        });
        assert!(!node.stand_in.has_moved(&posted, false));
        let request = node.member.receive(Source::Any).expect("a request");
        assert!(node.stand_in.has_moved(&posted, false), "it was taken");
        assert!(!node.stand_in.has_moved(&posted, true), "and that is known");
        node.member.reply(request.source, &Message::new(8)).expect("it is awaited");
        assert!(node.stand_in.has_moved(&posted, true));
        let end = node.stand_in.poll_posted(&mut posted);
        assert!(matches!(&end, Some(PostedEnd::Answered(it, _)) if it.m_type == 8), "{end:?}");
        // A message without an answer moves once, at its take.
        let sent = node.stand_in.post(to, false, &Message::new(9), Vec::new());
        let mut sent = sent.expect("the member lives");
        assert!(!node.stand_in.has_moved(&sent, false));
        node.member.receive(Source::Any).expect("a message");
        assert!(node.stand_in.has_moved(&sent, false));
        assert_eq!(node.stand_in.poll_posted(&mut sent), Some(PostedEnd::Taken));
    }
}

#[test]
fn a_copy_with_a_silent_stand_in_goes_on_without_a_ring() {
    watchdog(60);
    const BYTES: usize = (1 << 20) + 5;
    let mut node = SilentNode::new("silent-copy");
    // The first copy makes the link and opens the gate, which takes rings.
    let copying = |mut member: Endpoint, first: u8, bytes: usize| {
        std::thread::spawn(move || {
            let sent: Vec<u8> =
                (0..bytes).map(|at| first.wrapping_add(at.to_le_bytes()[0])).collect();
            member.copy_to(REMOTE, 4096, &sent).expect("the stand-in takes it");
            (member, sent)
        })
    };
    let member = node.member;
    let first = copying(member, 0, 10);
    let came = take_copy(&mut node.stand_in, |stand_in| {
        stand_in.poll().expect("it is bound");
    });
    let (member, sent) = first.join().expect("the copy ends");
    assert!(came == sent);
    node.stand_in.set_silent(true);
    assert!(node.stand_in.poll().expect("it is bound").is_empty());
    assert!(!node.stand_in.has_copy_command() && !node.stand_in.needs_rings());
    let second = copying(member, 7, BYTES);
    let came = take_copy(&mut node.stand_in, |_looks_at_marks_alone| {});
    let (member, sent) = second.join().expect("the copy ends");
    assert!(came == sent);
    node.member = member;
    assert!(!node.is_reported(), "a peer has rung");
}

/// Does the part of the other node in a write of a local requester.
fn take_copy(stand_in: &mut StandIn, mut look: impl FnMut(&mut StandIn)) -> Vec<u8> {
    let mut began = None;
    until("the command", || {
        look(stand_in);
        if stand_in.has_copy_command()
            && let [CopyEvent::Begun(from, wish)] = stand_in.poll_copies()[..]
        {
            began = Some((from, wish));
        }
        began.is_some()
    });
    let (from, wish) = began.expect("a command");
    let mut came = Vec::new();
    while came.len() < usize::try_from(wish.bytes).expect("small") {
        until("a chunk", || stand_in.next_copy_chunk(from).expect("it keeps the rules").is_some());
        came.extend(stand_in.take_copy_chunk(from).expect("it is there"));
    }
    stand_in.finish_copy(from, 0, wish.bytes);
    came
}

#[test]
fn a_silent_stand_in_copies_with_a_party_without_a_ring() {
    watchdog(60);
    const BYTES: usize = (1 << 20) + 5;
    let SilentNode { _fixture, _proxy, vm: _vm, mut stand_in, mut member } =
        SilentNode::new("silent-party");
    let party = member.address();
    let memory = vec![1; BYTES];
    let grant = member.grant(Audience::Vm, memory, Rights::Both).expect("room");
    let space = grant.to_u64();
    let ends = std::thread::spawn(move || {
        // It serves the copy meanwhile.
        let request = member.receive(Source::Any).expect("the last message");
        (request.m_type, member.revoke(grant).expect("it is granted").expect("it owned it"))
    });
    let wish = CopyWish { is_write: true, space, place: 0, bytes: BYTES as u64 };
    let mut begun = None;
    until("the party lets the stand-in in", || {
        stand_in.poll().expect("it is bound");
        let copy = begun.take().or_else(|| stand_in.begin_local_copy(party, wish).ok());
        let Some(mut copy) = copy else { return false };
        // It refuses a copy until it waits for a message.
        let is_refused = matches!(stand_in.step_local_copy(&mut copy), LocalCopyStep::Ended(..));
        let is_let_in = !is_refused && !copy.needs_rings();
        begun = (!is_refused).then_some(copy);
        is_let_in
    });
    let mut copy = begun.expect("it has begun");
    stand_in.set_silent(true);
    while !stand_in.poll().expect("it is bound").is_empty() {}
    let mut sent = 0;
    let end = loop {
        until("the next step", || stand_in.has_local_copy_moved(&copy).is_some());
        match stand_in.step_local_copy(&mut copy) {
            LocalCopyStep::Wants(bytes) => {
                // In parts, as pieces come.
                let parts = [vec![7; bytes / 3], vec![7; bytes - bytes / 3]];
                stand_in.put_local_chunk(&mut copy, parts.iter());
                sent += bytes;
            }
            LocalCopyStep::Ended(code, bytes) => break (code, bytes),
            LocalCopyStep::Waits | LocalCopyStep::Has(_) => {}
        }
    };
    assert_eq!((end, sent), ((0, BYTES as u64), BYTES));
    stand_in.set_silent(false);
    let mut posted = stand_in.post(party, false, &Message::new(5), Vec::new()).expect("room");
    until("the last message is taken", || {
        stand_in.poll().expect("it is bound");
        stand_in.poll_posted(&mut posted).is_some()
    });
    let (m_type, memory) = ends.join().expect("the member ends");
    assert_eq!(m_type, 5);
    assert!(memory == vec![7; BYTES]);
}
