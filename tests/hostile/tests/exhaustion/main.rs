//! T14: nothing left of something: descriptors, room in the runtime directory, memory.
//!
//! Each time a server and its client talk meanwhile, every message numbered and
//! summed; what cannot be had is refused with a code and a reason; and
//! everything works again when the pressure is gone. Nothing here may hang: a
//! watchdog ends the test.

mod descriptors;
mod directory;
mod fixture;
mod memory;
mod refusals;
