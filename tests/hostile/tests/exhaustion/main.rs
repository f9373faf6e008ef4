//! T14: exhausted resources: descriptors, room in the runtime directory, memory, stack.
//!
//! A server and its client exchange numbered messages with sums meanwhile. A request that cannot be
//! served is refused with a code and a reason. Everything works again when the resource is back. A
//! watchdog ends a test that hangs.

mod descriptors;
mod directory;
mod fixture;
mod memory;
mod refusals;
mod stack;
