//! Eight pairs in steady numbered traffic, and visitors that bind, call a server and leave.

use m3ipc_crash::{CallLog, CrashFixture, Peer, Verdict};
use m3ipc_test_fixture::Rng;

/// Numbers that one client or visitor may use.
const NUMBERS: u64 = 10_000_000;
/// The largest number of visitors at a time.
const VISITORS_MAX: usize = 4;

/// The pairs, and the log of every number.
pub struct Pairs {
    servers: Vec<Peer>,
    clients: Vec<Peer>,
    log: CallLog,
    unknown: Vec<String>,
}

impl Pairs {
    pub fn start(fixture: &CrashFixture, pairs: usize) -> Self {
        let mut servers = Vec::new();
        let mut clients = Vec::new();
        for slot in 1..=pairs {
            let mut server = fixture.peer("load-server", &["chaos", &slot.to_string()]);
            server.bound();
            let first = (slot as u64 * NUMBERS).to_string();
            let mut client =
                fixture.peer("load-client", &["chaos", &slot.to_string(), &first, "300"]);
            client.bound();
            servers.push(server);
            clients.push(client);
        }
        Self { servers, clients, log: CallLog::default(), unknown: Vec::new() }
    }

    pub fn note(&mut self, line: String) {
        let known = self.log.note(&line) || line == "done" || line.starts_with("bound ");
        if !known {
            self.unknown.push(line);
        }
    }

    pub fn collect(&mut self) {
        let said: Vec<String> =
            self.servers.iter_mut().chain(&mut self.clients).flat_map(Peer::said).collect();
        said.into_iter().for_each(|line| self.note(line));
    }

    /// Ends the clients, which finish their calls, then the servers.
    pub fn end(mut self) -> (Verdict, Vec<String>) {
        for mut client in std::mem::take(&mut self.clients) {
            client.finish();
            client.rest().into_iter().for_each(|line| self.note(line));
            assert!(client.succeeded(), "a client succeeds");
        }
        for mut server in std::mem::take(&mut self.servers) {
            server.kill();
            server.rest().into_iter().for_each(|line| self.note(line));
        }
        // No member has died, so no caller may get a code.
        (self.log.verdict(&[]), self.unknown)
    }
}

/// Processes that are bound for a short time.
#[derive(Default)]
pub struct Visitors {
    here: Vec<Peer>,
    said: Vec<String>,
    came: u64,
}

impl Visitors {
    /// Starts another visitor, and reads the output of those that have ended.
    pub fn come(&mut self, fixture: &CrashFixture, rng: &mut Rng, pairs: usize) {
        let (gone, here): (Vec<_>, Vec<_>) = std::mem::take(&mut self.here)
            .into_iter()
            .map(|mut peer| (peer.has_ended(), peer))
            .partition(|(ended, _)| *ended);
        self.here = here.into_iter().map(|(_, peer)| peer).collect();
        for (_, mut peer) in gone {
            self.said.extend(peer.rest());
        }
        if self.here.len() < VISITORS_MAX {
            self.came += 1;
            let first = (NUMBERS * 20 + self.came * 1_000).to_string();
            let server = (rng.index(pairs) + 1).to_string();
            self.here.push(fixture.peer("visitor", &["chaos", &server, &first, "20"]));
        }
    }

    /// Waits until all have left; their number.
    pub fn end(mut self, pairs: &mut Pairs) -> u64 {
        for peer in &mut self.here {
            self.said.extend(peer.rest());
        }
        std::mem::take(&mut self.said).into_iter().for_each(|line| pairs.note(line));
        self.came
    }
}
