//! Death: what goes with an endpoint, and whom to tell.

use super::error::UnbindError;
use super::identity::{Credentials, Member, MemberId, MemberKind};
use super::journal::Record;
use super::links::LinkedPeer;
use super::node::Node;

/// An endpoint that is gone: what the daemon has to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which one.
    pub place: MemberId,
    /// Who was behind it.
    pub member: Member,
    /// The other sides of its links, to write the end into.
    pub peers: Vec<LinkedPeer>,
    /// Waiters (wait4unbind) whose wait is over.
    pub told: Vec<u64>,
}

impl Node {
    /// Whether the caller may unbind that endpoint: its own user, the VM's owner, root.
    ///
    /// # Errors
    /// VM id -302, not there -303; free slot -310; other generation -306; not allowed -335.
    pub fn may_unbind(&self, place: MemberId, cred: &Credentials) -> Result<(), UnbindError> {
        let vm = self.vm(place.vm)?;
        let endpoint = vm.endpoint(None, place.address)?;
        if cred.is_root() || cred.uid == endpoint.uid || cred.uid == vm.spec.owner_uid {
            Ok(())
        } else {
            Err(UnbindError::NotAllowed(cred.uid))
        }
    }

    /// Unbinds an endpoint, whoever asked; a process takes its threads'
    /// endpoints with it, and they come first.
    ///
    /// # Errors
    /// VM id -302, not there -303; free slot -310; other generation -306.
    pub fn unbind(&mut self, place: MemberId) -> Result<Vec<Death>, UnbindError> {
        let endpoint = self.vm(place.vm)?.endpoint(None, place.address)?;
        Ok(match endpoint.kind {
            MemberKind::Thread => self.bury(place).into_iter().collect(),
            MemberKind::Process | MemberKind::Foreign { .. } => self.exit(endpoint.member.pid),
        })
    }

    /// A process exited, or executed another program: all its endpoints die.
    pub fn exit(&mut self, pid: i32) -> Vec<Death> {
        let Some(home) = self.tables.homes.get(&pid) else { return Vec::new() };
        let addresses: Vec<_> = home.threads.values().copied().chain([home.address]).collect();
        let vm = home.vm;
        addresses.into_iter().filter_map(|address| self.bury(MemberId::new(vm, address))).collect()
    }

    /// A thread exited: its endpoint dies, its process's stays.
    pub fn exit_thread(&mut self, pid: i32, tid: i32) -> Option<Death> {
        let place = self.place_of_thread(pid, tid)?;
        self.bury(place)
    }

    fn bury(&mut self, place: MemberId) -> Option<Death> {
        let member = self.endpoint(place)?.member;
        let peers = self.peers(place);
        self.commit(Record::Unbind(place));
        Some(Death { place, member, peers, told: self.waits.on_unbind(place) })
    }
}
