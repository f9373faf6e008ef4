//! Scripts of wrong frames: any bytes, requests with any numbers, and damaged requests.

use m3ipc_wire::{
    AwaitedEvent, BackedSlot, BindKind, ForeignRange, NodeParams, NodesRequest, OtherSlots,
    Privileges, RecalledPeer, Request, SlotPlace, TraceRequest, VmLife, VmParams, decode, encode,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

/// The VM of the pair that keeps the rules; scripts use lower numbers.
pub const PAIR_VM: i32 = 31;

/// What one connection sends.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its frames.
    pub frames: Vec<Vec<u8>>,
    /// Whether each comes with a descriptor.
    pub with_fds: bool,
}

/// Random scripts; most say hello first, and some bind.
pub fn scripts() -> impl Strategy<Value = Script> {
    let frame =
        prop_oneof![2 => any_bytes(), 6 => requests().prop_map(|it| encode(&it)), 3 => mutated()];
    let version = prop_oneof![8 => Just(m3ipc_wire::VERSION), 1 => any::<u32>()];
    (version, vec(frame, 1..16), 0..20_u8, prop::option::weighted(0.5, 0..8)).prop_map(
        |(version, rest, roll, bound_in)| {
            let mut frames = Vec::new();
            if roll > 1 {
                frames.push(encode(&Request::Hello { version }));
            }
            if let Some(vm) = bound_in {
                let params = VmParams { id: Some(vm), ..vm_params(format!("v{vm}"), 0o777) };
                frames.push(encode(&Request::VmInit(params)));
                frames.push(encode(&Request::Bind {
                    vm,
                    slot: None,
                    kind: BindKind::Process,
                    nonce: 1,
                }));
                if roll > 5 {
                    frames.push(encode(&Request::Mapped));
                }
            }
            frames.extend(rest);
            Script { frames, with_fds: roll == 19 }
        },
    )
}

fn vm_params(name: String, mode: u16) -> VmParams {
    VmParams {
        id: None,
        name,
        procs: None,
        tasks: None,
        mode,
        gid: None,
        grace_ms: 600_000,
        copy_granted: false,
        domains: [("front".to_owned(), 1), (String::new(), u32::from(mode))]
            .into_iter()
            .take(usize::from(mode & 3))
            .collect(),
        domain_users: [("front".to_owned(), u32::from(mode))]
            .into_iter()
            .take(usize::from(mode >> 2 & 1))
            .collect(),
        life: [VmLife::UntilEnded, VmLife::Creator, VmLife::Members][usize::from(mode % 3)],
    }
}

/// Bytes of any length, a few longer than a frame may be.
pub fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..24),
        4 => (0..40_u8, vec(any::<u8>(), 0..16)).prop_map(|(tag, rest)| [vec![tag], rest].concat()),
        1 => (any::<u8>(), 16_000..70_000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

/// Requests with a bit flipped, cut short, made longer, or glued to another.
pub fn mutated() -> impl Strategy<Value = Vec<u8>> {
    (requests(), any::<prop::sample::Index>(), 0..8_u32, 0..4_u8).prop_map(
        |(request, at, bit, how)| {
            let mut bytes = encode(&request);
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] ^= 1 << bit,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, 0xff),
                _ => bytes.extend(bytes.clone()),
            }
            bytes
        },
    )
}

fn vms() -> impl Strategy<Value = i32> {
    prop_oneof![6 => 0..8, 1 => Just(-1), 1 => Just(i32::MAX), 1 => Just(i32::MIN), 1 => Just(32)]
}

fn addresses() -> impl Strategy<Value = i32> {
    prop_oneof![
        4 => -40..260,
        2 => any::<i32>(),
        2 => (0..4, 29..40).prop_map(|(life, slot)| life << 16 | slot),
    ]
}

/// Numbers that no process has.
fn pids() -> impl Strategy<Value = i32> {
    prop_oneof![Just(0), Just(-1), Just(i32::MAX), Just(i32::MIN), Just(1 << 30)]
}

fn slots() -> impl Strategy<Value = Option<i32>> {
    prop::option::of(prop_oneof![-40..300, any::<i32>()])
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["", "a", "b", "cc", "v1"]).prop_map(str::to_owned),
        1 => "\\PC{0,9}",
        1 => (0..3000_usize).prop_map(|length| "n".repeat(length)),
    ]
}

