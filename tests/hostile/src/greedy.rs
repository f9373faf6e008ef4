//! The greedy member: it takes as much of one resource as the daemon gives, and keeps it.
//!
//! It says how much it got and the refusal, and ends with its input.

mod floods;
mod victims;

use crate::round::vm_id;
use m3ipc_link::{ControlPage, WaitCall};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_wire::{
    AreaAudience, AreaParams, AreaReply, AreaRequest, AwaitedEvent, BindKind, Refusal, Reply,
    Request, SockReply, SockRequest, VmParams,
};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

/// More than any quota of these attacks allows.
const ENOUGH: usize = 20_000;
/// Requests of a flood at one member: more than its queue ever held.
const FLOOD: usize = 70_000;
/// The wait for an answer that a quota may hold back.
const PATIENCE_NS: u64 = 500_000_000;

/// The attacker's connections, and the VM.
struct Greedy<'a> {
    directory: &'a Path,
    vm: i32,
    /// Everything that it took: it keeps all.
    kept: Vec<RawMember>,
    controls: Vec<ControlPage>,
    addresses: Vec<i32>,
}

/// Makes one attack, says its result, and keeps what it got until its input ends.
pub fn run(directory: &str, vm: &str, attack: &str, arguments: &[&str]) {
    let directory = Path::new(directory);
    let _ = m3ipc_sys::raise_fd_limit();
    let mut greedy = Greedy::new(directory, vm_id(directory, vm));
    println!("{}", make(&mut greedy, attack, arguments));
    let _ = std::io::stdin().lines().count();
}

/// Makes one attack again and again until its input ends. Its first result goes to the
/// standard error.
///
/// What an attack took goes back before the next one begins. A refusal that the attack did not
/// expect ends that attack alone.
pub fn flood(directory: &str, vm: &str, attack: &str, arguments: &[&str]) {
    let directory = Path::new(directory);
    let _ = m3ipc_sys::raise_fd_limit();
    let vm = vm_id(directory, vm);
    std::panic::set_hook(Box::new(|_panic| {}));
    println!("begun");
    std::thread::spawn(|| {
        let _ = std::io::stdin().lines().count();
        std::process::exit(0);
    });
    for round in 0.. {
        let once = || {
            let mut greedy = Greedy::new(directory, vm);
            make(&mut greedy, attack, arguments)
        };
        let result = std::panic::catch_unwind(once);
        if round == 0 {
            eprintln!("{attack}: {}", result.as_deref().unwrap_or("the daemon refused it"));
        }
    }
}

/// Makes one attack; its result.
fn make(greedy: &mut Greedy<'_>, attack: &str, arguments: &[&str]) -> String {
    let number = |at: usize| arguments.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
    match attack {
        "copies" => greedy.ask_for_copies(number(0)),
        "renewals" => greedy.renew(number(0)),
        "connections" => greedy.connect(),
        "vms" => greedy.create_vms(),
        "slots" => greedy.take_slots(),
        "tickets" => greedy.wait_for_many(),
        "areas" => greedy.create_areas(),
        "indexes" => greedy.join_and_leave(u32::try_from(number(0)).unwrap_or(0)),
        "unread" => greedy.read_nothing(),
        "domain" => greedy.join_domain(u32::try_from(number(0)).unwrap_or(0)),
        "domains" => greedy.join_domains(u32::try_from(number(0)).unwrap_or(0)),
        "circle" => greedy.claim_a_circle(),
        "malformed" => greedy.send_garbage(),
        "extents" => greedy.fill_an_area(),
        "pulse" => greedy.wake_the_watcher(),
        "frames" => greedy.ask_without_end(),
        "binds" => greedy.bind_and_leave(),
        "silent" => greedy.renew_a_silent_member(),
        "held" => greedy.hold_by_copies(number(0)),
        "poisoned" => greedy.notify_over_a_poisoned_link(number(0)),
        _ => "an unknown attack".to_owned(),
    }
}

/// The refusal in an answer.
fn refusal(answer: Option<Reply>) -> Option<Refusal> {
    match answer {
        Some(Reply::Refused(refusal)) => Some(refusal),
        _ => None,
    }
}

