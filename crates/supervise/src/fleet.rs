//! All services together: which waits for which, in which order they start and stop, and what a
//! new file changes. Pure, as [`policy`](crate::policy).
//!
//! Invariants:
//! - A service starts when each service that it needs is ready, or waits for its first request.
//! - A service is told to stop when no process of a service that needs it is left.
//! - A service that needs another one learns of its restart, as its file says.

use crate::policy::{Action, Event, Machine, Ns, State};
use crate::spec::{Spec, WhenNeedsRestart};
use std::collections::BTreeMap;

/// An action for a service.
pub type Order = (String, Action);

/// A service of the fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its description.
    pub spec: Spec,
    /// Its state.
    pub machine: Machine,
    /// Whether it shall run.
    is_wanted: bool,
    /// Whether it leaves the fleet when it has stopped.
    is_leaving: bool,
    /// Whether it has been ready before.
    was_ready: bool,
    /// A description that takes the place of the present one when the process has ended.
    next_spec: Option<Spec>,
}

impl Member {
    /// Whether its name is reserved for it: from its first start to its end. A service that has
    /// failed too often keeps its name, so that no other program gets its requests by causing that.
    #[must_use]
    pub fn keeps_name(&self) -> bool {
        let state = self.machine.state();
        state.has_process() || (self.is_wanted && state != State::Ended)
    }
}

/// The services.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    members: BTreeMap<String, Member>,
}

/// What a new file changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services that are new.
    pub added: Vec<String>,
    /// Services that are gone.
    pub removed: Vec<String>,
    /// Services that get a new process.
    pub restarted: Vec<String>,
    /// Services whose limits alone have changed.
    pub adjusted: Vec<String>,
}

