//! m3ipc among the mechanisms of messages.
//!
//! A VM of the run's node, a server with a name in it, and clients that wait for that name.

mod ends;
mod many;
mod sequences;

use m3ipc_report::schema::{Family, Wait};

use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::payload::MESSAGE_BYTES;
use crate::run::Run;
use crate::subject::{Cleanup, Inherited, Opened, Site, Subject};
use crate::subjects::node::{self, BenchVm, VmPeer};

pub use many::most_clients;
pub use sequences::{ADAPTIVE_TRIPS, STOP};

/// m3ipc.
pub struct M3ipc;

impl Subject for M3ipc {
    fn name(&self) -> &'static str {
        node::OWNER
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self, _: &Load) -> &'static [Wait] {
        &[Wait::Spin, Wait::Adaptive, Wait::Block]
    }

    fn bytes(&self, load: &Load) -> usize {
        if load.test == Test::Ipc3 { 0 } else { MESSAGE_BYTES }
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        let vm = BenchVm::with_room(site, load.count)?;
        let server = || vm.inherited("server");
        let opened = match load.test {
            Test::Clients if load.count > 1 => {
                let opened = Opened::default().with(Role::Server, server());
                let opened = opened.then(Role::Idle, server());
                let further = 1..many::idle_processes(load.count());
                let opened = further.fold(opened, |opened, _| opened.with(Role::Idle, server()));
                opened.then(Role::Client, server())
            }
            Test::Clients => {
                Opened::default().with(Role::Server, server()).then(Role::Client, server())
            }
            Test::Straight => Opened::alone(server()),
            Test::Fairness => {
                Opened::default().with(Role::Server, server()).then(Role::Idle, server())
            }
            Test::Mesh => Opened::default().with(Role::Idle, server()).then(Role::Idle, server()),
            _ => {
                let mut number = 0;
                Opened::pairs(load.count(), || {
                    number += 1;
                    let name = format!("server-{number}");
                    Ok((vm.inherited(&name), vm.inherited(&name)))
                })?
            }
        };
        Ok(opened.keeping(vm))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let peer = VmPeer::new(&inherited)?;
        match (run.load().test, run.job().role) {
            (Test::Mesh, _) => many::mesh(&peer, run),
            (Test::Fairness, Role::Idle) => many::equal_clients(&peer, run),
            (_, Role::Idle) => many::idle_clients(&peer, run),
            (Test::Straight, _) => sequences::straight(&peer, run),
            (Test::Contact, Role::Client) => sequences::contacts(&peer, run),
            (_, Role::Client) => ends::client(&peer, run),
            _ => ends::server(&peer, run),
        }
    }

    fn guard(&self, names: &[String]) -> Result<Cleanup, Error> {
        node::guard(names)
    }
}
