//! The death watcher: it sleeps on the liveness locks of all members.
//!
//! The kernel marks a liveness lock when its thread begins to end. A pidfd becomes readable only
//! after the kernel has freed the memory of the process. A mark alone is no proof: a thread may end
//! while its process goes on, and the member can write the word itself. The watcher therefore reads
//! the state of the process in /proc. The process counts as dead when none of its threads will run
//! a program's code again.

use crate::token::Token;
use m3ipc_link::ControlPageView;
use m3ipc_sys::{
    Errno, LIVENESS_OWNER_DIED, LIVENESS_OWNER_MASK, LIVENESS_WAITERS, WAIT_WORDS_MAX,
};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The watched words of one thread. One more word ends its sleep.
const WORDS_PER_THREAD: usize = WAIT_WORDS_MAX - 1;
/// The number of watcher threads. Pidfds alone report the deaths of further endpoints.
const THREADS_MAX: usize = 16;
/// The number of reads of /proc while the other threads of a process still run.
const PROC_READS: u32 = 64;
/// The pause between two reads of /proc.
const PROC_PAUSE: Duration = Duration::from_micros(20);
/// Wake-ups without a change after which a word is watched no longer.
const IDLE_WAKES_MAX: u32 = 8;
const SLEEP_NS: u64 = 3_600_000_000_000;
/// Size of a token in the pipe, in bytes.
const TOKEN_BYTES: usize = size_of::<u64>();
/// In place of a token, which no connection has: a token follows soon, or a withdrawal.
const NOTICE: u64 = 0;
/// In place of a token: no token follows soon. The mark was no death, or other threads of the
/// process still run.
const WITHDRAWAL: u64 = u64::MAX;
/// The longest wait for the token after a notice, in nanoseconds.
const NOTICE_NS: u64 = 50_000;
/// The least time between two yields of the CPU.
const YIELD_PERIOD_NS: u64 = 10_000_000;

/// Bounds the yields of the daemon. On a busy CPU a yield costs the time slice of another task, and
/// a member can cause yields.
#[derive(Debug, Default)]
pub(crate) struct YieldLimit {
    next_ns: u64,
}

impl YieldLimit {
    /// Whether the daemon may yield now, which this notes as done.
    pub(crate) fn may_yield(&mut self) -> bool {
        let now_ns = m3ipc_sys::monotonic_ns();
        let may = now_ns >= self.next_ns;
        if may {
            self.next_ns = now_ns + YIELD_PERIOD_NS;
        }
        may
    }
}

/// The liveness lock of one endpoint.
#[derive(Debug)]
struct WatchedWord {
    /// The endpoint's connection.
    token: Token,
    pid: i32,
    /// The thread of a thread's endpoint.
    tid: Option<i32>,
    control_page: Arc<ControlPageView>,
    /// The last value of the word. Any change but the kernel's mark comes from the member, and
    /// ends the watch.
    value: u32,
    /// Wake-ups without a change. Only the member makes them.
    idle_wakes: u32,
}

/// One thread of the watcher.
#[derive(Debug, Default)]
pub(crate) struct WatcherThread {
    words: Mutex<Vec<WatchedWord>>,
    /// The futex word that ends the thread's sleep.
    changed: AtomicU32,
    /// Whether the thread has ended: it had no words left, or the kernel refused its wait.
    closed: AtomicBool,
}

/// The daemon's side of the watcher.
#[derive(Debug)]
pub(crate) struct DeathWatcher {
    threads: Vec<Arc<WatcherThread>>,
    reader: PipeReader,
    writer: Arc<PipeWriter>,
    yields: YieldLimit,
}

/// What the threads have written to the pipe.
#[derive(Debug, Default)]
struct ReadTokens {
    tokens: Vec<Token>,
    /// Whether there is no token yet, and one follows soon.
    is_announced: bool,
}