/// Repeats a request until it is refused: the number of successes and the refusal.
fn until_refused(mut once: impl FnMut(usize) -> Option<Reply>) -> String {
    for count in 0..ENOUGH {
        let answer = once(count);
        if let Some(Refusal { code, why }) = refusal(answer) {
            return format!("{count} {code} {why}");
        }
    }
    format!("{ENOUGH} 0 no refusal")
}

impl<'a> Greedy<'a> {
    fn new(directory: &'a Path, vm: i32) -> Self {
        let (kept, controls, addresses) = (Vec::new(), Vec::new(), Vec::new());
        Self { directory, vm, kept, controls, addresses }
    }

    fn connection(&self) -> RawMember {
        RawMember::greeted(self.directory).expect("the node takes a connection")
    }

    /// One more endpoint of this process; the refusal if there is one.
    fn bind(&mut self) -> Option<Reply> {
        let mut raw = self.connection();
        let kind = if self.kept.is_empty() { BindKind::Process } else { BindKind::Additional };
        let (reply, fds) =
            raw.request(&Request::Bind { vm: self.vm, slot: None, kind, nonce: 1 })?;
        if let Reply::Bound { address, .. } = reply {
            self.addresses.push(address);
            self.controls.extend(fds.first().and_then(|fd| ControlPage::map(fd).ok()));
            raw.request(&Request::Mapped)?;
        }
        self.kept.push(raw);
        Some(reply)
    }

    fn first(&mut self) -> &mut RawMember {
        self.kept.first_mut().expect("it is bound")
    }

    fn ask_for_copies(&mut self, victim: i32) -> String {
        self.bind();
        let raw = self.first();
        let _page = raw.contact(victim).expect("a link with the victim");
        let gate = Request::CopyGate { peer: victim, surely: true, bounce_buffer: false };
        // Each request gives up the former one, which the daemon then refuses.
        assert!(raw.send_bytes(&m3ipc_wire::encode(&gate), &[]));
        let refused = (0..FLOOD).filter(|_| raw.request(&gate).is_some()).count();
        format!("{refused}")
    }

    fn renew(&mut self, victim: i32) -> String {
        self.bind();
        let raw = self.first();
        let _page = raw.contact(victim).expect("a link with the victim");
        let renewed = (0..5_000).filter(|_| raw.request(&Request::Renew(victim)).is_some()).count();
        format!("{renewed}")
    }

    fn connect(&mut self) -> String {
        for count in 0..ENOUGH {
            let mut raw = RawMember::connect(self.directory).expect("the listener lives");
            let hello = Request::Hello { version: m3ipc_wire::VERSION };
            // A refused connection may be closed before the greeting leaves.
            let answer = raw.request(&hello).or_else(|| raw.answer());
            match answer.map(|(reply, _)| reply) {
                Some(Reply::Welcome { .. }) => self.kept.push(raw),
                Some(Reply::Refused(Refusal { code, why })) => {
                    return format!("{count} {code} {why}");
                }
                other => return format!("{count} 0 {other:?}"),
            }
        }
        "no refusal".to_owned()
    }

    fn create_vms(&mut self) -> String {
        let mut raw = self.connection();
        until_refused(|count| {
            let params = VmParams {
                id: None,
                name: format!("greedy{count}"),
                procs: None,
                tasks: None,
                mode: 0o700,
                gid: None,
                grace_ms: 0,
                copy_granted: false,
                domains: BTreeMap::new(),
                domain_users: BTreeMap::new(),
                life: m3ipc_wire::VmLife::UntilEnded,
            };
            Some(raw.request(&Request::VmInit(params))?.0)
        })
    }

    fn take_slots(&mut self) -> String {
        until_refused(|_| self.bind())
    }

    fn wait_for_many(&mut self) -> String {
        let mut last = String::new();
        let mut all = 0;
        for _ in 0..20 {
            let mut raw = self.connection();
            last = until_refused(|_| {
                all += 1;
                Some(raw.request(&Request::Await(AwaitedEvent::OwnBind))?.0)
            });
            all -= 1;
            self.kept.push(raw);
        }
        let (_, refusal) = last.split_once(' ').unwrap_or_default();
        format!("{all} {refusal}")
    }

