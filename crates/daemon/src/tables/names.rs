//! The names of endpoints. A name is unique in its VM. An endpoint may have several names, and
//! they end with it.

use m3ipc_abi::{Address, NAME_MAX_BYTES};

use super::error::NameError;
use super::identity::MemberId;
use super::node::Node;
use super::record::Record;
use super::tickets::TicketId;

impl Node {
    /// Attaches a name to an endpoint, and returns the completed tickets of `wait4name`.
    ///
    /// # Errors
    /// Too long -343; empty or with a zero byte -339; VM not running -303; endpoint not bound
    /// -310; name taken -342; quota -12.
    pub fn name_attach(&mut self, id: MemberId, name: &str) -> Result<Vec<TicketId>, NameError> {
        check_name(name)?;
        let vm = self.running(id.vm)?;
        let endpoint = vm.endpoint(None, id.address)?;
        if let Some(holder) = vm.names.get(name) {
            return Err(NameError::Taken(*holder));
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
        self.running(vm)?.names.get(name).copied().ok_or(NameError::Unknown)
    }
}

/// Checks the form of a name.
pub(super) fn check_name(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_MAX_BYTES {
        return Err(NameError::TooLong(name.len()));
    }
    if name.is_empty() || name.contains('\0') {
        return Err(NameError::Bad);
    }
    Ok(())
}
