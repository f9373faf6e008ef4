//! The end of trouble: partitions heal, and all nodes run.

use crate::network::{MS, Pair};
use crate::world::{Checked, World};

impl World {
    pub fn heal(&mut self, link: Pair) -> Checked {
        let Some(since_ns) = self.network.heal(link) else { return Ok(()) };
        let steady = [link.0, link.1].iter().all(|id| {
            let node = &self.nodes[usize::from(id.0) - 1];
            node.is_up && !node.paused && node.ahead_ns == 0
        });
        if steady && self.now_ns - since_ns > 8000 * MS {
            for (id, peer) in [link, (link.1, link.0)] {
                if self.at(id).machine.is_reachable(peer) {
                    return Err(format!("node {} did not notice the silence of {}", id.0, peer.0));
                }
            }
        }
        // A transport gives up what it could not send.
        for connection in self.network.connections_of(link) {
            if self.rng.bool() {
                self.network.disconnect(link, connection, self.now_ns, &mut self.rng);
            }
        }
        Ok(())
    }

    pub fn begin_healing(&mut self) -> Checked {
        self.healing = true;
        self.network.lossy = false;
        let ids = self.ids();
        for id in &ids {
            self.at(*id).paused = false;
            if !self.at(*id).is_up {
                self.restart(*id)?;
            }
            for other in ids.iter().filter(|other| id < *other) {
                self.heal((*id, *other))?;
            }
        }
        Ok(())
    }
}