    fn create_areas(&mut self) -> String {
        self.bind();
        let raw = self.first();
        until_refused(|_| {
            let params = AreaParams {
                limit_bytes: 16 << 30,
                audience: AreaAudience::Vm,
                owner_writes: false,
                huge: false,
                low: false,
            };
            Some(raw.request(&Request::Area(AreaRequest::Create(params)))?.0)
        })
    }

    fn join_and_leave(&mut self, area: u32) -> String {
        self.bind();
        let raw = self.first();
        until_refused(|_| {
            let reply = raw.request(&Request::Area(AreaRequest::Attach(area)))?.0;
            if let Reply::Area(AreaReply::Joined { .. }) = reply {
                raw.request(&Request::Area(AreaRequest::Mapped(area)))?;
                raw.request(&Request::Area(AreaRequest::Detach(area)))?;
            }
            Some(reply)
        })
    }

    /// Links between the two halves of its endpoints. The second half never reads.
    fn read_nothing(&mut self) -> String {
        while refusal(self.bind()).is_none() {}
        let (requesters, silent) = self.addresses.split_at(self.addresses.len() / 2);
        let mut links = 0;
        for (raw, requester) in self.kept.iter_mut().zip(requesters) {
            for other in silent {
                let sent = raw.send_bytes(&m3ipc_wire::encode(&Request::Contact(*other)), &[]);
                let answered = sent
                    && m3ipc_sys::wait_readable(&[raw.as_fd()], PATIENCE_NS) == Ok(true)
                    && matches!(raw.answer(), Some((Reply::Contact(_), _)));
                if !answered {
                    return format!("{links} no answer for {requester}");
                }
                links += 1;
            }
        }
        format!("{links} all")
    }

    fn join_domain(&mut self, number: u32) -> String {
        let mut raw = self.connection();
        let join = SockRequest::Join { vm: self.vm, domain: Some(number) };
        match raw.request(&Request::Sock(join)).map(|(reply, _)| reply) {
            Some(Reply::Sock(SockReply::Failed { errno, why })) => format!("{errno} {why}"),
            Some(Reply::Sock(SockReply::Joined { .. })) => "joined".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Joins each domain from this number on.
    fn join_domains(&mut self, first: u32) -> String {
        until_refused(|count| {
            let mut raw = self.connection();
            let domain = first.checked_add(u32::try_from(count).ok()?);
            let reply = raw.request(&Request::Sock(SockRequest::Join { vm: self.vm, domain }))?.0;
            self.kept.push(raw);
            Some(reply)
        })
    }

    /// Each of its endpoints claims to wait for the next one; the first asks for a deadlock.
    fn claim_a_circle(&mut self) -> String {
        while refusal(self.bind()).is_none() {}
        let tid = m3ipc_sys::thread_id().cast_unsigned();
        let count = self.addresses.len();
        // A thread of this process that sleeps, as all of them claim.
        let (sender, receiver) = std::sync::mpsc::channel();
        let _sleeper = std::thread::spawn(move || {
            let _ = sender.send(m3ipc_sys::thread_id().cast_unsigned());
            loop {
                std::thread::park();
            }
        });
        let tid = receiver.recv().unwrap_or(tid);
        // The daemon begins anew while the thread has not reached its sleep.
        let own = m3ipc_sys::process_id();
        while !m3ipc_sys::thread_sleeps(own, tid.cast_signed()).unwrap_or(true) {
            std::thread::yield_now();
        }
        for at in 0..count {
            let next = m3ipc_abi::Address(self.addresses[(at + 1) % count]);
            self.controls[at].set_blocked(WaitCall::Send, next);
            // The first one is the youngest, whose question counts.
            self.controls[at].set_sleep_start(if at == 0 { 1_000_000 } else { 1_000 }, tid);
        }
        let raw = self.first();
        let mut answers = Vec::new();
        while answers.len() < ENOUGH && answers.last() != Some(&1) {
            match raw.request(&Request::IsDeadlock) {
                Some((Reply::Number(number), _)) => answers.push(number),
                _ => break,
            }
        }
        format!("{count} {answers:?}")
    }

    fn send_garbage(&mut self) -> String {
        let sent = (0..2_000).filter(|_| {
            let mut raw = self.connection();
            raw.send_bytes(&[0xff; 64], &[]) && raw.answer().is_none()
        });
        format!("{}", sent.count())
    }
}
