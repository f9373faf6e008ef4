//! Names of endpoints: unique in the VM, several per endpoint, freed with it.

use m3ipc_abi::{Address, NAME_MAX_BYTES};

use super::error::NameError;
use super::identity::MemberId;
use super::journal::Record;
use super::node::Node;

impl Node {
    /// Attaches a name to an endpoint; returns the waiters (wait4name) whose wait is over.
    ///
    /// # Errors
    /// Too long -343; empty or with a zero byte -339; VM not running -303; endpoint
    /// not bound -310; name taken -342; quota -12.
    pub fn name_attach(&mut self, place: MemberId, name: &str) -> Result<Vec<u64>, NameError> {
        check_name(name)?;
        let vm = self.running(place.vm)?;
        let endpoint = vm.endpoint(None, place.address)?;
        if let Some(bearer) = vm.names.get(name) {
            return Err(NameError::Taken(*bearer));
        }
        let quota = self.quota().names;
        if u32::try_from(endpoint.names.len()).is_ok_and(|names| names >= quota) {
            return Err(NameError::Quota(quota));
        }
        self.commit(Record::Name { place, name: name.to_owned() });
        Ok(self.waits.on_name(place.vm, name))
    }

    /// Who has that name.
    ///
    /// # Errors
    /// Too long -343; empty or with a zero byte -339; VM not running -303; unknown -316.
    pub fn name_locate(&self, vm: i32, name: &str) -> Result<Address, NameError> {
        check_name(name)?;
        self.running(vm)?.names.get(name).copied().ok_or(NameError::Unknown)
    }
}

pub(super) fn check_name(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_MAX_BYTES {
        return Err(NameError::TooLong(name.len()));
    }
    if name.is_empty() || name.contains('\0') {
        return Err(NameError::Bad);
    }
    Ok(())
}
