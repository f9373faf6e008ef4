//! The calling thread's endpoint: its own (tbind), else that of its process.
//!
//! The process's endpoint lies in one place, and one word says who may touch it.
//! The word lies in a page that reads zero in a child by fork: there the place
//! counts as empty, and what it holds is the parent's and is never dropped
//! (its mappings are not the child's; unmapping them would hit what lies there now).
//!
//! | word | the place | who may touch it |
//! |---|---|---|
//! | ABSENT | empty, or the parent's | who turns the word to BUSY, to fill it |
//! | IDLE | a member | who turns the word to BUSY |
//! | BUSY | being used | the thread that turned it |
//!
//! A thread's own endpoint lies in the thread and needs no word, only a flag
//! against a call from within a signal handler.
//!
//! # Safety
//! The place is touched by whoever turned the word to BUSY (acquire, pairs with
//! the release that turned it back), and by nobody else.
#![allow(unsafe_code)]

use crate::guard::Refused;
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use m3ipc::{Address, Code, Endpoint, Timeout};
use std::time::Duration;

const ABSENT: u32 = 0;
const IDLE: u32 = 1;
const BUSY: u32 = 2;

const PAGE_BYTES: usize = 4096;
/// How long another thread of the process may take to fill the place, in milliseconds.
const FILL_TRIES: u32 = 1_000;

/// An endpoint, and what the C API remembers with it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) endpoint: Endpoint,
    /// The client of the request that was taken last and has not been answered.
    pub(crate) held: Option<Address>,
    /// The node's id, once it was asked for.
    pub(crate) nodeid: Option<i32>,
    /// What C knows of areas and blocks.
    pub(crate) blocks: crate::area::Blocks,
}

impl Member {
    /// A request of this client is held no longer.
    #[inline]
    pub(crate) fn answered(&mut self, client: i32) {
        if self.held == Some(Address(client)) {
            self.held = None;
        }
    }
}

/// What reads zero in a child by fork.
struct Page {
    word: AtomicU32,
    /// 1 in the process that has seen to it, 0 in a child that has not yet.
    ours: AtomicU32,
    vm: AtomicI32,
    address: AtomicI32,
}

static PAGE: AtomicPtr<Page> = AtomicPtr::new(null_mut());
/// Rises in each child: endpoints of threads bear the number of the life they were bound in.
static LIFE: AtomicU32 = AtomicU32::new(0);
/// Whether any thread ever had an endpoint of its own.
static THREADS: AtomicBool = AtomicBool::new(false);

struct Place(UnsafeCell<MaybeUninit<Member>>);

// SAFETY: touched only by the thread that holds the word at BUSY; a member may change threads.
unsafe impl Sync for Place {}

const _: () = {
    const fn may_change_threads<T: Send>() {}
    may_change_threads::<Member>();
};

static PLACE: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// A thread's own.
struct Own {
    life: u32,
    busy: bool,
    member: Member,
}

/// Where a thread keeps its own; let go of when the thread ends.
struct OwnPlace(Cell<*mut Own>);

impl Drop for OwnPlace {
    fn drop(&mut self) {
        drop_own(self.0.replace(null_mut()));
    }
}

thread_local! {
    static OWN: OwnPlace = const { OwnPlace(Cell::new(null_mut())) };
}

/// The right to use a member, for one call.
pub(crate) struct Seat {
    member: *mut Member,
    /// The word, of the process's place; none of a thread's own.
    word: Option<&'static AtomicU32>,
}

impl Seat {
    #[inline]
    pub(crate) fn member(&mut self) -> &mut Member {
        // SAFETY: whoever has the seat has the word (or is the thread), so nobody else has a reference.
        unsafe { &mut *self.member }
    }

    /// Unbinds: the member goes, and its place is empty.
    fn leave(mut self) {
        let Some(word) = self.word.take() else {
            let own = OWN.try_with(|own| own.0.replace(null_mut())).unwrap_or(null_mut());
            return drop_own(own);
        };
        // SAFETY: the place is filled, and ours until the word is turned; it counts as empty then.
        drop(unsafe { self.member.read() });
        word.store(ABSENT, Ordering::Release);
    }
}

