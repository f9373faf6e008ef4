//! The journal and the store by themselves.
#![allow(clippy::unwrap_used)]

use m3ipc_files::journal::Journal;
use m3ipc_files::protocol::{BlockAnswer, BlockRequest, ChangeId, FileId};
use m3ipc_files::store::Store;
use std::path::Path;

fn content(folder: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    Journal::open(folder, |_, record| found.push(record.to_vec())).unwrap();
    found
}

#[test]
fn a_journal_cut_at_any_byte_gives_all_whole_records() {
    let folder = std::env::temp_dir().join(format!("m3-files-journal-{}", std::process::id()));
    let records = [&b"one"[..], b"two and more", b"3"];
    let mut journal = Journal::open(&folder, |_, _| {}).unwrap();
    let places = records.map(|record| journal.append(record).unwrap());
    journal.sync().unwrap();
    assert_eq!(journal.read(places[1]).unwrap(), records[1]);
    drop(journal);
    let whole = std::fs::read(folder.join("journal")).unwrap();
    for bytes in 0..=whole.len() {
        std::fs::write(folder.join("journal"), &whole[..bytes]).unwrap();
        let ends = [11, 31, 40];
        let count = ends.iter().filter(|end| **end <= bytes).count();
        assert_eq!(content(&folder), records[..count], "{bytes} bytes");
        // What was cut off is gone for good.
        assert_eq!(content(&folder).len(), count);
    }
    let mut wrong = whole.clone();
    *wrong.last_mut().unwrap() ^= 1;
    std::fs::write(folder.join("journal"), &wrong).unwrap();
    assert_eq!(content(&folder), records[..2]);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn id(client: u64, number: u64) -> ChangeId {
    ChangeId { client, number }
}

fn read(store: &mut Store, file: FileId, block: u32) -> Option<Vec<u8>> {
    match store.make(BlockRequest::Read { file, block }).unwrap() {
        BlockAnswer::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_repeated_change_counts_once_also_after_a_restart_and_a_late_one_never() {
    let folder = std::env::temp_dir().join(format!("m3-files-store-{}", std::process::id()));
    let file = id(0, 0);
    let append = |client, number| BlockRequest::Append {
        id: id(client, number),
        file,
        bytes: vec![u8::try_from(number).unwrap()],
    };
    let mut store = Store::open(&folder).unwrap();
    let mut wanted = 0;
    for round in 1..5 {
        for client in [7, 8] {
            let first = store.make(append(client, round)).unwrap();
            assert_eq!(first, BlockAnswer::Done { block: wanted });
            assert_eq!(store.make(append(client, round)).unwrap(), first);
            drop(store);
            store = Store::open(&folder).unwrap();
            assert_eq!(store.make(append(client, round)).unwrap(), first);
            assert_eq!(store.make(append(client, round - 1)).unwrap(), BlockAnswer::Late);
            wanted += 1;
        }
    }
    let counted = store.make(BlockRequest::Count { file }).unwrap();
    assert_eq!(counted, BlockAnswer::Count(wanted));
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_journal_of_garbage_is_written_anew_and_keeps_what_counts() {
    let folder = std::env::temp_dir().join(format!("m3-files-garbage-{}", std::process::id()));
    let mut store = Store::open(&folder).unwrap();
    let (kept, freed) = (id(1, 1), id(2, 1));
    let write =
        |id, file, byte| BlockRequest::Write { id, file, block: 0, bytes: vec![byte; 1 << 19] };
    store.make(write(id(1, 1), kept, 1)).unwrap();
    for number in 1..40 {
        store.make(write(id(2, number), freed, 2)).unwrap();
    }
    store.make(BlockRequest::Free { id: id(2, 40), file: freed }).unwrap();
    drop(store);
    let mut store = Store::open(&folder).unwrap();
    let bytes = std::fs::metadata(folder.join("journal")).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes} bytes");
    assert_eq!(read(&mut store, kept, 0), Some(vec![1; 1 << 19]));
    assert_eq!(read(&mut store, freed, 0), None);
    let late = store.make(BlockRequest::Free { id: id(2, 39), file: kept }).unwrap();
    assert_eq!(late, BlockAnswer::Late);
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}
