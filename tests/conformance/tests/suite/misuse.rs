//! Wrong uses of the Rust API, and the texts of their errors.
//!
//! `misuse.txt` has a line for each case: its name, the variant of the error, and the text with its
//! causes. After a change of a text, run this test with `M3_UPDATE=1` and read the difference. Each
//! text says what happened, why, and what to do next.
#![allow(clippy::unwrap_used)]

use m3ipc::test::TestNode;
use m3ipc::{
    Address, AreaConfig, Audience, BlockLifetime, Code, Delivered, Endpoint, Location, Message,
    Node, Privileges, ReceiveError, Rights, Source, Timeout, VmConfig, runtime,
};
use m3ipc_test_fixture::take_pending;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(20);

/// The texts of the cases so far.
#[derive(Default)]
struct Cases {
    lines: String,
    replaced: Vec<(String, &'static str)>,
}

impl Cases {
    /// Adds the error of a wrong use.
    fn add<T, E: Error>(&mut self, name: &str, result: Result<T, E>) {
        let Err(error) = result else { panic!("{name}: no error") };
        let variant = format!("{error:?}");
        let variant: String = variant.chars().take_while(|it| it.is_alphanumeric()).collect();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            write!(text, " <- {inner}").unwrap();
            cause = inner.source();
        }
        for (from, to) in &self.replaced {
            text = text.replace(from, to);
        }
        writeln!(self.lines, "{name}: {variant}: {text}").unwrap();
    }

    fn check(self, file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        if std::env::var_os("M3_UPDATE").is_some() {
            return std::fs::write(path, self.lines).unwrap();
        }
        let expected = std::fs::read_to_string(path).unwrap();
        for (found, expected) in self.lines.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "if the new text is right, set M3_UPDATE=1 and run again");
        }
        assert_eq!(self.lines.lines().count(), expected.lines().count(), "cases of {file}");
    }
}

#[test]
fn wrong_uses_of_the_rust_api_have_these_texts() {
    let node = m3ipc::test::node();
    let replaced = vec![
        (node.directory().display().to_string(), "DIRECTORY"),
        (format!("user {}", m3ipc_sys::user_id()), "user N"),
        (format!("process {}", std::process::id()), "process N"),
    ];
    let mut cases = Cases { replaced, ..Cases::default() };
    nodes(&mut cases, &node);
    vms(&mut cases, &node);
    let (mut server, mut client) = node.pair_without_link();
    binds(&mut cases, &node);
    messages(&mut cases, &node, &mut server, &mut client);
    names(&mut cases, &mut server, &mut client);
    copies(&mut cases, &mut server, &mut client);
    areas(&mut cases, &mut client);
    privileges(&mut cases, &node, &mut server, &mut client);
    ended(&mut cases, &node, server, client);
    cases.check("misuse.txt");
}

fn nodes(cases: &mut Cases, test: &TestNode) {
    cases.add("a node that does not run", Node::find("/nonexistent/node".as_ref()));
    cases.add("a directory that others can write", Node::find("/tmp".as_ref()));
    cases.add("a file as directory", Node::find("/etc/passwd".as_ref()));
    cases.add("a directory that cannot be made", runtime::make("/nonexistent/a".as_ref(), 0o700));
    cases.add("a file as a new directory", runtime::make("/etc/passwd".as_ref(), 0o700));
    let mut node = Node::find(test.directory()).unwrap();
    cases.add("no such VM", node.vm(31));
    cases.add("a VM id out of range", node.vm(99));
    cases.add("a negative VM id", node.vm(-1));
    cases.add("no such VM name", node.vm_named("nosuch"));
    cases.add("the end of a VM that is absent", node.vm_end(31));
    cases.add("endpoints of a VM that is absent", node.endpoints(31));
    cases.add("areas of a VM that is absent", node.areas(31));
    cases.add("the address of an unbound process", node.own_address());
    let vm = test.vm().id();
    cases.add("unbind of a free slot", node.unbind(vm, Address(77)));
    cases.add("unbind of a slot out of range", node.unbind(vm, Address(9_999)));
    cases.add("wakeup of a free slot", node.wakeup(vm, Address(77)));
    cases.add("privileges of a free slot", node.privileges(vm, Address(77)));
    cases.add("bind of process 1", node.bind_other(vm, 1, 40));
    cases.add("bind of no process", node.bind_other(vm, -5, 40));
    cases.add("bind of a process out of range", node.bind_other(vm, i32::MAX, 40));
}

