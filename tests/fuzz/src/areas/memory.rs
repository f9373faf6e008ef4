//! The memory of the area and of the three ledgers: mapped once, and cleared before each run.

use m3ipc_abi::Extent;
use m3ipc_area::{LedgerWords, OwnLedgerWords, RECORD_WORDS, ledger_bytes};
use m3ipc_shm::{FixedRegion, Observed, Shared};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of the area.
pub(super) const AREA: u32 = 7;
/// Members of the area.
pub(super) const MEMBERS: u16 = 3;
/// The hostile one.
pub(super) const HOSTILE: u16 = 1;
/// Block numbers of one extent.
pub(super) const NUMBERS_OF_EXTENT: u8 = 16;
/// Block numbers of the area.
pub(super) const NUMBERS: u32 = NUMBERS_OF_EXTENT as u32 * MEMBERS as u32;
/// Words of a ledger.
pub(super) const LEDGER_WORDS: usize = NUMBERS as usize * RECORD_WORDS;
/// Size of an extent in bytes.
pub(super) const EXTENT_BYTES: u64 = 64 * 1024;
/// Size of the area in bytes.
pub(super) const AREA_BYTES: u64 = EXTENT_BYTES * MEMBERS as u64;
/// The address of the area: that of the first area of a VM.
const BASE: u64 = 0x2000_0000_0000;

/// The extent of a member at the start.
pub(super) fn extent(member: u16) -> Extent {
    Extent {
        allocator: member,
        offset: u64::from(member) * EXTENT_BYTES,
        bytes: EXTENT_BYTES,
        first_number: u32::from(member) * u32::from(NUMBERS_OF_EXTENT),
        numbers: u32::from(NUMBERS_OF_EXTENT),
        generation: u32::from(member) * 1000,
    }
}

/// The writes of the hostile member, now and at a later load.
#[derive(Debug)]
pub(super) struct Script {
    ledger: Rc<Shared>,
    later: RefCell<VecDeque<(u8, usize, u64)>>,
}

impl Script {
    /// Writes a word of the hostile ledger.
    pub(super) fn write(&self, at: usize, value: u64) {
        self.ledger.word64(8 * at).store(value, Ordering::Release);
    }

    /// Writes it after so many loads of any ledger.
    pub(super) fn schedule(&self, loads: u8, at: usize, value: u64) {
        self.later.borrow_mut().push_back((loads, at, value));
    }

    fn note_load(&self) {
        let mut later = self.later.borrow_mut();
        match later.front_mut() {
            None => {}
            Some((0, at, value)) => {
                self.write(*at, *value);
                later.pop_front();
            }
            Some((loads, ..)) => *loads -= 1,
        }
    }
}

/// A ledger as another member or the daemon sees it.
#[derive(Clone, Debug)]
pub(super) struct View {
    words: Rc<Observed>,
    script: Rc<Script>,
}

impl LedgerWords for View {
    fn load(&self, at: usize) -> u64 {
        self.script.note_load();
        self.words.load(at)
    }
}

/// A ledger as its sound owner sees it.
#[derive(Clone, Debug)]
pub(super) struct Own(Rc<Shared>);

impl LedgerWords for Own {
    fn load(&self, at: usize) -> u64 {
        LedgerWords::load(&*self.0, at)
    }
}

impl OwnLedgerWords for Own {
    fn store(&self, at: usize, value: u64) {
        self.0.store(at, value);
    }

    fn fence(&self) {
        self.0.fence();
    }
}

/// All memory of one thread.
#[derive(Debug)]
pub(super) struct Ledgers {
    pub(super) own: Vec<Own>,
    pub(super) views: Vec<View>,
    pub(super) script: Rc<Script>,
    pub(super) region: Option<Arc<FixedRegion>>,
}

thread_local! {
    static LEDGERS: Ledgers = Ledgers::map();
}

impl Ledgers {
    /// Runs `use_them` with cleared ledgers.
    pub(super) fn with(use_them: impl FnOnce(&Self)) {
        LEDGERS.with(|ledgers| {
            for own in &ledgers.own {
                (0..LEDGER_WORDS).for_each(|at| own.store(at, 0));
            }
            ledgers.script.later.borrow_mut().clear();
            use_them(ledgers);
        });
    }

    fn map() -> Self {
        let bytes = ledger_bytes(NUMBERS);
        let memory: Vec<_> = (0..MEMBERS)
            .map(|_| m3ipc_sys::create_sparse("m3-fuzz", bytes as u64, false).expect("memory"))
            .collect();
        let own: Vec<_> = memory
            .iter()
            .map(|memory| Own(Rc::new(Shared::map_sparse(memory, bytes).expect("a ledger"))))
            .collect();
        let script = Rc::new(Script {
            ledger: Rc::clone(&own[usize::from(HOSTILE)].0),
            later: RefCell::default(),
        });
        let view = |memory| View {
            words: Rc::new(Observed::map_sparse(memory, bytes).expect("a ledger")),
            script: Rc::clone(&script),
        };
        let views = memory.iter().map(view).collect();
        let area = m3ipc_sys::create_sparse("m3-fuzz", AREA_BYTES, false).expect("memory");
        let bytes = usize::try_from(AREA_BYTES).expect("a small area");
        // Another thread of this process may have mapped another area there.
        let region = FixedRegion::map_at(&area, BASE, bytes, true).ok();
        Self { own, views, script, region }
    }
}
