//! Waits for something to come or go, under opaque tokens.
//!
//! A token is forgotten when its wait is over; the daemon cancels it when the
//! waiter gives up. How many one connection may have open is the daemon's to bound.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{Address, SYSTEM_SLOTS};

use super::error::{LookupError, NameError, WaitError};
use super::identity::{Member, MemberId, MemberKind};
use super::lookup::Holder;
use super::names::check_name;
use super::node::Node;

/// Whether one has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It is so already, of this endpoint; the token was not kept.
    Already(Address),
    /// The token will be told.
    Wait,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Process(i32),
    Comes(MemberId),
    Goes(MemberId),
    Name(i32, String),
}

impl Key {
    fn vm(&self) -> Option<i32> {
        match self {
            Self::Process(_) => None,
            Self::Comes(place) | Self::Goes(place) => Some(place.vm),
            Self::Name(vm, _) => Some(*vm),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    tokens: BTreeMap<Key, BTreeSet<u64>>,
    /// What each token waits for: to give one up must not cost a look at all.
    keys: BTreeMap<u64, Key>,
}

impl Waits {
    fn register(&mut self, key: Key, token: u64) -> Wait {
        self.keys.insert(token, key.clone());
        self.tokens.entry(key).or_default().insert(token);
        Wait::Wait
    }

    fn tell(&mut self, key: &Key) -> Vec<u64> {
        let told = self.tokens.remove(key).unwrap_or_default();
        self.over(told)
    }

    pub(super) fn on_bind(
        &mut self,
        place: MemberId,
        member: Member,
        kind: MemberKind,
    ) -> Vec<u64> {
        let mut told = self.tell(&Key::Comes(place));
        if place.address.generation() != 0 {
            told.extend(
                self.tell(&Key::Comes(MemberId::new(place.vm, Address(place.address.slot())))),
            );
        }
        if kind != MemberKind::Thread {
            told.extend(self.tell(&Key::Process(member.pid)));
        }
        told
    }

    pub(super) fn on_unbind(&mut self, place: MemberId) -> Vec<u64> {
        self.tell(&Key::Goes(place))
    }

    pub(super) fn on_name(&mut self, vm: i32, name: &str) -> Vec<u64> {
        self.tell(&Key::Name(vm, name.to_owned()))
    }

    /// Ends the waits for what cannot come any more; who waits for an endpoint to go goes on waiting.
    pub(super) fn end_vm(&mut self, vm: i32) -> Vec<u64> {
        let mut told = Vec::new();
        self.tokens.retain(|key, tokens| {
            let over = key.vm() == Some(vm) && !matches!(key, Key::Goes(_));
            if over {
                told.extend(std::mem::take(tokens));
            }
            !over
        });
        self.over(told)
    }

    fn over(&mut self, told: impl IntoIterator<Item = u64>) -> Vec<u64> {
        told.into_iter().inspect(|token| drop(self.keys.remove(token))).collect()
    }

    fn cancel(&mut self, token: u64) {
        let Some(key) = self.keys.remove(&token) else { return };
        if let Some(tokens) = self.tokens.get_mut(&key) {
            tokens.remove(&token);
            if tokens.is_empty() {
                self.tokens.remove(&key);
            }
        }
    }
}

impl Node {
    /// wait4bind: until the process is bound.
    pub fn wait_bind(&mut self, pid: i32, token: u64) -> Wait {
        match self.place_of(pid) {
            Some(place) => Wait::Already(place.address),
            None => self.waits.register(Key::Process(pid), token),
        }
    }

    /// wait4bindep: until that endpoint lives. The plain number of a user slot
    /// (generation 0, which never lives) waits for whoever binds it.
    ///
    /// # Errors
    /// VM id -302, not running -303; range -34; own -306; a generation that has passed -306.
    pub fn wait_bind_ep(
        &mut self,
        caller: Option<Address>,
        place: MemberId,
        token: u64,
    ) -> Result<Wait, WaitError> {
        let vm = self.running(place.vm)?;
        let address = place.address;
        let whoever = address.slot() >= SYSTEM_SLOTS && address.generation() == 0;
        match vm.judge(caller, address) {
            Ok(()) => return Ok(Wait::Already(address)),
            Err(LookupError::Generation(_)) => match vm.holder(address.slot()) {
                Holder::Living(living) if whoever => return Ok(Wait::Already(living)),
                Holder::Living(latest) | Holder::Last(latest)
                    if !whoever && !is_later(address, latest) =>
                {
                    return Err(LookupError::Generation(address).into());
                }
                Holder::Never if address.generation() < 0 => {
                    return Err(LookupError::Generation(address).into());
                }
                _ => {}
            },
            Err(LookupError::Dead(_)) if address.slot() >= SYSTEM_SLOTS => {
                return Err(LookupError::Generation(address).into());
            }
            Err(LookupError::Dead(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.waits.register(Key::Comes(place), token))
    }

    /// wait4unbind: until that endpoint is gone.
    ///
    /// # Errors
    /// VM id -302, not there -303; range -34; own -306; an endpoint that never lived -306.
    pub fn wait_unbind(
        &mut self,
        caller: Option<Address>,
        place: MemberId,
        token: u64,
    ) -> Result<Wait, WaitError> {
        let vm = self.vm(place.vm)?;
        let address = place.address;
        match vm.judge(caller, address) {
            Ok(()) => Ok(self.waits.register(Key::Goes(place), token)),
            Err(LookupError::Dead(_)) => Ok(Wait::Already(address)),
            Err(LookupError::Generation(_)) => match vm.holder(address.slot()) {
                Holder::Living(latest) | Holder::Last(latest)
                    if address.generation() > 0 && !is_later(address, latest) =>
                {
                    Ok(Wait::Already(address))
                }
                _ => Err(LookupError::Generation(address).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// wait4name: until somebody has that name.
    ///
    /// # Errors
    /// VM id -302, not running -303; name too long -343; no name -339.
    pub fn wait_name(&mut self, vm: i32, name: &str, token: u64) -> Result<Wait, WaitError> {
        self.running(vm)?;
        check_name(name)?;
        match self.name_locate(vm, name) {
            Ok(address) => Ok(Wait::Already(address)),
            Err(NameError::Unknown) => {
                Ok(self.waits.register(Key::Name(vm, name.to_owned()), token))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets a token: its waiter gave up or died.
    pub fn cancel_wait(&mut self, token: u64) {
        self.waits.cancel(token);
    }
}

/// Whether `address` is a life of its slot after `latest`.
const fn is_later(address: Address, latest: Address) -> bool {
    address.generation() > latest.generation()
}