impl Drop for Seat {
    #[inline]
    fn drop(&mut self) {
        match self.word {
            // Not in a child that was forked from within the call: the word is 0 there, and stays.
            Some(word) => {
                drop(word.compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed))
            }
            None => OWN
                .try_with(|own| {
                    let own = own.0.get();
                    if !own.is_null() {
                        // SAFETY: the thread's own, and the seat's reference ends here.
                        unsafe { (*own).busy = false };
                    }
                })
                .unwrap_or(()),
        }
    }
}

/// Does something with the calling thread's endpoint.
///
/// # Errors
/// -318 without a node, -310 where neither the thread nor its process is bound,
/// -106 where another thread is inside a call on the endpoint, and those of `body`.
#[inline]
pub(crate) fn with<T>(body: impl FnOnce(&mut Member) -> Result<T, Refused>) -> Result<T, Refused> {
    let mut seat = match take()? {
        Some(seat) => seat,
        None => claim()?,
    };
    body(seat.member())
}

/// The seat of the calling thread, if it or its process is bound. One that was
/// unbound by another, or whose VM has ended, is let go of.
#[inline]
pub(crate) fn take() -> Result<Option<Seat>, Refused> {
    if THREADS.load(Ordering::Relaxed)
        && let Some(seat) = take_own()?
    {
        return Ok(Some(seat));
    }
    take_process()
}

#[inline]
fn take_process() -> Result<Option<Seat>, Refused> {
    let Some(page) = page() else { return Ok(None) };
    match page.word.compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => {
            let seat = Seat { member: PLACE.0.get().cast(), word: Some(&page.word) };
            Ok(still_bound(seat))
        }
        Err(ABSENT) => Ok(None),
        Err(_) => Err(Code::NotReady.into()),
    }
}

fn take_own() -> Result<Option<Seat>, Refused> {
    let own = OWN.try_with(|own| own.0.get()).unwrap_or(null_mut());
    if own.is_null() {
        return Ok(None);
    }
    // SAFETY: the thread's own; a seat that is out has set `busy`, and is not aliased below then.
    let (stranger, busy) = unsafe { ((*own).life != life(), (*own).busy) };
    if stranger {
        let own = OWN.try_with(|own| own.0.replace(null_mut())).unwrap_or(null_mut());
        drop_own(own);
        return Ok(None);
    }
    if busy {
        return Err(Code::NotReady.into());
    }
    // SAFETY: as above.
    unsafe { (*own).busy = true };
    // SAFETY: a field of a living allocation.
    let member = unsafe { &raw mut (*own).member };
    Ok(still_bound(Seat { member, word: None }))
}

#[inline]
fn still_bound(mut seat: Seat) -> Option<Seat> {
    if seat.member().endpoint.is_bound() {
        return Some(seat);
    }
    seat.leave();
    None
}

/// Takes the endpoint that another process made for this one, if there is one (lclbind).
#[cold]
fn claim() -> Result<Seat, Refused> {
    match Endpoint::wait_for_bind(Timeout::Now) {
        Ok(endpoint) => settle(endpoint)?,
        Err(error) if error.code == Code::TimedOut => return Err(Code::NotBind.into()),
        // Another thread has just done the same, or binds.
        Err(error) if error.code == Code::SlotUsed => {}
        Err(error) => return Err(error.into()),
    }
    take()?.ok_or(Refused(Code::NotBind))
}