fn privileges() -> impl Strategy<Value = Privileges> {
    let slots = || prop::option::of(vec(-40..300, 0..30));
    (any::<u32>(), slots(), slots(), any::<i32>())
        .prop_map(|(traps, ipc_to, ipc_from, level)| Privileges { traps, ipc_to, ipc_from, level })
}

fn waits() -> impl Strategy<Value = AwaitedEvent> {
    prop_oneof![
        Just(AwaitedEvent::OwnBind),
        addresses().prop_map(AwaitedEvent::Bind),
        addresses().prop_map(AwaitedEvent::Unbind),
        names().prop_map(AwaitedEvent::Name),
        (backed(), any::<bool>())
            .prop_map(|(slot, is_additional)| AwaitedEvent::Place { slot, is_additional }),
    ]
}

fn backed() -> impl Strategy<Value = BackedSlot> {
    (vms(), slots()).prop_map(|(vm, slot)| BackedSlot { vm, slot: slot.unwrap_or(1) })
}

/// The requests of a proxy.
fn nodes() -> impl Strategy<Value = Request> {
    let range = (vms(), slots(), slots()).prop_map(|(vm, first, last)| ForeignRange {
        vm,
        first: first.unwrap_or(0),
        last: last.unwrap_or(i32::MAX),
        node: "other".to_owned(),
    });
    prop_oneof![
        (vec(range, 0..3), vec(backed(), 0..3))
            .prop_map(|(foreign, backed)| NodesRequest::Register(OtherSlots { foreign, backed })),
        (backed(), prop::option::of(addresses()), 0..3).prop_map(|(slot, address, kind)| {
            let place = match kind {
                0 => SlotPlace::Here(address),
                1 => SlotPlace::There("other".to_owned()),
                _ => SlotPlace::Back("other".to_owned()),
            };
            NodesRequest::Place { slot, place }
        }),
        any::<bool>().prop_map(|reachable| {
            NodesRequest::Reachable { node: "other".to_owned(), reachable }
        }),
        (vms(), addresses()).prop_map(|(vm, address)| NodesRequest::StandIn { vm, address }),
        Just(NodesRequest::Died),
    ]
    .prop_map(Request::Nodes)
}

/// Requests of every kind but the end of the node, with valid and invalid numbers.
pub fn requests() -> impl Strategy<Value = Request> {
    let limit = || prop::option::of(any::<i32>());
    let node = (limit(), limit(), limit(), limit(), limit());
    let vm =
        (prop::option::of(vms()), names(), any::<u16>(), limit(), prop::option::of(any::<u32>()));
    prop_oneof![
        any::<u32>().prop_map(|version| Request::Hello { version }),
        node.prop_map(|(nodeid, vms, nodes, procs, tasks)| Request::NodeInit(NodeParams {
            nodeid,
            vms,
            nodes,
            procs,
            tasks,
            ..NodeParams::default()
        })),
        Just(Request::NodeInfo),
        vm.prop_map(|(id, name, mode, procs, gid)| {
            let opens = mode & 0o1000 != 0;
            let params = VmParams { id, procs, gid, ..vm_params(name, mode & 0o1777) };
            if opens { Request::VmOpen(params) } else { Request::VmInit(params) }
        }),
        vms().prop_map(Request::VmEnd),
        vms().prop_map(Request::VmInfo),
        prop_oneof![names().prop_map(Request::VmFind), Just(Request::VmList)],
        (vms(), slots()).prop_map(|(vm, slot)| Request::Bind {
            vm,
            slot,
            kind: BindKind::Process,
            nonce: 1
        }),
        (vms(), slots(), any::<i32>()).prop_map(|(vm, slot, tid)| Request::Bind {
            vm,
            slot,
            kind: BindKind::Thread(tid),
            nonce: 1,
        }),
        (vms(), slots()).prop_map(|(vm, slot)| Request::Bind {
            vm,
            slot,
            kind: BindKind::Additional,
            nonce: 1,
        }),
        prop_oneof![
            Just(Request::Mapped),
            Just(Request::Claim),
            Just(Request::Left),
            Just(Request::OpenDoorbell),
            nodes(),
            Just(Request::Trace(TraceRequest::End)),
            Just(Request::Trace(TraceRequest::Mapped)),
            (vms(), 0..200_u32, any::<bool>()).prop_map(|(vm, slots, sharp)| Request::Trace(
                TraceRequest::Begin { vm, slots, sharp }
            )),
        ],
        (vms(), pids(), -40..300).prop_map(|(vm, pid, slot)| Request::BindOther { vm, pid, slot }),
        (vms(), addresses()).prop_map(|(vm, address)| Request::Unbind { vm, address }),
        addresses().prop_map(Request::Contact),
        prop_oneof![
            addresses().prop_map(Request::Renew),
            addresses().prop_map(Request::ContactNow)
        ],
        (addresses(), any::<u64>())
            .prop_map(|(destination, bits)| Request::Notify { destination, bits }),
        any::<i32>().prop_map(Request::GetEndpoint),
        waits().prop_map(Request::Await),
        any::<u64>().prop_map(Request::Forget),
        (names(), any::<Option<u64>>()).prop_map(|(name, key)| Request::NameAttach { name, key }),
        (names(), any::<Option<u64>>()).prop_map(|(name, key)| Request::NameReserve { name, key }),
        names().prop_map(Request::NameLocate),
        (vms(), addresses()).prop_map(|(vm, address)| Request::Wakeup { vm, address }),
        (vms(), addresses(), privileges()).prop_map(|(vm, address, privileges)| {
            Request::SetPrivileges { vm, address, privileges }
        }),
        (vms(), addresses()).prop_map(|(vm, address)| Request::GetPrivileges { vm, address }),
        (vms(), addresses(), addresses(), any::<u64>()).prop_map(
            |(vm, source, destination, bits)| Request::NotifyFor { vm, source, destination, bits }
        ),
        (vms(), any::<i32>()).prop_map(|(vm, from)| Request::Endpoints { vm, from }),
        vec((addresses(), any::<u64>(), any::<bool>()), 0..60).prop_map(recall),
        prop_oneof![addresses().prop_map(Request::DoorbellSender), Just(Request::IsDeadlock)],
        (vms(), addresses(), prop::option::of(any::<i32>()))
            .prop_map(|(vm, address, tid)| Request::Reattach { vm, address, tid }),
    ]
}

