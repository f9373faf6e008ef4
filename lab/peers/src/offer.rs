//! What this driver has, as `m3 bench` asks for it.

use m3ipc_bench::mechanism::Mechanism;
use m3ipc_bench::mechanism::outside::{LIBRARIES, Offer, Offered};

/// A library that was built in.
struct Built {
    library: &'static str,
    version: fn() -> String,
    mechanism: &'static dyn Mechanism,
    /// Removes what its killed processes have left behind, where it can do that at all.
    tidy: fn(),
}

const BUILT: &[Built] = &[
    #[cfg(feature = "iceoryx2")]
    Built {
        library: "iceoryx2",
        version: || env!("VERSION_ICEORYX2").into(),
        mechanism: &crate::iceoryx::Iceoryx,
        tidy: crate::iceoryx::tidy,
    },
    #[cfg(feature = "zeromq")]
    Built {
        library: "zeromq",
        version: crate::zeromq::version,
        mechanism: &crate::zeromq::ZeroMq,
        tidy: || {},
    },
    #[cfg(feature = "nng")]
    Built {
        library: "nng",
        version: || env!("VERSION_NNG").into(),
        mechanism: &crate::nng::Nng,
        tidy: || {},
    },
    #[cfg(feature = "ipc-channel")]
    Built {
        library: "ipc-channel",
        version: || env!("VERSION_IPC_CHANNEL").into(),
        mechanism: &crate::ipc_channel::IpcChannel,
        tidy: || {},
    },
    #[cfg(feature = "zenoh")]
    Built {
        library: "zenoh",
        version: || env!("VERSION_ZENOH").into(),
        mechanism: &crate::zenoh::Zenoh,
        tidy: || {},
    },
];

/// All mechanisms of all libraries that were built in.
pub fn mechanisms() -> Vec<&'static dyn Mechanism> {
    BUILT.iter().map(|built| built.mechanism).collect()
}

/// What there is of each library.
pub fn offers() -> Vec<Offer> {
    LIBRARIES.into_iter().map(offer).collect()
}

/// Removes what killed processes of these libraries have left behind.
pub fn tidy() {
    BUILT.iter().for_each(|built| (built.tidy)());
}

fn offer(library: &str) -> Offer {
    let Some(built) = BUILT.iter().find(|built| built.library == library) else {
        let missing = format!("this m3-peers was built without it; build it with --features {library}");
        return Offer {
            library: library.into(),
            version: String::new(),
            mechanisms: vec![],
            missing: Some(missing),
        };
    };
    let mechanism = Offered {
        name: built.mechanism.name().into(),
        waits: built.mechanism.waits().to_vec(),
        tells_death: built.mechanism.tells_death(),
    };
    Offer { library: library.into(), version: (built.version)(), mechanisms: vec![mechanism], missing: None }
}
