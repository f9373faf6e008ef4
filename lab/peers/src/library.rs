//! The libraries of this driver, as subjects of the benchmark.

use m3ipc_bench::Error;
use m3ipc_bench::job::{Load, Report};
use m3ipc_bench::outside::{LIBRARIES, Offer, Offered};
use m3ipc_bench::run::Run;
use m3ipc_bench::subject::{Inherited, Opened, Site, Subject};
use m3ipc_report::schema::Wait;

/// A library that was built in.
pub struct Library {
    /// Its name, which is that of its mechanism.
    pub name: &'static str,
    /// Its version.
    pub version: fn() -> String,
    /// Its wait modes.
    pub waits: &'static [Wait],
    /// Whether a client gets an error when its server dies.
    pub tells_death: bool,
    /// Runs the client of the pair with this name.
    pub client: fn(&Run, &str) -> Result<Report, Error>,
    /// Runs the server of the pair with this name.
    pub server: fn(&Run, &str) -> Result<Report, Error>,
    /// Removes objects that its killed processes left behind.
    pub tidy: fn(),
}

/// The libraries.
const BUILT: &[Library] = &[
    #[cfg(feature = "iceoryx2")]
    crate::iceoryx::LIBRARY,
    #[cfg(feature = "zeromq")]
    crate::zeromq::LIBRARY,
    #[cfg(feature = "nng")]
    crate::nng::LIBRARY,
    #[cfg(feature = "ipc-channel")]
    crate::ipc_channel::LIBRARY,
    #[cfg(feature = "grpc")]
    crate::grpc::LIBRARY,
    #[cfg(feature = "dbus")]
    crate::dbus::LIBRARY,
    #[cfg(feature = "zenoh")]
    crate::zenoh::LIBRARY,
    #[cfg(feature = "tachyon")]
    crate::tachyon::LIBRARY,
    #[cfg(feature = "shmem-ipc")]
    crate::shmem_ipc::LIBRARY,
];

impl Subject for Library {
    fn name(&self) -> &'static str {
        self.name
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        if load.test.is_ipc2() { self.waits } else { &[] }
    }

    fn tells_death(&self) -> bool {
        self.tells_death
    }

    fn open(&self, _: &Site, _: &Load) -> Result<Opened, Error> {
        Err(Error::Usage("the supervisor opens a pair".into()))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let run_role = if run.is_client() { self.client } else { self.server };
        run_role(run, inherited.name()?)
    }
}

/// All subjects.
pub fn subjects() -> Vec<&'static dyn Subject> {
    BUILT.iter().map(|library| library as &dyn Subject).collect()
}

/// The answer about each known library.
pub fn offers() -> Vec<Offer> {
    LIBRARIES.into_iter().map(offer).collect()
}

/// Removes objects that killed processes of these libraries left behind.
pub fn tidy() {
    BUILT.iter().for_each(|library| (library.tidy)());
}

fn offer(name: &str) -> Offer {
    let library: String = name.into();
    let Some(built) = BUILT.iter().find(|built| built.name == name) else {
        let why = format!("this m3-peers was built without it; build it with --features {name}");
        return Offer { library, version: String::new(), mechanisms: vec![], missing: Some(why) };
    };
    let (waits, tells_death) = (built.waits.to_vec(), built.tells_death);
    let mechanism = Offered { name: name.into(), waits, tells_death };
    Offer { library, version: (built.version)(), mechanisms: vec![mechanism], missing: None }
}