/// Whether a frame may be sent. The user of the test may end the node, and may change the VM of the
/// pair and other processes; no script should do that.
pub fn may_be_said(frame: &[u8]) -> bool {
    match decode::<Request>(frame) {
        Ok(Request::NodeEnd) => false,
        Ok(Request::BindOther { pid, .. }) => !(1..1 << 30).contains(&pid),
        Ok(Request::VmEnd(vm)) => vm != PAIR_VM,
        Ok(
            Request::Unbind { vm, .. }
            | Request::Wakeup { vm, .. }
            | Request::NotifyFor { vm, .. }
            | Request::SetPrivileges { vm, .. }
            | Request::Bind { vm, .. }
            | Request::Reattach { vm, .. },
        ) => vm != PAIR_VM,
        // Other processes of the user could be bound in this VM.
        Ok(Request::VmInit(params) | Request::VmOpen(params)) => params.id != Some(PAIR_VM),
        _ => true,
    }
}

/// The kept scripts: a file each, a frame per line in hexadecimal. A first line `fds` adds
/// descriptors.
pub fn corpus() -> Vec<(String, Script)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/frames");
    let mut kept: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a file").path())
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("text");
            let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
            let with_fds = lines.next_if_eq(&"fds").is_some();
            let frames = lines.map(bytes_of).collect();
            (
                path.file_name().expect("a name").to_string_lossy().into_owned(),
                Script { frames, with_fds },
            )
        })
        .collect();
    kept.sort_by(|one, other| one.0.cmp(&other.0));
    kept
}

/// Hexadecimal digits; `xx*N` repeats a byte.
fn bytes_of(line: &str) -> Vec<u8> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).expect("hexadecimal");
    line.split_whitespace()
        .flat_map(|word| match word.split_once('*') {
            Some((digits, times)) => vec![byte(digits); times.parse().expect("a number")],
            None => (0..word.len() / 2).map(|at| byte(&word[2 * at..2 * at + 2])).collect(),
        })
        .collect()
}

fn recall(peers: Vec<(i32, u64, bool)>) -> Request {
    let recalled = |(address, life, was_stand_in)| RecalledPeer { address, life, was_stand_in };
    Request::Recall(peers.into_iter().map(recalled).collect())
}
