use super::*;
use crate::slot::MessageKind;
use crate::trace_record::{TraceHalf, TraceWhat};
use crate::trace_ring::{SLOTS, TRACE_SLOTS, TraceRing, trace_bytes};
use m3ipc_abi::Address;
use m3ipc_shm::Shared;
use proptest::prelude::*;

fn ring(slots: u32) -> (TraceRing, TraceView, std::os::fd::OwnedFd) {
    let memory = m3ipc_sys::create_memory("m3-test", trace_bytes(slots)).unwrap();
    (TraceRing::map(&memory).unwrap(), TraceView::map(&memory).unwrap(), memory)
}

fn took(sequence: u64) -> TraceRecord {
    TraceRecord {
        what: TraceWhat::Message(MessageKind::Request),
        sequence,
        answers: 0,
        peer: Address(-7),
        m_type: -9,
        bytes: 1_792,
        half: TraceHalf::Took {
            ran: Some(970),
            looked: 990,
            found: 995,
            taken: 1_000,
            done: 1_010,
        },
    }
}

fn gave(wake: Option<(u64, u64)>) -> TraceRecord {
    TraceRecord {
        what: TraceWhat::Notify,
        half: TraceHalf::Gave { begun: 10, ready: 15, published: 20, wake },
        ..took(3)
    }
}

fn all(view: &mut TraceView) -> Vec<TraceRecord> {
    let mut all = Vec::new();
    view.read(|record| all.push(record));
    all
}

#[test]
fn each_record_is_read_once() {
    let (mut ring, mut view, _) = ring(64);
    let written = [took(1), gave(None), gave(Some((25, 40)))];
    written.iter().for_each(|record| ring.write(record));
    assert_eq!(all(&mut view), written);
    assert!(all(&mut view).is_empty());
    assert_eq!((view.lost(), view.broken()), (0, 0));
}

#[test]
fn overwritten_records_are_counted() {
    let (mut ring, mut view, _) = ring(64);
    (0..100).for_each(|sequence| ring.write(&took(sequence)));
    let read: Vec<u64> = all(&mut view).iter().map(|record| record.sequence).collect();
    assert_eq!(read, (36..100).collect::<Vec<_>>());
    assert_eq!(view.lost(), 36);
}

#[test]
fn long_distances_are_clamped() {
    let (mut ring, mut view, _) = ring(64);
    let half =
        TraceHalf::Took { ran: None, looked: 0, found: 1 << 40, taken: 1 << 40, done: u64::MAX };
    ring.write(&TraceRecord { half, ..took(1) });
    let TraceHalf::Took { looked, found, taken, done, .. } = all(&mut view)[0].half else {
        panic!()
    };
    assert_eq!((taken - looked, taken - found), (u64::from(u32::MAX), 0));
    assert_eq!(done - taken, u64::from(u32::MAX));
}

#[test]
fn memory_of_another_size_is_no_ring() {
    for bytes in [4096, 4096 + 64, 4096 + 65 * 64, 4096 + 96 * 64] {
        let memory = m3ipc_sys::create_memory("m3-test", bytes).unwrap();
        assert_eq!(TraceRing::map(&memory).unwrap_err(), Errno::INVAL);
        assert_eq!(TraceView::map(&memory).unwrap_err(), Errno::INVAL);
    }
    assert_eq!(trace_bytes(0), trace_bytes(64));
    assert_eq!(trace_bytes(65), trace_bytes(128));
    assert_eq!(trace_bytes(u32::MAX), trace_bytes(TRACE_SLOTS.1));
}

#[test]
fn a_concurrent_reader_loses_records_and_reads_no_false_one() {
    const RECORDS: u64 = if cfg!(miri) { 500 } else { 200_000 };
    let (mut ring, mut view, _) = ring(64);
    let writer = std::thread::spawn(move || {
        for number in 0..RECORDS {
            let half = TraceHalf::Took {
                ran: None,
                looked: number,
                found: number,
                taken: number,
                done: number,
            };
            ring.write(&TraceRecord { answers: number, half, ..took(number) });
        }
    });
    let (mut read, mut last) = (0, None);
    let mut read_all = |view: &mut TraceView| {
        view.read(|record| {
            let TraceHalf::Took { taken, .. } = record.half else { panic!("{record:?}") };
            assert_eq!((record.sequence, record.answers), (taken, taken));
            assert!(last.is_none_or(|last| last < taken));
            last = Some(taken);
            read += 1;
        });
    };
    while !writer.is_finished() {
        read_all(&mut view);
    }
    writer.join().unwrap();
    // The join orders all writes before this read; `is_finished` does not.
    read_all(&mut view);
    assert_eq!((read + view.lost(), last), (RECORDS, Some(RECORDS - 1)));
}

proptest! {
    /// A reader ends and does not panic, over any words of an owner.
    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn a_hostile_ring_is_read_to_its_end(
        heads in prop::collection::vec(any::<u64>(), 1..6),
        words in prop::collection::vec((0_usize..512, any::<u64>()), 0..64),
        small in 0_u64..200,
    ) {
        let (_, mut view, memory) = ring(64);
        let owner = Shared::map(&memory, 4096 + 64 * 64).unwrap();
        for head in heads.into_iter().chain([small, 0, u64::MAX]) {
            owner.word64(HEAD).store(head, Ordering::Relaxed);
            // Valid numbers with invalid records.
            for (at, word) in &words {
                owner.word64(SLOTS + 8 * at).store(*word, Ordering::Relaxed);
                let slot = at / 8;
                let base = head.saturating_sub(64).next_multiple_of(64);
                let due = base.wrapping_add(slot as u64 + 1);
                owner.word64(SLOTS + 64 * slot).store(due, Ordering::Relaxed);
            }
            let read = view.read(|_record| ());
            prop_assert!(read <= 64, "{read} records of a ring of 64");
        }
    }
}
