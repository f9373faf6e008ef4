//! The system calls of m3ipc: mechanism, no policy. No other crate makes raw system calls of its
//! own.
//!
//! Errors are [`Errno`]. Unsafe code is allowed only in the files that need it. Each of them states
//! its obligations in a `# Safety` section.

mod capabilities;
mod checked_path;
mod children;
mod clock;
mod copy_range;
mod cpu;
mod cpu_demand;
mod credentials;
mod descriptors;
mod dispositions;
mod doorbell;
mod enclosed;
mod end_marks;
mod environment;
mod errno;
mod event_fd;
mod fixed_mapping;
mod fork;
mod futex;
mod held_signals;
mod interrupt;
mod line_limits;
mod liveness_lock;
mod mapping;
mod memfd;
mod memory_ranges;
#[cfg(miri)]
mod miri_memory;
mod namespaces;
mod own_copy;
mod own_user;
mod packet;
mod pause;
mod per_process;
mod poll;
mod printable;
mod private_group;
mod process;
mod process_copy;
mod report;
mod scheduling;
mod service;
mod signal_set;
mod stream;
mod tcp;
mod user_ids;

pub use capabilities::{
    Capabilities, Capability, may_signal_others, peer_capabilities, process_capabilities,
};
pub use checked_path::{CheckedPath, PathFault, repair_of_mode};
pub use children::{
    adopt_orphans, children, ended_child, environment_of_child, has_child_ended, parent_id,
    process_group, reap, signal_group,
};
pub use clock::{StampScale, monotonic_ns, stamp, stamp_soon, ticks};
pub use copy_range::{CopySource, CopyTarget, lent_source, lent_target};
pub use cpu::{current_cpu, pin_to, prefetch, relax, request_time_slice, yield_cpu};
pub use cpu_demand::{
    cpus_in, has_cpu_quota, has_cpu_quota_by, online_cpus, running_in, running_tasks, usable_cpus,
};
pub use credentials::{PeerCredentials, peer_groups, peer_identity, peer_pidfd, peer_user};
pub use descriptors::above_standard;
pub use dispositions::{
    ignore_children, keep_ignored_pipe, notice_children, prepare_exec, survive_file_limit,
};
pub use doorbell::{DoorbellReceiver, DoorbellSender};
pub use enclosed::{enclosed, uncancelled};
pub use end_marks::{EndMark, EndMarks};
pub use environment::{is_privileged_program, text_variable, variable};
pub use event_fd::EventFd;
pub use fixed_mapping::{Access, FixedMapping, page_bytes, whole_pages};
pub use fork::{ForkGuard, ParentOnlyFd, fork_generation};
pub use futex::{
    Expected, WAIT_WORDS_MAX, WaitOutcome, try_wait_any, wait, wait_any, wait_any_woken, wake,
};
pub use interrupt::{hangup_signal, interrupt_signals, unblock_interrupts};
pub use line_limits::{LineLimits, LineVerdict};
pub use liveness_lock::{
    LIVENESS_LOCK_BYTES, LIVENESS_OWNER_DIED, LIVENESS_OWNER_MASK, LIVENESS_WAITERS, LivenessLock,
};
pub use mapping::Mapping;
pub use memfd::{
    copy_memory, create_memory, create_sealable_memory, create_sparse, is_sealed_against_writing,
    memory_bytes, memory_id, next_page, release_memory, reserve_memory, seal_against_new_writers,
    seal_against_writing, seal_seals, seal_size,
};
pub use memory_ranges::{MemoryRange, memory_ranges, occupant_of};
pub use namespaces::Namespaces;
pub use own_copy::OwnCopy;
pub use own_user::{borrowed_rights, extra_rights, own_user};
pub use packet::{
    PACKET_FDS_MAX, Packet, accept, connect, connect_within, inherited_listener, listen,
    next_packet_bytes, receive_packet, send_packet, unread_bytes,
};
pub use pause::{HAS_PAUSE_POINTS, pause_point};
pub use per_process::PerProcess;
pub use poll::{Interest, Mode, Poll, Ready, wait_readable, wait_writable};
pub use printable::{json_escaped, printable};
pub use private_group::{only_user_of_group, user_named};
pub use process::{
    ProcessExit, ProcessFacts, Signal, die_with_parent, group_id, is_ending, is_stopped,
    known_thread_id, no_core, open_process, open_thread, process_exit, process_facts, process_id,
    process_of_thread, process_start_ticks, process_users, raise_fd_limit, signal, thread_id,
    thread_sleeps, user_id,
};
pub use process_copy::{copy_from_process, copy_to_process, has_memory};
pub use report::{
    ReportWriter, bound_standard_error, end_without_output, write_line, write_report,
};
pub use rustix::io::Errno;
pub use scheduling::{Scheduling, has_thread};
pub use service::{ServiceProcess, start_service};
pub use signal_set::SignalSet;
pub use stream::{
    Datagram, Direction, ReceiveFlags, bind_datagrams, bound_path, connect_datagrams,
    connect_stream_within, copy_send_options, has_hung_up, packet_pair, queued_bytes, read_within,
    receive_bytes, receive_datagram, send_bytes, set_nonblocking, shut_down, stream_pair,
};
pub use tcp::tcp_round_trip;
pub use user_ids::UserNames;