fn vms(cases: &mut Cases, test: &TestNode) {
    let mut node = Node::find(test.directory()).unwrap();
    let mut init = |config: VmConfig| node.vm_init(&config);
    cases.add("a VM name in use", init(VmConfig::new("test")));
    cases.add("no VM name", init(VmConfig::new("")));
    cases.add("a VM name that is a number", init(VmConfig::new("12")));
    cases.add("a VM name with a slash", init(VmConfig::new("a/b")));
    cases.add("a long VM name", init(VmConfig::new("a name of 16 byt")));
    cases.add("a VM id in use", init(VmConfig::new("other").id(0)));
    cases.add("a VM id beyond the node", init(VmConfig::new("other").id(32)));
    cases.add("no process slot", init(VmConfig::new("other").procs(0)));
    cases.add("too many process slots", init(VmConfig::new("other").procs(9_999)));
    cases.add("too many task slots", init(VmConfig::new("other").tasks(99)));
    cases.add("a mode of more than nine bits", init(VmConfig::new("other").mode(0o7777)));
    cases.add("a domain that is a number", init(VmConfig::new("other").domain("5", 1)));
    let twice = VmConfig::new("other").domain("front", 1).domain("back", 1);
    cases.add("two domains of one number", init(twice));
}

fn binds(cases: &mut Cases, test: &TestNode) {
    let vm = test.vm();
    cases.add("a slot that is taken", vm.bind_additional(Some(1)));
    cases.add("a slot out of range", vm.bind_additional(Some(9_999)));
    cases.add("a task slot out of range", vm.bind_additional(Some(-99)));
    cases.add("a process that is bound already", vm.bind(9));
    cases.add("a process that is bound already, any slot", vm.bind_any());
}

fn messages(cases: &mut Cases, test: &TestNode, server: &mut Endpoint, client: &mut Endpoint) {
    let (message, to) = (Message::new(7), server.address());
    cases.add("send to itself", client.try_send(client.address(), &message));
    cases.add("send to ANY", client.try_send(m3ipc::ANY, &message));
    cases.add("send to NONE", client.try_send(m3ipc::NONE, &message));
    cases.add("send to a slot out of range", client.try_send(Address(9_999), &message));
    cases.add("send to another generation", client.try_send(Address(40), &message));
    cases.add("send to a free slot", client.try_send(Address(3), &message));
    cases.add("send without wait", client.try_send(to, &message));
    cases.add("send within a limit", client.send_bytes(to, 7, b"text", SHORT));
    cases.add("send to one that died", {
        let worker = test.vm().bind_additional(Some(3)).unwrap();
        let address = worker.address();
        drop(worker);
        client.try_send(address, &message)
    });
    cases.add("sendrec to one that died", client.sendrec(Address(3), &message));
    cases.add("sendrec within a limit", client.sendrec_bytes(to, 7, b"text", SHORT));
    cases.add("sendrec without wait", client.sendrec_bytes(to, 7, b"text", Timeout::NoWait));
    cases.add("notify one that died", client.notify(Address(3)));
    cases.add("receive without a message", server.try_receive(Source::Any));
    cases.add("receive within a limit", server.receive_bytes(Source::Any, SHORT));
    cases.add("receive from itself", server.try_receive(Source::From(to)));
    cases.add("receive from one that died", server.try_receive(Source::From(Address(3))));
    cases.add("receive from a slot out of range", server.try_receive(Source::From(Address(9_999))));
    let replied = server.reply(client.address(), &message);
    cases.add("reply to one that asked nothing", replied.and_then(Delivered::into_result));
    cases.add("reply to itself", server.reply(to, &message));
    cases.add("wakeup of one that does not receive", server.wakeup(client.address()));
    cases.add("a receive that a wakeup ends", client.receive(Source::Any));
    cases.add("wait for an endpoint", client.wait_bind(Address(77), SHORT));
    cases.add("wait for the caller itself", client.wait_bind(Address(9_999), LIMIT));
    cases.add("wait for the end of an endpoint", client.wait_unbind(to, SHORT));
    cases.add("unbind of one that died", client.unbind_other(Address(3)));
    let pending = client.begin_request(to, &message).unwrap();
    cases.add("a second request while one is pending", client.begin_request(to, &message));
    cases.add("a send while a request is pending", client.try_send(to, &message));
    drop(pending);
    lengths(cases, server, client);
}

