//! `m3 send`: sends a message.

use crate::cli::Common;
use crate::content::Content;
use crate::fail::Result;
use crate::out::Out;
use crate::reach::{self, Target};
use clap::Args;
use m3ipc::{Address, Endpoint, Node, Vm};

/// Where a message goes.
#[derive(Args, Clone, Debug)]
pub struct To {
    #[command(flatten)]
    pub common: Common,
    /// VM/NAME or VM/NUMBER.
    #[arg(value_name = "TARGET")]
    pub target: Target,
    /// How long it may take as a whole, 0 for not at all, -1 for ever.
    #[arg(long, value_name = "MS", default_value_t = -1, allow_negative_numbers = true)]
    pub timeout: i64,
    /// Be this endpoint meanwhile: a slot or a name.
    #[arg(long = "as", value_name = "NAME|SLOT", allow_negative_numbers = true)]
    pub bind_as: Option<String>,
    /// Wait until somebody is there (within the time limit).
    #[arg(long)]
    pub wait: bool,
}

/// Who talks to whom.
pub struct Talk {
    /// The node.
    pub node: Node,
    /// The VM of both.
    pub vm: Vm,
    /// This process's endpoint.
    pub own: Endpoint,
    /// The target's address.
    pub to: Address,
}

impl To {
    /// Binds this process and finds the target.
    pub fn begin(&self) -> Result<Talk> {
        let mut node = reach::node(&self.common)?;
        let vm = reach::vm(&mut node, &self.target.vm)?;
        let mut own = reach::bind(&vm, self.bind_as.as_deref())?;
        let wait = self.wait.then(|| reach::limit(self.timeout));
        let to = reach::address(&mut node, &vm, &mut own, &self.target.endpoint, wait)?;
        Ok(Talk { node, vm, own, to })
    }
}

/// Send a message.
#[derive(Args, Debug)]
pub struct Send {
    #[command(flatten)]
    pub to: To,
    #[command(flatten)]
    content: Content,
}

/// Sends it; returns when it has been taken.
pub fn run(args: &Send, out: Out) -> Result<()> {
    let (message, long) = args.content.message()?;
    let mut talk = args.to.begin()?;
    talk.own.send_long(talk.to, &message, &long, reach::limit(args.to.timeout))?;
    let from = talk.own.address();
    let value = serde_json::json!({ "from": from.0, "to": talk.to.0, "taken": true });
    out.either(&value, format!("{} has taken it", talk.to))
}
