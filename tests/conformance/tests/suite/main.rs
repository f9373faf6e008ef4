//! Rules of the contract beyond its rows, one file for each subject.
//!
//! One program for all of them: each program of tests costs seconds to build.

mod absent;
mod agreement;
mod asynchronous;
mod bounded_waits;
mod bounds;
mod debug_texts;
mod ended_senders;
mod examples;
mod forks;
mod hooks;
mod lengths;
mod lives;
mod long_sleep;
mod misuse;
mod pending;
mod priorities;
mod pulses;
mod readable;
mod receive_limit;
mod reply_receive;
mod takeovers;
mod talk;
mod threads;
mod tracing;
mod unasked_answers;
mod watches;
