use super::*;
use m3ipc_link::{CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET};
use m3ipc_sys::{LivenessLock, Poll};
use std::os::fd::OwnedFd;
use std::sync::mpsc;

fn desk() -> (OwnedFd, Arc<ControlPageView>) {
    let memory = m3ipc_sys::create_memory("m3-test", CONTROL_PAGE_BYTES as u64).unwrap();
    let view = Arc::new(ControlPageView::map(&memory).unwrap());
    (memory, view)
}

/// What the ward tells within a while.
fn told(ward: &mut Ward, limit: std::time::Duration) -> Vec<u64> {
    let poll = Poll::new().unwrap();
    poll.add(ward.endings(), 0).unwrap();
    let mut ready = Vec::new();
    poll.wait(&mut ready, Some(u64::try_from(limit.as_nanos()).unwrap())).unwrap();
    if ready.is_empty() { Vec::new() } else { ward.take() }
}

const LONG: std::time::Duration = std::time::Duration::from_secs(60);
const SHORT: std::time::Duration = std::time::Duration::from_millis(100);

#[test]
fn the_end_of_a_thread_is_told_and_that_of_the_others_not() {
    let mut ward = Ward::new().unwrap();
    let (memory, view) = desk();
    let (living, living_view) = desk();
    let held = LivenessLock::take(&living, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap();
    ward.watch(6, m3ipc_sys::process_id(), None, &living_view);
    let (end, ended) = mpsc::channel::<()>();
    let (tell, told_tid) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let pulse = LivenessLock::take(&memory, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap();
        tell.send(m3ipc_sys::thread_id()).unwrap();
        let _ = ended.recv();
        pulse
    });
    ward.watch(7, m3ipc_sys::process_id(), Some(told_tid.recv().unwrap()), &view);
    assert!(told(&mut ward, SHORT).is_empty());
    drop(end);
    let pulse = thread.join().unwrap();
    // A thread may be gone from /proc before it is looked at: then its descriptor tells.
    let told = told(&mut ward, SHORT);
    assert!(told.is_empty() || told == [7], "{told:?}");
    drop((pulse, held));
}

#[test]
fn a_thread_that_ends_is_no_end_of_its_process() {
    let mut ward = Ward::new().unwrap();
    let (memory, view) = desk();
    let thread = std::thread::spawn(move || {
        LivenessLock::take(&memory, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).unwrap()
    });
    let pulse = thread.join().unwrap();
    ward.watch(7, m3ipc_sys::process_id(), None, &view);
    assert!(told(&mut ward, SHORT).is_empty());
    drop(pulse);
}

#[test]
fn a_killed_process_is_told_of() {
    // A process that says to hold a pulse: marked here as the kernel does it, once it is dead and not yet reaped.
    let mut ward = Ward::new().unwrap();
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (_memory, view) = desk();
    view.liveness_lock().store(child.id(), Ordering::Release);
    ward.watch(7, pid, None, &view);
    child.kill().unwrap();
    view.liveness_lock().store(LIVENESS_WAITERS | LIVENESS_OWNER_DIED, Ordering::Release);
    m3ipc_sys::wake(view.liveness_lock());
    let told = told(&mut ward, LONG);
    child.wait().unwrap();
    assert_eq!(told, [7]);
}

#[test]
fn who_writes_its_word_is_watched_no_more_and_nobody_else_suffers() {
    let mut ward = Ward::new().unwrap();
    let (_liar, liar) = desk();
    liar.liveness_lock().store(1, Ordering::Release);
    ward.watch(1, m3ipc_sys::process_id(), None, &liar);
    for word in [LIVENESS_OWNER_DIED, 0, u32::MAX, LIVENESS_OWNER_MASK] {
        liar.liveness_lock().store(word, Ordering::Release);
        m3ipc_sys::wake(liar.liveness_lock());
    }
    assert!(told(&mut ward, SHORT).is_empty());
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (_memory, view) = desk();
    view.liveness_lock().store(child.id(), Ordering::Release);
    ward.watch(2, i32::try_from(child.id()).unwrap(), None, &view);
    child.kill().unwrap();
    view.liveness_lock().store(LIVENESS_WAITERS | LIVENESS_OWNER_DIED, Ordering::Release);
    m3ipc_sys::wake(view.liveness_lock());
    let told = told(&mut ward, LONG);
    child.wait().unwrap();
    assert_eq!(told, [2]);
}

#[test]
fn more_than_one_sleep_can_watch() {
    let mut ward = Ward::new().unwrap();
    let desks: Vec<_> = (0..BEDS_PER_ROOM as u64 + 3).map(|token| (token, desk())).collect();
    for (token, (_, view)) in &desks {
        view.liveness_lock().store(1, Ordering::Release);
        ward.watch(*token, m3ipc_sys::process_id(), None, view);
    }
    assert_eq!(ward.rooms.len(), 2);
    for (token, _) in &desks {
        ward.forget(*token);
    }
    assert!(ward.rooms.iter().all(|room| room.beds().is_empty()));
    for _ in 0..10_000 {
        if ward.rooms[1].closed.load(Ordering::Acquire) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let closed: Vec<bool> =
        ward.rooms.iter().map(|room| room.closed.load(Ordering::Acquire)).collect();
    assert_eq!(closed, [false, true], "the first stays");
}

#[test]
fn an_empty_desk_is_not_watched() {
    let mut ward = Ward::new().unwrap();
    let (_memory, view) = desk();
    ward.watch(1, m3ipc_sys::process_id(), None, &view);
    assert!(ward.rooms[0].beds().is_empty());
}
