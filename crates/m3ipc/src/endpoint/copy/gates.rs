//! The gates of a party: whose copies it admits, and the command that it serves.
//!
//! | state | moved by | to |
//! |---|---|---|
//! | running | a call that admits copies begins, or a gate opens in it | parked |
//! | parked | the call ends, and all copies with it | running |

/// The gates of an endpoint, by the links of their requesters.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Links whose peers may copy with this endpoint while it waits.
    links: Vec<u32>,
    /// Those of them with a bounce buffer.
    served: Vec<u32>,
    /// Whether the endpoint is in a call that admits copies.
    may_be_copied: bool,
    /// Whether the endpoint is parked.
    is_parked: bool,
    /// The link whose command is served.
    active: Option<u32>,
}

impl Gates {
    /// Whether a peer may copy with this endpoint during its calls.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.links.is_empty()
    }

    /// Links whose peers may copy with this endpoint while it waits.
    pub(super) fn links(&self) -> &[u32] {
        &self.links
    }

    /// Links with a bounce buffer.
    #[inline]
    pub(super) fn served(&self) -> &[u32] {
        &self.served
    }

    /// Whether the endpoint may have commands to serve.
    #[inline]
    pub(super) fn serves(&self) -> bool {
        !self.served.is_empty() && self.is_parked
    }

    /// Begins a call that admits copies. `true` if the gates must be opened.
    #[inline]
    pub(super) fn begin_call(&mut self) -> bool {
        self.may_be_copied = true;
        self.has_any() && !self.is_parked
    }

    /// Parks behind the gates that are still of use: by these answers for each link.
    pub(super) fn park(
        &mut self,
        is_gated: impl Fn(u32) -> bool,
        is_served: impl Fn(u32) -> bool,
    ) -> &[u32] {
        self.links.retain(|index| is_gated(*index));
        self.served.retain(|index| is_served(*index));
        self.is_parked = self.has_any();
        &self.links
    }

    /// Ends a call that admits copies. `true` if the gates must be closed.
    #[inline]
    pub(super) fn end_call(&mut self) -> bool {
        self.may_be_copied = false;
        self.is_parked
    }

    /// Notes that the gates are closed, and that no copy is in progress.
    pub(super) fn unpark(&mut self) {
        self.is_parked = false;
    }

    /// Opens a gate. `true` if the endpoint admits copies now, so that it parks behind the gate.
    pub(super) fn open(&mut self, index: u32, is_served: bool) -> bool {
        if is_served {
            self.end_if_active(index);
            if !self.served.contains(&index) {
                self.served.push(index);
            }
        }
        if !self.links.contains(&index) {
            self.links.push(index);
        }
        self.is_parked |= self.may_be_copied;
        self.may_be_copied
    }

    /// The link whose command is served.
    pub(super) fn active(&self) -> Option<u32> {
        self.active
    }

    /// Begins to serve the command of this link.
    pub(super) fn begin_command(&mut self, index: u32) {
        self.active = Some(index);
    }

    /// Ends the command that is served.
    pub(super) fn end_command(&mut self) {
        self.active = None;
    }

    /// Ends the command of this link, if that is served.
    pub(super) fn end_if_active(&mut self, index: u32) {
        if self.active == Some(index) {
            self.active = None;
        }
    }
}