/// Puts the endpoint of the process into its place.
pub(crate) fn settle(endpoint: Endpoint) -> Result<(), Refused> {
    let page = make_page()?;
    let (vm, address) = (endpoint.vm(), endpoint.address());
    let member =
        Member { endpoint, held: None, nodeid: None, blocks: crate::area::Blocks::default() };
    for _ in 0..FILL_TRIES {
        // One that is IDLE has ended: the node has just given out another.
        drop(take_process());
        if page.word.compare_exchange(ABSENT, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            page.vm.store(vm, Ordering::Relaxed);
            page.address.store(address.0, Ordering::Relaxed);
            // SAFETY: ours until the word is turned; what lies there counts as empty.
            unsafe { (*PLACE.0.get()).write(member) };
            page.word.store(IDLE, Ordering::Release);
            return Ok(());
        }
        // A thread is about to leave a call on the endpoint that has ended.
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Code::NotReady.into())
}

/// Gives the calling thread an endpoint of its own.
pub(crate) fn settle_own(endpoint: Endpoint) -> Result<(), Refused> {
    // Known before it is there: the page tells a child from its parent.
    make_page()?;
    drop(take_own());
    let member =
        Member { endpoint, held: None, nodeid: None, blocks: crate::area::Blocks::default() };
    let own = Box::into_raw(Box::new(Own { life: life(), busy: false, member }));
    THREADS.store(true, Ordering::Relaxed);
    match OWN.try_with(|place| place.0.replace(own)) {
        Ok(former) => drop_own(former),
        // The thread is ending.
        Err(_ending) => drop_own(own),
    }
    Ok(())
}

/// VM and address of the calling thread's endpoint, also while another thread is inside a call on it.
pub(crate) fn place() -> Option<(i32, Address)> {
    match take() {
        Ok(Some(mut seat)) => {
            let endpoint = &seat.member().endpoint;
            Some((endpoint.vm(), endpoint.address()))
        }
        Ok(None) => None,
        Err(_busy) => {
            let page = page()?;
            Some((page.vm.load(Ordering::Relaxed), Address(page.address.load(Ordering::Relaxed))))
        }
    }
}

/// Unbinds the calling thread's endpoint, or its process's, where it is this one; `false` where neither is.
///
/// # Errors
/// -106 where another thread is inside a call on it.
pub(crate) fn leave(vm: i32, address: Address) -> Result<bool, Refused> {
    for take in [take_own, take_process] {
        let Some(mut seat) = take()? else { continue };
        let endpoint = &seat.member().endpoint;
        if (endpoint.vm(), endpoint.address()) == (vm, address) {
            seat.leave();
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets go of a thread's own; one of before a fork is the parent's and stays as it is.
fn drop_own(own: *mut Own) {
    if own.is_null() {
        return;
    }
    // SAFETY: made by `settle_own` and taken out of the thread's place by whoever calls this.
    let own = unsafe { Box::from_raw(own) };
    if own.life == life() { drop(own) } else { core::mem::forget(own) }
}

#[inline]
fn page() -> Option<&'static Page> {
    // Pairs with the release of the thread that made the page.
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: null, or a page that is never unmapped and of which every pattern is valid.
    unsafe { page.as_ref() }
}

/// The number of this process's life: of another one than that of its parent.
fn life() -> u32 {
    if let Some(page) = page()
        && page.ours.load(Ordering::Relaxed) == 0
        && page.ours.swap(1, Ordering::Relaxed) == 0
    {
        LIFE.fetch_add(1, Ordering::Relaxed);
    }
    LIFE.load(Ordering::Relaxed)
}

/// The page, made where there is none yet.
fn make_page() -> Result<&'static Page, Refused> {
    if let Some(page) = page() {
        return Ok(page);
    }
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let made = unsafe { libc::mmap(null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
    if made == libc::MAP_FAILED {
        return Err(Code::NoMem.into());
    }
    // SAFETY: the range is exactly the new mapping.
    let wiped = unsafe { libc::madvise(made, PAGE_BYTES, libc::MADV_WIPEONFORK) } == 0;
    // Published with release: pairs with the load in `page`. Another thread may have been first.
    let published = wiped
        && PAGE
            .compare_exchange(null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
    if !published {
        // SAFETY: our own mapping, which nobody else has seen.
        unsafe { libc::munmap(made, PAGE_BYTES) };
    }
    page().ok_or(Refused(Code::NoMem))
}