impl DeathWatcher {
    /// A watcher with one thread and no words.
    pub(crate) fn new() -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let (threads, yields) = (Vec::new(), YieldLimit::default());
        let mut watcher = Self { threads, reader, writer: Arc::new(writer), yields };
        watcher.start_thread(true);
        Ok(watcher)
    }

    /// The pipe that is readable when [`Self::take_ended`] has a result.
    pub(crate) fn reader(&self) -> &PipeReader {
        &self.reader
    }

    /// Watches the liveness lock of a control page, if its owner has locked it. An owner may have
    /// ended meanwhile.
    pub(crate) fn watch(
        &mut self,
        token: Token,
        pid: i32,
        tid: Option<i32>,
        control_page: &Arc<ControlPageView>,
    ) {
        // The kernel wakes a futex only if the waiters bit is set.
        let lock = control_page.liveness_lock();
        let value = lock.fetch_or(LIVENESS_WAITERS, Ordering::AcqRel) | LIVENESS_WAITERS;
        let has_ended = value & LIVENESS_OWNER_DIED != 0;
        if value & LIVENESS_OWNER_MASK == 0 && !has_ended {
            return;
        }
        // A mark that the thread does not know yet is news to it.
        let value = if has_ended { value & !LIVENESS_OWNER_DIED } else { value };
        let Some(thread) = self.thread_with_room() else { return };
        let mut words = thread.words();
        // The thread may just have closed. That is rare, and the pidfd reports this death.
        if !thread.closed.load(Ordering::Acquire) {
            let control_page = Arc::clone(control_page);
            words.push(WatchedWord { token, pid, tid, control_page, value, idle_wakes: 0 });
            drop(words);
            thread.wake();
        }
    }

    /// Ends the watch of this connection's liveness lock.
    pub(crate) fn unwatch(&mut self, token: Token) {
        for thread in &self.threads {
            let mut words = thread.words();
            if let Some(at) = words.iter().position(|word| word.token == token) {
                words.swap_remove(at);
                drop(words);
                return thread.wake();
            }
        }
    }

    /// The connections whose processes or threads are ending. Call it when the pipe is readable.
    pub(crate) fn take_ended(&mut self) -> Vec<Token> {
        let mut read = self.read_tokens();
        // A notice comes ahead of its token by the time of a look into /proc. That is less than
        // the time of another sleep.
        if read.is_announced {
            let until_ns = m3ipc_sys::monotonic_ns() + NOTICE_NS;
            // The watcher thread may need this CPU for its look.
            let may_yield = self.yields.may_yield();
            while read.is_announced && m3ipc_sys::monotonic_ns() < until_ns {
                match m3ipc_sys::wait_readable(&[self.reader.as_fd()], 0) {
                    Ok(true) => read = self.read_tokens(),
                    _ if may_yield => m3ipc_sys::yield_cpu(),
                    _ => m3ipc_sys::relax(),
                }
            }
        }
        read.tokens
    }

    fn read_tokens(&mut self) -> ReadTokens {
        let mut buffer = [0; 64 * TOKEN_BYTES];
        // A thread writes each token in one piece.
        let bytes = self.reader.read(&mut buffer).unwrap_or(0);
        let tokens = buffer[..bytes].chunks_exact(TOKEN_BYTES);
        let numbers = tokens.filter_map(|token| Some(u64::from_ne_bytes(token.try_into().ok()?)));
        let mut read = ReadTokens::default();
        for number in numbers {
            read.is_announced = number == NOTICE && read.tokens.is_empty();
            if number != NOTICE && number != WITHDRAWAL {
                read.tokens.push(Token::of(number));
            }
        }
        read
    }

    /// A thread with room for a word; starts a thread if none has room.
    fn thread_with_room(&mut self) -> Option<Arc<WatcherThread>> {
        let has_room = |thread: &&Arc<WatcherThread>| {
            thread.words().len() < WORDS_PER_THREAD && !thread.closed.load(Ordering::Relaxed)
        };
        if let Some(thread) = self.threads.iter().find(has_room) {
            return Some(Arc::clone(thread));
        }
        self.threads.retain(|thread| !thread.closed.load(Ordering::Acquire));
        if self.threads.len() < THREADS_MAX { self.start_thread(false) } else { None }
    }

    fn start_thread(&mut self, is_kept: bool) -> Option<Arc<WatcherThread>> {
        let thread = Arc::new(WatcherThread::default());
        let (own, writer) = (Arc::clone(&thread), Arc::clone(&self.writer));
        let builder =
            std::thread::Builder::new().name("death-watcher".into()).stack_size(128 * 1024);
        builder.spawn(move || own.run(&writer, is_kept)).ok()?;
        self.threads.push(Arc::clone(&thread));
        Some(thread)
    }
}

