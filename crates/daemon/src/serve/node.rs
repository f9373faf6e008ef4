//! The node as a whole: `drvs_init`, `drvs_end`, info.

use crate::server::Server;
use crate::settings::{self, SettingsError};
use crate::state::connection::Deferred;
use crate::tables::{self, Credentials, Node, NodeTerms};
use crate::token::Token;
use m3ipc_abi::{Code, VM_NAME_MAX_BYTES};
use m3ipc_wire::{NodeInfo, NodeParams, Reply};

impl Server {
    pub(super) fn node_init(&mut self, token: Token, params: &NodeParams) {
        if self.lifecycle.is_initialised() {
            let why = "the node is initialised already; use it, or end it with `m3 down`";
            return self.refuse(token, Code::DrvsBusy, why);
        }
        if params.name.as_ref().is_some_and(|name| name.len() > VM_NAME_MAX_BYTES) {
            let why = format!("the name of the system has over {VM_NAME_MAX_BYTES} bytes");
            return self.refuse(token, Code::BadValue, format!("{why}; give a shorter one"));
        }
        match settings::resolve_node(&self.settings.node, params) {
            Ok((nodeid, limits)) => {
                let default = NodeTerms::default();
                let terms = NodeTerms {
                    name: params.name.clone().unwrap_or(default.name),
                    max_copy_bytes: params.max_copy_bytes,
                    by_call: true,
                };
                self.node = Node::with_terms(nodeid, limits, terms, self.node.quota());
                self.lifecycle.initialise();
                self.node.drain_records();
                self.rewrite_journal();
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

    pub(super) fn node_end(&mut self, token: Token, cred: &Credentials) {
        // User 0 ends its own node without the capability only where its daemon has none either.
        let own = m3ipc_sys::user_id();
        let is_owner = cred.is_daemons(own) && (own != 0 || !m3ipc_sys::may_signal_others());
        if !is_owner && !cred.may_end() {
            let who = if own == 0 { "" } else { "the daemon's own user and " };
            let why = format!("only {who}{} may end a node; ask for it there", tables::MAY_END);
            return self.refuse(token, Code::Privileges, why);
        }
        let root = Credentials::administrator(cred.pid);
        let vms: Vec<i32> = self.node.vms().map(|vm| vm.id()).collect();
        self.defer(token, Deferred::NodeEnd);
        for vm in vms {
            // A VM that is ending already goes on with its end.
            if let Ok(ending) = self.node.begin_end(vm, &root) {
                self.record();
                self.complete_tickets(&ending.tickets, Code::VmNotRun.number());
                self.end_members(vm, Some(cred.pid));
            }
        }
        self.finish_node_if_empty();
    }

    pub(super) fn node_info(&mut self, token: Token) {
        let limits = self.node.limits();
        let info = NodeInfo {
            nodeid: self.node.nodeid(),
            initialised: self.lifecycle.is_initialised(),
            vms: limits.vms,
            nodes: limits.nodes,
            procs: limits.procs,
            tasks: limits.tasks,
            daemon_pid: m3ipc_sys::process_id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            links: u32::try_from(self.links.count()).unwrap_or(u32::MAX),
            endpoints: u32::try_from(self.connections.attached_count()).unwrap_or(u32::MAX),
            takeovers: self.lifecycle.takeovers(),
            name: self.node.terms().name.clone(),
            max_copy_bytes: self.node.terms().max_copy_bytes,
        };
        self.reply(token, Reply::Node(info), Vec::new());
    }
}
