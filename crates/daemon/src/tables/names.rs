//! The names of endpoints. A name is unique in its VM. An endpoint may have several names, and
//! they end with it.
//!
//! The owner of a VM may reserve a name: between two endpoints that have it, no other process can
//! take it. A supervisor does so for its services. The key of the reservation names its processes,
//! also after a restart and in children, which no process number could.

use m3ipc_abi::{Address, NAME_MAX_BYTES};

use super::error::NameError;
use super::identity::{Credentials, MemberId};
use super::node::Node;
use super::record::Record;
use super::tickets::TicketId;

/// The reserved names of a VM at most.
const RESERVED_MAX: usize = 4_096;

impl Node {
    /// Reserves a name for processes with this key; without a key the reservation ends.
    ///
    /// # Errors
    /// As [`name_attach`](Self::name_attach), where another endpoint's reservation counts as taken;
    /// not the VM's owner -335; too many reserved names -12.
    pub fn name_reserve(
        &mut self,
        id: MemberId,
        name: &str,
        key: Option<u64>,
        cred: &Credentials,
    ) -> Result<(), NameError> {
        check_name(name)?;
        let vm = self.running(id.vm)?;
        vm.endpoint(None, id.address)?;
        if cred.uid != vm.spec.owner_uid && !cred.owns_all() {
            return Err(NameError::NotAllowed(cred.uid));
        }
        match vm.reserved.get(name) {
            Some(found) if found.holder != id.address => {
                return Err(NameError::Reserved(found.holder));
            }
            None if key.is_none() => return Ok(()),
            None if vm.reserved.len() >= RESERVED_MAX => {
                return Err(NameError::ReservedQuota(RESERVED_MAX));
            }
            _ => {}
        }
        self.commit(Record::Reserve { id, name: name.to_owned(), key });
        Ok(())
    }

    /// Attaches a name to an endpoint, and returns the completed tickets of `wait4name`. A
    /// reserved name goes to processes with its key, and to the process that reserved it.
    ///
    /// # Errors
    /// Too long -343; empty or with a zero byte -339; VM not running -303; endpoint not bound
    /// -310; name taken or reserved -342; quota -12.
    pub fn name_attach(
        &mut self,
        id: MemberId,
        name: &str,
        key: Option<u64>,
    ) -> Result<Vec<TicketId>, NameError> {
        check_name(name)?;
        let vm = self.running(id.vm)?;
        let endpoint = vm.endpoint(None, id.address)?;
        if let Some(holder) = vm.names.get(name) {
            return Err(NameError::Taken { name: name.to_owned(), holder: *holder });
        }
        if let Some(reserved) = vm.reserved.get(name) {
            let holder = vm.living(reserved.holder);
            let is_holders = holder.is_some_and(|holder| holder.member.pid == endpoint.member.pid);
            if key != Some(reserved.key) && !is_holders {
                return Err(NameError::Reserved(reserved.holder));
            }
        }
        let quota = self.quota().names;
        if u32::try_from(endpoint.names.len()).is_ok_and(|names| names >= quota) {
            return Err(NameError::Quota(quota));
        }
        self.commit(Record::Name { id, name: name.to_owned() });
        Ok(self.tickets.on_name(id.vm, name))
    }

    /// The endpoint with this name.
    ///
    /// # Errors
    /// Too long -343; empty or with a zero byte -339; VM not running -303; unknown -316.
    pub fn name_locate(&self, vm: i32, name: &str) -> Result<Address, NameError> {
        check_name(name)?;
        let unknown = || NameError::Unknown(name.to_owned());
        self.running(vm)?.names.get(name).copied().ok_or_else(unknown)
    }
}

/// Checks the form of a name.
pub(super) fn check_name(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_MAX_BYTES {
        return Err(NameError::TooLong(name.len()));
    }
    if name.is_empty() || name.contains('\0') {
        return Err(NameError::Bad(name.to_owned()));
    }
    Ok(())
}