impl WatcherThread {
    fn words(&self) -> MutexGuard<'_, Vec<WatchedWord>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread read its words again.
    fn wake(&self) {
        self.changed.fetch_add(1, Ordering::Release);
        m3ipc_sys::wake(&self.changed);
    }

    /// Sleeps until the kernel marks a word, and writes its token to the pipe. The thread ends
    /// with its last word, unless it is kept.
    fn run(&self, mut writer: &PipeWriter, is_kept: bool) {
        loop {
            let changed = self.changed.load(Ordering::Acquire);
            let marked = take_marked(&mut self.words());
            // The event loop wakes up while this thread reads /proc.
            if !marked.is_empty() && writer.write_all(&NOTICE.to_ne_bytes()).is_err() {
                return;
            }
            for word in marked {
                let number = word.token.number().to_ne_bytes();
                if has_ended(&word, writer) && writer.write_all(&number).is_err() {
                    return;
                }
            }
            let words = self.words();
            if words.is_empty() && changed > 0 && !is_kept {
                return self.closed.store(true, Ordering::Release);
            }
            let watched: Vec<(Arc<ControlPageView>, u32, Token)> = words
                .iter()
                .map(|word| (Arc::clone(&word.control_page), word.value, word.token))
                .collect();
            drop(words);
            let mut futexes = vec![(&self.changed, changed)];
            futexes.extend(watched.iter().map(|(page, value, _)| (page.liveness_lock(), *value)));
            let until_ns = m3ipc_sys::monotonic_ns().saturating_add(SLEEP_NS);
            match m3ipc_sys::wait_any_woken(&futexes, until_ns) {
                Ok(woken) => {
                    let word = woken.and_then(|at| watched.get(at.checked_sub(1)?));
                    if let Some((_, value, token)) = word {
                        self.count_idle_wake(*token, *value);
                    }
                }
                Err(errno) => {
                    tracing::info!(%errno, "no wait on several futexes; pidfds report deaths");
                    self.closed.store(true, Ordering::Relaxed);
                    return self.words().clear();
                }
            }
        }
    }

    /// Counts a wake-up of a word that has not changed. The kernel wakes only after its mark, so a
    /// member that wakes the watcher itself soon loses its watch.
    fn count_idle_wake(&self, token: Token, value: u32) {
        let mut words = self.words();
        let Some(at) = words.iter().position(|word| word.token == token) else { return };
        if words[at].control_page.liveness_lock().load(Ordering::Acquire) == value {
            words[at].idle_wakes += 1;
            if words[at].idle_wakes > IDLE_WAKES_MAX {
                words.swap_remove(at);
            }
        }
    }
}

/// Removes all words that changed, and returns those that the kernel marked.
fn take_marked(words: &mut Vec<WatchedWord>) -> Vec<WatchedWord> {
    let changed = words.extract_if(.., |word| {
        let value = word.control_page.liveness_lock().load(Ordering::Acquire);
        value != std::mem::replace(&mut word.value, value)
    });
    changed.filter(|word| word.value & LIVENESS_OWNER_DIED != 0).collect()
}

/// Whether the process or thread has ended. The threads of a killed process end one by one. The
/// event loop does not wait for them: the notice is withdrawn after the first look.
fn has_ended(word: &WatchedWord, mut writer: &PipeWriter) -> bool {
    for look in 0..PROC_READS {
        let is_ending = m3ipc_sys::is_ending(word.pid, word.tid);
        // A thread leaves /proc soon, and before Linux 6.9 no pidfd reports its end.
        if is_ending == Ok(true) || word.tid.is_some_and(|tid| is_gone(word.pid, tid)) {
            return true;
        }
        if look == 0 && writer.write_all(&WITHDRAWAL.to_ne_bytes()).is_err() {
            return false;
        }
        // Where the process is gone or hidden, its pidfd reports the death.
        if is_ending.is_err() {
            return false;
        }
        std::thread::sleep(PROC_PAUSE);
    }
    false
}

/// Whether a thread has ended, as /proc tells. `false` where /proc hides the process.
pub(crate) fn is_gone(pid: i32, tid: i32) -> bool {
    match m3ipc_sys::is_ending(pid, Some(tid)) {
        Ok(is_ending) => is_ending,
        Err(errno) => errno == Errno::SRCH && m3ipc_sys::is_ending(pid, None).is_ok(),
    }
}

#[cfg(test)]
mod tests;
