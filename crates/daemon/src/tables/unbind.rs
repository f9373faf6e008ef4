//! The end of an endpoint: unbind, exit of a thread, exit of a process.

use super::error::UnbindError;
use super::identity::{Credentials, Member, MemberId, MemberKind};
use super::link_table::LinkedPeer;
use super::node::Node;
use super::record::Record;
use super::tickets::TicketId;

/// An endpoint that ended, with the effects that the daemon has to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The endpoint.
    pub id: MemberId,
    /// The process or thread behind it.
    pub member: Member,
    /// The call that bound it.
    pub kind: MemberKind,
    /// Its user.
    pub uid: u32,
    /// Its names.
    pub names: Vec<String>,
    /// The peers that had links with it. The daemon notifies them of the death.
    pub peers: Vec<LinkedPeer>,
    /// Completed tickets of `wait4unbind`.
    pub tickets: Vec<TicketId>,
}

impl Node {
    /// Checks whether the caller may unbind an endpoint. Its user, the VM's owner and
    /// `CAP_KILL` may.
    ///
    /// # Errors
    /// VM id -302; no such VM -303; free slot -310; other generation -306; not allowed -335.
    pub fn may_unbind(&self, id: MemberId, cred: &Credentials) -> Result<(), UnbindError> {
        let vm = self.vm(id.vm)?;
        let endpoint = vm.endpoint(None, id.address)?;
        if [endpoint.uid, vm.spec.owner_uid].contains(&cred.uid) || cred.may_end() {
            Ok(())
        } else {
            Err(UnbindError::NotAllowed(cred.uid))
        }
    }

    /// Unbinds an endpoint without a check of the caller. The endpoints of a process's threads and
    /// its additional endpoints end with it, and come first in the result.
    ///
    /// # Errors
    /// VM id -302; no such VM -303; free slot -310; other generation -306.
    pub fn unbind(&mut self, id: MemberId) -> Result<Vec<Death>, UnbindError> {
        let endpoint = self.vm(id.vm)?.endpoint(None, id.address)?;
        Ok(match endpoint.kind {
            MemberKind::Thread | MemberKind::Additional | MemberKind::StandIn => {
                self.remove_endpoint(id).into_iter().collect()
            }
            MemberKind::Process | MemberKind::Foreign { .. } => self.exit(endpoint.member.pid),
        })
    }

    /// Ends all endpoints of a process that exited or executed another program.
    pub fn exit(&mut self, pid: i32) -> Vec<Death> {
        let Some(process) = self.state.processes.get(&pid) else { return Vec::new() };
        let ids: Vec<MemberId> = process
            .threads
            .values()
            .chain(&process.additional)
            .chain([&process.address])
            .map(|address| MemberId::new(process.vm, *address))
            .collect();
        ids.into_iter().filter_map(|id| self.remove_endpoint(id)).collect()
    }

    /// Ends the endpoint of a thread that exited. The endpoint of its process stays.
    pub fn exit_thread(&mut self, pid: i32, tid: i32) -> Option<Death> {
        let id = self.endpoint_of_thread(pid, tid)?;
        self.remove_endpoint(id)
    }

    fn remove_endpoint(&mut self, id: MemberId) -> Option<Death> {
        let endpoint = self.endpoint(id)?;
        let (member, kind, uid) = (endpoint.member, endpoint.kind, endpoint.uid);
        let names = endpoint.names.iter().cloned().collect();
        let peers = self.peers(id);
        self.commit(Record::Unbind(id));
        Some(Death { id, member, kind, uid, names, peers, tickets: self.tickets.on_unbind(id) })
    }
}
