//! Shared memory: attached, handed over, allocated.

mod attach;
mod attached;
mod files;
mod hand_over;
mod pool;

use crate::subject::Subject;

/// The subjects, ours first.
pub fn all() -> Vec<&'static dyn Subject> {
    let mut all: Vec<&'static dyn Subject> = vec![];
    all.extend(attached::ALL.iter().map(|subject| subject as &dyn Subject));
    all.extend(hand_over::ALL.iter().map(|subject| subject as &dyn Subject));
    all.push(&pool::AreaPool);
    all.extend(files::ALL.iter().map(|subject| subject as &dyn Subject));
    all.extend([&pool::PrivateTables as &dyn Subject, &pool::Malloc]);
    all
}
