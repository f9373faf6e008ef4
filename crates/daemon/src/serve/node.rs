//! The node as a whole: drvs_init, drvs_end, info.

use crate::connection::Deferred;
use crate::server::Server;
use crate::settings::{self, SettingsError};
use m3ipc_abi::Code;
use m3ipc_model::tables::{Credentials, Node, Quota};
use m3ipc_wire::{NodeInfo, NodeParams, Reply};

impl Server {
    pub(super) fn node_init(&mut self, token: u64, params: &NodeParams) {
        if self.initialised {
            return self.refuse(
                token,
                Code::DrvsBusy,
                "the node is initialised already; use it, or end it with `m3 down`",
            );
        }
        match settings::join(&self.settings.node, params) {
            Ok((nodeid, limits)) => {
                self.node = Node::new(nodeid, limits, Quota::default());
                self.initialised = true;
                self.node.drain_records();
                self.begin_journal();
                tracing::info!(nodeid, ?limits, "node initialised");
                self.reply_number(token, nodeid);
            }
            Err(error) => {
                let code = match error {
                    SettingsError::NodeId { .. } => Code::BadNodeId,
                    SettingsError::Limits(_) => Code::BadRange,
                    _ => Code::BadValue,
                };
                self.refuse(token, code, error);
            }
        }
    }

    pub(super) fn node_end(&mut self, token: u64, cred: &Credentials) {
        if !cred.is_root() && cred.uid != m3ipc_sys::user_id() {
            return self.refuse(
                token,
                Code::Privileges,
                "only root and the daemon's own user may end a node",
            );
        }
        let root = Credentials::new(0, 0, cred.pid);
        let vms: Vec<i32> = self.node.list(&root).iter().map(|vm| vm.id).collect();
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.waits_for = Some(Deferred::NodeEnd);
        }
        for vm in vms {
            // One that is ending already goes on ending.
            if self.node.begin_end(vm, &root).is_ok() {
                self.record();
                self.end_members(vm, Some(cred.pid));
            }
        }
        if self.has_no_vms() {
            self.finish_node();
        }
    }

    pub(super) fn node_info(&mut self, token: u64) {
        let limits = self.node.limits();
        let info = NodeInfo {
            nodeid: self.node.nodeid(),
            initialised: self.initialised,
            vms: limits.vms,
            nodes: limits.nodes,
            procs: limits.procs,
            tasks: limits.tasks,
            daemon_pid: m3ipc_sys::process_id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            links: u32::try_from(self.held.len().div_ceil(2)).unwrap_or(u32::MAX),
            endpoints: u32::try_from(self.present.len()).unwrap_or(u32::MAX),
            takeovers: self.takeovers,
        };
        self.reply(token, Reply::Node(info), Vec::new());
    }
}
