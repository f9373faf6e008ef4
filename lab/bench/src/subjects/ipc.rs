//! Messages by the kernel's mechanisms, and the floors beside them.

mod eventfd;
mod floors;
mod planted;
mod queues;
mod sketch;
mod streams;

use crate::subject::Subject;

/// The subjects, floors first.
pub fn all() -> Vec<&'static dyn Subject> {
    let mut all: Vec<&'static dyn Subject> = vec![];
    all.extend(floors::ALL.iter().map(|subject| subject as &dyn Subject));
    all.push(&sketch::Sketch);
    all.extend(streams::ALL.iter().map(|subject| subject as &dyn Subject));
    all.extend([&queues::PosixMq as &dyn Subject, &queues::SystemVMq, &eventfd::EventFd]);
    all
}

/// Subjects for tests, which no plan holds.
pub fn planted() -> [&'static dyn Subject; 2] {
    [&planted::Fault, &planted::Ours]
}
