//! Microkernel-style IPC for Linux, in user space.
pub mod runtime;