/// Payloads of another length than the receiver expects.
fn lengths(cases: &mut Cases, server: &mut Endpoint, client: &mut Endpoint) {
    let (to, from) = (server.address(), client.address());
    std::thread::scope(|scope| {
        scope.spawn(|| client.send_bytes(to, 7, &[1; 500], LIMIT));
        cases.add("a payload for a receive of messages", server.receive(Source::From(from)));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| client.send_bytes(to, 7, &[1; 500], LIMIT));
        let received: Result<_, ReceiveError> = server.receive_record::<u64>(from, LIMIT);
        cases.add("a payload of another size than the record", received);
    });
}

fn names(cases: &mut Cases, server: &mut Endpoint, client: &mut Endpoint) {
    server.name_attach("stock").unwrap();
    cases.add("a name that is taken", client.name_attach("stock"));
    cases.add("no name", client.name_attach(""));
    cases.add("a long name", client.name_attach(&"x".repeat(64)));
    cases.add("a name that nobody has", client.name_locate("nosuch"));
    cases.add("a wait for a name", client.wait_name("nosuch", SHORT));
    cases.add("a wait for a long name", client.wait_name(&"x".repeat(64), LIMIT));
    cases.add("a process that is not bound", client.locate_process(1));
    cases.add("a watch of one that is absent", client.watch(Address(9_999)));
}

fn copies(cases: &mut Cases, server: &mut Endpoint, client: &mut Endpoint) {
    let to = client.address();
    cases.add("copy to one that does not wait", server.copy_to(to, 0x1000, b"text"));
    cases.add("copy to itself", server.copy_to(server.address(), 0x1000, b"text"));
    cases.add("copy to one that is absent", server.copy_to(Address(9_999), 0x1000, b"text"));
    let grant = client.grant(Audience::Vm, vec![0; 64], Rights::Read).unwrap();
    client.revoke(grant).unwrap();
    cases.add("a second revocation", client.revoke(grant));
    let here = server.address();
    let mut asked = client.begin_request(here, &Message::new(7)).unwrap();
    take_pending(server, client, &mut asked);
    cases.add("copy from a revoked grant", {
        server.copy_between(
            (to, Location::Granted(grant, 0)),
            (here, Location::At(0x1000)),
            4,
            LIMIT,
        )
    });
    drop(asked);
}

fn areas(cases: &mut Cases, client: &mut Endpoint) {
    cases.add("an area without bytes", client.create_area(&AreaConfig::vm(0)));
    cases.add("an area that is too large", client.create_area(&AreaConfig::vm(u64::MAX)));
    cases.add("an area that is absent", client.attach_area(9_999));
    let pair = AreaConfig::pair(1 << 20, Address(9_999));
    cases.add("a pair with one that is absent", client.create_area(&pair));
    let area = client.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    cases
        .add("a block larger than its area", client.allocate(&area, 1 << 21, BlockLifetime::Short));
}

fn privileges(cases: &mut Cases, test: &TestNode, server: &mut Endpoint, client: &mut Endpoint) {
    let mut node = Node::find(test.directory()).unwrap();
    let (vm, own, to) = (test.vm().id(), client.address(), server.address());
    let all = node.privileges(vm, own).unwrap();
    let nobody = Privileges { ipc_to: Some(Vec::new()), ..all.clone() };
    node.set_privileges(vm, own, nobody).unwrap();
    cases.add("a peer that privileges exclude", client.try_send(to, &Message::new(7)));
    node.set_privileges(vm, own, all).unwrap();
    cases.add("privileges of one that is absent", node.privileges(vm, Address(9_999)));
}

fn ended(cases: &mut Cases, test: &TestNode, mut server: Endpoint, mut client: Endpoint) {
    let to = server.address();
    Node::find(test.directory()).unwrap().unbind_timeout(test.vm().id(), to, SHORT).unwrap_err();
    // The limit may end before the daemon reads the request.
    while server.is_bound() {
        std::thread::yield_now();
    }
    cases.add("receive of an endpoint that was unbound", server.try_receive(Source::Any));
    cases
        .add("send of an endpoint that was unbound", server.try_send(Address(3), &Message::new(7)));
    drop(server);
    // The report of the end may come in the middle of the call, which then has another code.
    while client.is_bound() {
        std::thread::yield_now();
    }
    cases.add("sendrec to one that was unbound", client.sendrec(to, &Message::new(7)));
}

#[test]
fn each_code_has_its_text() {
    let mut texts = String::new();
    for code in Code::ALL {
        writeln!(texts, "{code}").unwrap();
    }
    Cases { lines: texts, ..Cases::default() }.check("codes.txt");
}
