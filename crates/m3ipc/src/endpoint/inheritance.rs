//! What an endpoint claims for itself, and what it takes over from its clients: the state. See
//! [`super::priority`].

use m3ipc_sys::Scheduling;

/// What an endpoint takes over from the clients that wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inheritance {
    /// Nothing.
    #[default]
    None,
    /// The highest priority of a client, for the place of its own requests among others.
    Order,
    /// The same; and the thread that sets it runs under SCHED_FIFO at that priority. The endpoint
    /// also lends its priority to such threads of servers of the same user.
    Thread,
}

/// The priorities of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Priorities {
    /// What the program has set.
    own: u8,
    /// What peers see.
    claimed: u8,
    inherited: Option<Box<Inherited>>,
}

/// The state of an endpoint that inherits.
#[derive(Debug)]
pub(super) struct Inherited {
    /// The links of clients that were taken a request from and may wait for its answer.
    clients: Vec<u32>,
    /// The thread that runs at the priority, and its scheduling before.
    thread: Option<(i32, Scheduling)>,
}

impl Priorities {
    /// What the program has set.
    pub(super) fn own(&self) -> u8 {
        self.own
    }

    /// Notes what the program has set.
    pub(super) fn set_own(&mut self, priority: u8) {
        self.own = priority;
    }

    /// What peers see.
    pub(super) fn claimed(&self) -> u8 {
        self.claimed
    }

    /// Notes what peers see. `false` if that is no change.
    pub(super) fn set_claimed(&mut self, priority: u8) -> bool {
        std::mem::replace(&mut self.claimed, priority) != priority
    }

    /// What is inherited, if the endpoint inherits.
    pub(super) fn inherited(&mut self) -> &mut Option<Box<Inherited>> {
        &mut self.inherited
    }

    /// Whether the endpoint takes over the priorities of clients.
    #[inline(always)]
    pub(super) fn inherits(&self) -> bool {
        self.inherited.is_some()
    }

    /// Whether the endpoint lends its priority to threads of servers.
    pub(super) fn lends(&self) -> bool {
        self.inherited.as_ref().is_some_and(|inherited| inherited.thread.is_some())
    }
}

impl Inherited {
    /// The state with these clients, and a thread that rises.
    pub(super) fn new(clients: Vec<u32>, thread: Option<(i32, Scheduling)>) -> Self {
        Self { clients, thread }
    }

    /// The links of clients.
    pub(super) fn clients(&mut self) -> &mut Vec<u32> {
        &mut self.clients
    }

    /// Lets the calling thread run at this priority if that is above its own, and else as before.
    /// A client may have raised the thread meanwhile.
    pub(super) fn schedule(&self, priority: u8) {
        let Some((tid, before)) = self.thread else { return };
        if tid != m3ipc_sys::known_thread_id() {
            return;
        }
        let wanted = if priority > before.level() { Scheduling::fifo(priority) } else { before };
        if Scheduling::of_thread(0) != Ok(wanted) {
            // It was permitted, and if that ends, the order alone is inherited.
            let _ = wanted.apply_to(0);
        }
    }
}
