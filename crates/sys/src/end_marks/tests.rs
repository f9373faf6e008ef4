//! Marks of a process that is killed, and pages that come and go.

use super::*;
use crate::{LIVENESS_OWNER_DIED, Mapping, WaitOutcome};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};

const OFFSET: usize = 3968;
/// The memory that the child marks: paths, separated by colons.
const PAGES: &str = "M3_TEST_END_MARKS";

fn memory() -> (OwnedFd, Mapping) {
    let memory = crate::create_memory("m3-test", MEMORY_BYTES as u64).unwrap();
    let page = Mapping::new(&memory, MEMORY_BYTES, true).unwrap();
    (memory, page)
}

fn word(page: &Mapping) -> &AtomicU32 {
    // SAFETY: the word lies in the page, aligned.
    unsafe { AtomicU32::from_ptr(page.start().as_ptr().wrapping_add(OFFSET).cast()) }
}

/// The child of `a_kill_marks_each_page_and_wakes_its_sleeper`.
#[test]
fn marking_child() {
    let Ok(paths) = std::env::var(PAGES) else { return };
    // As on a system with larger pages: a page of this one is a whole part of such a page.
    let mut marks = EndMarks::with_pages(OFFSET, 16384).unwrap();
    let open = |path| File::options().read(true).write(true).open(path).unwrap();
    let held: Vec<EndMark> = paths.split(':').map(|path| marks.add(open(path)).unwrap()).collect();
    assert!(held.iter().enumerate().all(|(at, mark)| mark.row * SLOTS + mark.slot == at));
    println!("marked");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_kill_marks_each_page_and_wakes_its_sleeper() {
    // More than a row has.
    let pages: Vec<_> = (0..SLOTS + 3).map(|_| memory()).collect();
    let pid = std::process::id();
    let path = |(memory, _): &(OwnedFd, _)| format!("/proc/{pid}/fd/{}", memory.as_raw_fd());
    let paths: Vec<String> = pages.iter().map(path).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "end_marks::tests::marking_child", "--nocapture"])
        .env(PAGES, paths.join(":"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let marked = output.lines().map_while(Result::ok).any(|line| line.contains("marked"));
    assert!(marked, "the child could not mark");

    let live: Vec<u32> = pages.iter().map(|(_, page)| word(page).load(Ordering::Acquire)).collect();
    assert!(live.iter().all(|value| value & LIVENESS_WAITERS != 0));
    assert_ne!(live[0], live[SLOTS], "two rows are two threads");
    // A page whose owner spoils its word harms no other page.
    word(&pages[7].1).store(u32::MAX, Ordering::Release);
    std::thread::scope(|scope| {
        let sleepers: Vec<_> = [0, 8, SLOTS - 1, SLOTS, SLOTS + 2]
            .map(|at| {
                let (page, live) = (&pages[at].1, live[at]);
                scope.spawn(move || crate::wait_any(&[(word(page), live)], u64::MAX))
            })
            .into();
        std::thread::sleep(std::time::Duration::from_millis(50));
        child.kill().unwrap();
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Ok(WaitOutcome::Changed));
        }
    });
    child.wait().unwrap();
    for (at, (_, page)) in pages.iter().enumerate() {
        let expected = if at == 7 { u32::MAX } else { LIVENESS_WAITERS | LIVENESS_OWNER_DIED };
        assert_eq!(word(page).load(Ordering::Acquire), expected, "page {at}");
    }
}

#[test]
fn a_removed_page_has_no_mark_and_its_slot_is_used_again() {
    let mut marks = EndMarks::with_pages(OFFSET, 65536).unwrap();
    let ((first, first_page), (second, second_page)) = (memory(), memory());
    let mark = marks.add(&first).unwrap();
    let live = word(&first_page).load(Ordering::Acquire);
    assert_eq!(live & LIVENESS_OWNER_MASK, marks.rows[0].thread);
    marks.remove(mark);
    assert_eq!(word(&first_page).load(Ordering::Acquire), 0);
    assert_eq!(marks.add(&second).unwrap(), EndMark { marks: marks.number, row: 0, slot: 0 });
    assert_eq!(word(&first_page).load(Ordering::Acquire), 0);
    assert_eq!(word(&second_page).load(Ordering::Acquire), live);
}

#[test]
fn memory_of_another_size_is_refused() {
    let mut marks = EndMarks::new(OFFSET).unwrap();
    let large = crate::create_memory("m3-test", 2 * MEMORY_BYTES as u64).unwrap();
    assert_eq!(marks.add(large).unwrap_err(), Errno::INVAL);
    assert_eq!(EndMarks::new(MEMORY_BYTES).unwrap_err(), Errno::INVAL);
    assert_eq!(EndMarks::new(2).unwrap_err(), Errno::INVAL);
}

#[test]
fn pages_beyond_all_rows_get_no_mark() {
    let mut marks = EndMarks::new(OFFSET).unwrap();
    let (memory, page) = memory();
    for _ in 0..ROWS_MAX * SLOTS {
        let _held = marks.add(&memory).unwrap();
    }
    word(&page).store(0, Ordering::Release);
    assert_eq!(marks.add(&memory).unwrap_err(), Errno::NOSPC);
    assert_eq!(word(&page).load(Ordering::Acquire), 0);
}

#[test]
fn a_mark_of_others_changes_nothing() {
    let (mut marks, mut others) = (EndMarks::new(OFFSET).unwrap(), EndMarks::new(OFFSET).unwrap());
    let (memory, page) = memory();
    let foreign = others.add(&memory).unwrap();
    let _own = marks.add(&memory).unwrap();
    let live = word(&page).load(Ordering::Acquire);
    marks.remove(foreign);
    assert_eq!(word(&page).load(Ordering::Acquire), live);
}
