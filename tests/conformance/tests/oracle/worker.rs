//! One real endpoint: a thread that takes orders and reports the end of each.

use super::plan::call_at;
use m3ipc::{Address, Code, Delivered, Endpoint, Message, Pulse, Slot, Timeout, Vm, WaitStrategy};
use m3ipc_model::rendezvous::{Call, Completion, Fate, Source};
use std::sync::mpsc::{Receiver, Sender, channel};

/// An order to a worker.
#[derive(Debug)]
pub enum Order {
    Bind,
    /// A call, or so many in a row, which get the report of the last one.
    Call(Call, Timeout, usize),
    Leave,
}

/// The report of a worker on an order.
#[derive(Debug)]
pub enum Report {
    Bound(Result<Address, Code>),
    Ended(Completion),
    Left,
}

#[derive(Debug)]
pub struct Worker {
    pub orders: Sender<Order>,
    pub tid: i32,
    pub thread: std::thread::JoinHandle<()>,
}

impl Worker {
    pub fn start(vm: Vm, slot: Slot, reports: Sender<(Slot, Report)>) -> Self {
        let (orders, inbox) = channel();
        let (tell_tid, tid) = channel();
        let thread = std::thread::spawn(move || {
            tell_tid.send(m3ipc_sys::thread_id()).expect("its maker waits for it");
            work(&vm, slot, &inbox, &reports);
        });
        Self { orders, tid: tid.recv().expect("it tells its number first"), thread }
    }
}

fn work(vm: &Vm, slot: Slot, inbox: &Receiver<Order>, reports: &Sender<(Slot, Report)>) {
    let mut endpoint: Option<Endpoint> = None;
    while let Ok(order) = inbox.recv() {
        let report = match (order, &mut endpoint) {
            (Order::Bind, _) => Report::Bound(bind(vm, slot, &mut endpoint)),
            (Order::Call(call, limit, times), Some(bound)) => {
                let mut ended = call_on(bound, slot, call, limit);
                for place in 1..times {
                    ended = call_on(bound, slot, call_at(call, place), limit);
                }
                if !bound.is_bound() {
                    endpoint = None;
                }
                Report::Ended(ended)
            }
            (Order::Call(..), None) => Report::Ended(error(slot, Code::NotBind)),
            (Order::Leave, _) => {
                endpoint = None;
                Report::Left
            }
        };
        if reports.send((slot, report)).is_err() {
            return;
        }
    }
}

fn bind(vm: &Vm, slot: Slot, endpoint: &mut Option<Endpoint>) -> Result<Address, Code> {
    let mut bound = vm.bind_thread(Some(slot)).map_err(|error| error.code())?;
    // The driver recognises a blocked call by its sleep.
    bound.set_strategy(WaitStrategy::Block);
    Ok(endpoint.insert(bound).address())
}

fn error(who: Slot, code: Code) -> Completion {
    Completion { who, result: Err(code), fate: None }
}

fn call_on(endpoint: &mut Endpoint, who: Slot, call: Call, limit: Timeout) -> Completion {
    let mut fate = None;
    // The codes of send and reply show the fate of the message.
    let mut delivery = |result: Result<(), Code>| {
        fate = Some(if result.is_ok() { Fate::Delivered } else { Fate::Withdrawn });
        result.map(|()| None)
    };
    let got = |message: Message| Some(timeless(message));
    let result = match call {
        Call::Send { dst, message } => {
            delivery(endpoint.send_timeout(dst, &message, limit).map_err(|error| error.code()))
        }
        Call::Reply { dst, message } => delivery(
            endpoint
                .reply(dst, &message)
                .and_then(Delivered::into_result)
                .map_err(|error| error.code()),
        ),
        Call::Receive { src } => {
            let source = match src {
                Source::Any => m3ipc::Source::Any,
                Source::From(address) => m3ipc::Source::From(address),
            };
            endpoint.receive_timeout(source, limit).map(got).map_err(|error| error.code())
        }
        Call::Sendrec { dst, message } => {
            endpoint.sendrec_timeout(dst, &message, limit).map(got).map_err(|error| error.code())
        }
        Call::Rcvrqst => endpoint
            .rcvrqst(&mut [], limit)
            .map(|long| got(long.message))
            .map_err(|error| error.code()),
        Call::Notify { dst } => endpoint.notify(dst).map(|()| None).map_err(|error| error.code()),
        Call::Pulse { dst, pulse: (code, value) } => {
            endpoint.pulse(dst, Pulse { code, value }).map(|()| None).map_err(|error| error.code())
        }
        Call::Relay { client, dst } => {
            endpoint.relay(client, dst).map(|()| None).map_err(|error| error.code())
        }
        Call::Wakeup { dst } => endpoint.wakeup(dst).map(|()| None).map_err(|error| error.code()),
        Call::AwaitUnbind { dst } => {
            endpoint.wait_unbind(dst, limit).map(|()| None).map_err(|error| error.code())
        }
    };
    Completion { who, result, fate }
}

/// A notification without its time, as the model gives it.
fn timeless(mut message: Message) -> Message {
    if message.is_notification() {
        message.set_long(1, 0);
        message.set_long(2, 0);
    }
    message
}
