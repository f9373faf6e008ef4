//! Deaths of threads and processes, and members that write their own liveness lock.

use super::*;
use m3ipc_link::{CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET};
use m3ipc_sys::{LivenessLock, Poll};
use std::os::fd::OwnedFd;
use std::sync::mpsc;

fn control_page() -> (OwnedFd, Arc<ControlPageView>) {
    let memory = m3ipc_sys::create_memory("m3-test", CONTROL_PAGE_BYTES as u64).unwrap();
    let view = Arc::new(ControlPageView::map(&memory).unwrap());
    (memory, view)
}

/// The tokens that the watcher reports within a time.
fn ended(watcher: &mut DeathWatcher, limit: Duration) -> Vec<Token> {
    let poll = Poll::new().unwrap();
    poll.add(watcher.reader(), 0).unwrap();
    let begun = std::time::Instant::now();
    while let Some(left) = limit.checked_sub(begun.elapsed()) {
        let mut ready = Vec::new();
        poll.wait(&mut ready, Some(u64::try_from(left.as_nanos()).unwrap())).unwrap();
        // A mark wakes the daemon before it is checked.
        let ended = if ready.is_empty() { Vec::new() } else { watcher.take_ended() };
        if !ended.is_empty() {
            return ended;
        }
    }
    Vec::new()
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn the_end_of_a_thread_is_reported_and_living_threads_are_not() {
    let mut watcher = DeathWatcher::new().unwrap();
    let (memory, view) = control_page();
    let (living, living_view) = control_page();
    let held = LivenessLock::take(&living, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap();
    watcher.watch(Token::of(6), m3ipc_sys::process_id(), None, &living_view);
    let (end, is_over) = mpsc::channel::<()>();
    let (tid_sender, tid) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let lock = LivenessLock::take(&memory, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap();
        tid_sender.send(m3ipc_sys::thread_id()).unwrap();
        let _ = is_over.recv();
        lock
    });
    watcher.watch(Token::of(7), m3ipc_sys::process_id(), Some(tid.recv().unwrap()), &view);
    assert!(ended(&mut watcher, SHORT).is_empty());
    drop(end);
    let lock = thread.join().unwrap();
    // The thread may leave /proc before the watcher reads it: before Linux 6.9 no pidfd tells.
    assert_eq!(ended(&mut watcher, LONG), [Token::of(7)]);
    drop((lock, held));
}

#[test]
fn the_end_of_a_thread_is_no_end_of_its_process() {
    let mut watcher = DeathWatcher::new().unwrap();
    let (memory, view) = control_page();
    let thread = std::thread::spawn(move || {
        LivenessLock::take(&memory, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap()
    });
    let lock = thread.join().unwrap();
    watcher.watch(Token::of(7), m3ipc_sys::process_id(), None, &view);
    assert!(ended(&mut watcher, SHORT).is_empty());
    drop(lock);
}

#[test]
fn the_event_loop_awaits_no_token_of_a_false_mark() {
    let mut watcher = DeathWatcher::new().unwrap();
    let (_memory, view) = control_page();
    view.liveness_lock().store(1, Ordering::Release);
    watcher.watch(Token::of(7), m3ipc_sys::process_id(), None, &view);
    view.liveness_lock().store(LIVENESS_WAITERS | LIVENESS_OWNER_DIED, Ordering::Release);
    m3ipc_sys::wake(view.liveness_lock());
    let poll = Poll::new().unwrap();
    poll.add(watcher.reader(), 0).unwrap();
    let mut is_announced = true;
    let begun = std::time::Instant::now();
    while is_announced && begun.elapsed() < LONG {
        let mut ready = Vec::new();
        poll.wait(&mut ready, Some(1_000_000_000)).unwrap();
        if !ready.is_empty() {
            let read = watcher.read_tokens();
            assert!(read.tokens.is_empty());
            is_announced = read.is_announced;
        }
    }
    assert!(!is_announced, "the notice of a living process stands");
}

#[test]
fn a_killed_process_is_reported() {
    // The test locks and marks the word for the child, as the kernel does for a real owner. The
    // child is dead but not reaped at the mark.
    let mut watcher = DeathWatcher::new().unwrap();
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (_memory, view) = control_page();
    view.liveness_lock().store(child.id(), Ordering::Release);
    watcher.watch(Token::of(7), pid, None, &view);
    child.kill().unwrap();
    view.liveness_lock().store(LIVENESS_WAITERS | LIVENESS_OWNER_DIED, Ordering::Release);
    m3ipc_sys::wake(view.liveness_lock());
    let ended = ended(&mut watcher, LONG);
    child.wait().unwrap();
    assert_eq!(ended, [Token::of(7)]);
}

#[test]
fn a_member_that_writes_its_own_lock_loses_only_its_own_watch() {
    let mut watcher = DeathWatcher::new().unwrap();
    let (_hostile, hostile) = control_page();
    hostile.liveness_lock().store(1, Ordering::Release);
    watcher.watch(Token::of(1), m3ipc_sys::process_id(), None, &hostile);
    for word in [LIVENESS_OWNER_DIED, 0, u32::MAX, LIVENESS_OWNER_MASK] {
        hostile.liveness_lock().store(word, Ordering::Release);
        m3ipc_sys::wake(hostile.liveness_lock());
    }
    assert!(ended(&mut watcher, SHORT).is_empty());
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (_memory, view) = control_page();
    view.liveness_lock().store(child.id(), Ordering::Release);
    watcher.watch(Token::of(2), i32::try_from(child.id()).unwrap(), None, &view);
    child.kill().unwrap();
    view.liveness_lock().store(LIVENESS_WAITERS | LIVENESS_OWNER_DIED, Ordering::Release);
    m3ipc_sys::wake(view.liveness_lock());
    let ended = ended(&mut watcher, LONG);
    child.wait().unwrap();
    assert_eq!(ended, [Token::of(2)]);
}

#[test]
fn further_words_get_a_further_thread() {
    let mut watcher = DeathWatcher::new().unwrap();
    let pages: Vec<_> =
        (0..WORDS_PER_THREAD as u64 + 3).map(|token| (Token::of(token), control_page())).collect();
    for (token, (_, view)) in &pages {
        view.liveness_lock().store(1, Ordering::Release);
        watcher.watch(*token, m3ipc_sys::process_id(), None, view);
    }
    assert_eq!(watcher.threads.len(), 2);
    for (token, _) in &pages {
        watcher.unwatch(*token);
    }
    assert!(watcher.threads.iter().all(|thread| thread.words().is_empty()));
    for _ in 0..10_000 {
        if watcher.threads[1].closed.load(Ordering::Acquire) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let closed: Vec<bool> =
        watcher.threads.iter().map(|thread| thread.closed.load(Ordering::Acquire)).collect();
    assert_eq!(closed, [false, true], "the first thread stays");
}

#[test]
fn an_unlocked_control_page_is_not_watched() {
    let mut watcher = DeathWatcher::new().unwrap();
    let (_memory, view) = control_page();
    watcher.watch(Token::of(1), m3ipc_sys::process_id(), None, &view);
    assert!(watcher.threads[0].words().is_empty());
}

#[test]
fn a_member_that_wakes_the_watcher_loses_only_its_own_watch() {
    let mut watcher = DeathWatcher::new().unwrap();
    let (other, other_view) = control_page();
    let (own, own_view) = control_page();
    let held = LivenessLock::take(&own, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap();
    let thread = std::thread::spawn(move || {
        let lock = LivenessLock::take(&other, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap();
        std::thread::park();
        lock
    });
    while other_view.liveness_lock().load(Ordering::Acquire) & LIVENESS_OWNER_MASK == 0 {
        std::thread::yield_now();
    }
    watcher.watch(Token::of(6), m3ipc_sys::process_id(), None, &own_view);
    watcher.watch(Token::of(7), m3ipc_sys::process_id(), None, &other_view);
    let watched = |watcher: &DeathWatcher| {
        let words = watcher
            .threads
            .iter()
            .flat_map(|thread| thread.words().iter().map(|word| word.token).collect::<Vec<_>>());
        words.collect::<Vec<_>>()
    };
    while watched(&watcher).contains(&Token::of(6)) {
        m3ipc_sys::wake(own_view.liveness_lock());
        std::thread::yield_now();
    }
    assert_eq!(watched(&watcher), [Token::of(7)]);
    thread.thread().unpark();
    drop((thread.join().unwrap(), held));
}