impl Fleet {
    /// The services, by their names.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    /// The service with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Member> {
        self.members.get(name)
    }

    /// Takes the services of a file. Those that run and have not changed go on.
    pub fn load(&mut self, specs: BTreeMap<String, Spec>, now_ns: Ns) -> (Changes, Vec<Order>) {
        let (mut changes, mut orders) = (Changes::default(), Vec::new());
        for (name, member) in &mut self.members {
            if !specs.contains_key(name) && !member.is_leaving {
                (member.is_wanted, member.is_leaving) = (false, true);
                changes.removed.push(name.clone());
            }
        }
        for (name, spec) in specs {
            let Some(member) = self.members.get_mut(&name) else {
                let machine = Machine::new(spec.policy.clone(), now_ns);
                let member = Member {
                    spec,
                    machine,
                    is_wanted: true,
                    is_leaving: false,
                    was_ready: false,
                    next_spec: None,
                };
                self.members.insert(name.clone(), member);
                changes.added.push(name);
                continue;
            };
            if member.is_leaving {
                (member.is_wanted, member.is_leaving) = (true, false);
                changes.added.push(name.clone());
            }
            if member.spec == spec {
                member.next_spec = None;
                continue;
            }
            let needs_process = member.spec.program != spec.program
                || member.spec.policy.on_request != spec.policy.on_request;
            if needs_process && member.machine.state() != State::Stopped {
                // The present process ends under the present description.
                member.next_spec = Some(spec);
                let why = Event::Restart("its configuration has changed".to_owned());
                let actions = match member.machine.state() {
                    State::OnRequest => member.machine.on(Event::Stop, now_ns),
                    _ => member.machine.on(why, now_ns),
                };
                member.take_next_spec();
                orders.extend(actions.into_iter().map(|action| (name.clone(), action)));
                changes.restarted.push(name);
            } else {
                member.machine.set_policy(spec.policy.clone());
                member.spec = spec;
                changes.adjusted.push(name);
            }
        }
        orders.extend(self.settle(now_ns));
        (changes, orders)
    }

    /// Gives an event to a service, and returns what follows for all of them.
    pub fn on(&mut self, name: &str, event: Event, now_ns: Ns) -> Vec<Order> {
        let mut orders = self.give(name, event, now_ns);
        orders.extend(self.settle(now_ns));
        orders
    }

    /// Time has passed. Only what was due at `looked_ns` happens, and its limits run from `now_ns`.
    pub fn tick(&mut self, looked_ns: Ns, now_ns: Ns) -> Vec<Order> {
        let due: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.machine.due_ns().is_some_and(|due_ns| due_ns <= looked_ns))
            .map(|(name, _)| name.clone())
            .collect();
        due.iter().flat_map(|name| self.on(name, Event::Tick, now_ns)).collect()
    }

    /// When the next [`tick`](Self::tick) is due.
    #[must_use]
    pub fn due_ns(&self) -> Option<Ns> {
        self.members.values().filter_map(|member| member.machine.due_ns()).min()
    }

    /// Wants a service, and what it needs.
    pub fn want(&mut self, name: &str, now_ns: Ns) -> Vec<Order> {
        let mut orders = Vec::new();
        for name in self.reached_needs(name) {
            let Some(member) = self.members.get_mut(&name) else { continue };
            member.is_wanted = !member.is_leaving;
            if matches!(member.machine.state(), State::Failed | State::Ended) {
                let again = Event::Restart("by request".to_owned());
                orders.extend(self.give(&name, again, now_ns));
            }
        }
        orders.extend(self.settle(now_ns));
        orders
    }

    /// Wants a service, and a new process of it. Its earlier failures count no more.
    pub fn restart(&mut self, name: &str, now_ns: Ns) -> Vec<Order> {
        if let Some(member) = self.members.get_mut(name) {
            member.machine.forget();
        }
        let mut orders = self.on(name, Event::Restart("by request".to_owned()), now_ns);
        orders.extend(self.want(name, now_ns));
        orders
    }

    /// Wants a service no longer, nor those that need it.
    pub fn unwant(&mut self, name: &str, now_ns: Ns) -> Vec<Order> {
        let needed_by = self.needed_by();
        for name in reach(name, |name| needed_by.get(name).cloned().unwrap_or_default()) {
            if let Some(member) = self.members.get_mut(&name) {
                member.is_wanted = false;
            }
        }
        self.settle(now_ns)
    }

    /// Wants no service any longer.
    pub fn unwant_all(&mut self, now_ns: Ns) -> Vec<Order> {
        self.members.values_mut().for_each(|member| member.is_wanted = false);
        self.settle(now_ns)
    }

    /// Whether no process of a service runs.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.members.values().all(|member| !member.machine.state().has_process())
    }

    /// Whether each wanted service has come as far as it can: ready, on request, ended or failed,
    /// or stopped because a service that it needs has ended or failed.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let has_ended = |name: &String| {
            let state = self.get(name).map(|it| it.machine.state());
            matches!(state, Some(State::Ended | State::Failed))
        };
        let mut wanted = self.members.iter().filter(|(_, member)| member.is_wanted);
        wanted.all(|(name, member)| match member.machine.state() {
            State::Ready | State::OnRequest | State::Ended | State::Failed => true,
            State::Stopped => self.reached_needs(name).iter().any(has_ended),
            State::Starting | State::Stopping | State::BackOff => false,
        })
    }

    fn give(&mut self, name: &str, event: Event, now_ns: Ns) -> Vec<Order> {
        let Some(member) = self.members.get_mut(name) else { return Vec::new() };
        let has_ended = matches!(event, Event::Exited(_));
        let actions = member.machine.on(event, now_ns);
        if has_ended {
            member.take_next_spec();
        }
        let became_ready = actions.contains(&Action::BecameReady);
        let mut orders: Vec<Order> =
            actions.into_iter().map(|action| (name.to_owned(), action)).collect();
        if became_ready && std::mem::replace(&mut member.was_ready, true) {
            orders.extend(self.tell_dependents(name, now_ns));
        }
        orders
    }

    fn tell_dependents(&mut self, name: &str, now_ns: Ns) -> Vec<Order> {
        let mut orders = Vec::new();
        for (other, member) in &mut self.members {
            if !member.spec.needs.iter().any(|need| need == name) {
                continue;
            }
            match (member.spec.when_needs_restart, member.machine.state()) {
                (WhenNeedsRestart::Inform, State::Ready) => {
                    orders.push((other.clone(), Action::Inform(name.to_owned())));
                }
                (WhenNeedsRestart::Restart, State::Ready | State::Starting) => {
                    let why = Event::Restart(format!("{name}, which it needs, was restarted"));
                    let actions = member.machine.on(why, now_ns);
                    orders.extend(actions.into_iter().map(|action| (other.clone(), action)));
                }
                _ => {}
            }
        }
        orders
    }

    /// Starts and stops what can be, until nothing changes.
    fn settle(&mut self, now_ns: Ns) -> Vec<Order> {
        let mut orders = Vec::new();
        loop {
            self.members.retain(|_, member| {
                !(member.is_leaving && member.machine.state() == State::Stopped)
            });
            let Some((name, event)) = self.next_step() else { return orders };
            orders.extend(self.give(&name, event, now_ns));
        }
    }

    fn next_step(&self) -> Option<(String, Event)> {
        let needed_by = self.needed_by();
        self.members.iter().find_map(|(name, member)| {
            let state = member.machine.state();
            if member.is_wanted && state == State::Stopped && self.has_needs(member) {
                return Some((name.clone(), Event::Start));
            }
            let is_idle =
                matches!(state, State::Stopping | State::Stopped) && !member.machine.starts_again();
            let is_free = || {
                let others = needed_by.get(name.as_str()).into_iter().flatten();
                others.into_iter().all(|other| !self.members[other].machine.state().has_process())
            };
            let has_to_stop = !member.is_wanted && !is_idle && (!state.has_process() || is_free());
            has_to_stop.then(|| (name.clone(), Event::Stop))
        })
    }

    fn has_needs(&self, member: &Member) -> bool {
        member.spec.needs.iter().all(|need| {
            let state = self.members.get(need).map(|it| it.machine.state());
            matches!(state, Some(State::Ready | State::OnRequest))
        })
    }

    /// A service, and all that it needs, also through others.
    fn reached_needs(&self, name: &str) -> Vec<String> {
        reach(name, |name| self.get(name).map_or_else(Vec::new, |it| it.spec.needs.clone()))
    }

    fn needed_by(&self) -> BTreeMap<String, Vec<String>> {
        let mut needed_by = BTreeMap::<String, Vec<String>>::new();
        for (name, member) in &self.members {
            for need in &member.spec.needs {
                needed_by.entry(need.clone()).or_default().push(name.clone());
            }
        }
        needed_by
    }
}

/// A service, and all that it reaches.
fn reach(name: &str, next: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut found = vec![name.to_owned()];
    let mut at = 0;
    while at < found.len() {
        for other in next(&found[at]) {
            if !found.contains(&other) {
                found.push(other);
            }
        }
        at += 1;
    }
    found
}

impl Member {
    /// Whether it shall run.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// The next process belongs to the next description.
    fn take_next_spec(&mut self) {
        if self.machine.state() != State::Stopping
            && let Some(spec) = self.next_spec.take()
        {
            self.machine.set_policy(spec.policy.clone());
            self.spec = spec;
        }
    }
}

#[cfg(test)]
mod tests;
