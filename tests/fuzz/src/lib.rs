//! The bodies of the fuzz targets: bytes of a hostile peer against the product's own code.
//!
//! The targets of `fuzz/` call these functions, and the test `corpus` replays the files of
//! `corpus/TARGET` with stable Rust. Each function panics where the product breaks a promise.
//!
//! | target | the bytes are | the code that reads them |
//! |---|---|---|
//! | [`frames()`] | frames of members and of the daemon, records of the journal | wire, daemon |
//! | [`packets()`] | packets of another node, and a whole conversation with it | fabric |
//! | [`links()`] | the page of a link | link |
//! | [`areas()`] | the ledger of a hostile member, and the names that it sends | area, shm |
//! | [`rings()`] | the memory and the socket of a com-socket | sockets |
//! | [`regions()`] | the file of a pair, and the socket beside it | shim |

mod areas;
mod frames;
mod input;
mod links;
mod packets;
mod regions;
mod rings;

pub use areas::areas;
pub use frames::frames;
pub use links::links;
pub use packets::packets;
pub use regions::regions;
pub use rings::rings;

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("frames", frames),
    ("packets", packets),
    ("links", links),
    ("areas", areas),
    ("rings", rings),
    ("regions", regions),
];
