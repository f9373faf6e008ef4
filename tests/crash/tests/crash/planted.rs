//! The suite can fail: planted faults are found.

use m3ipc_test_fixture::resources::{ProcessResources, left_in_directory};

#[test]
fn a_leaked_descriptor_and_mapping_are_found() {
    let own = std::process::id().cast_signed();
    let before = ProcessResources::of(own);
    let leaked = m3ipc_sys::create_memory("m3-link", 4096).expect("memory");
    let mapping = m3ipc_sys::Mapping::new(&leaked, 4096, true).expect("a mapping");
    let found = before.differences(&ProcessResources::of(own)).join("; ");
    assert!(found.contains("descriptors of /memfd:m3-link"), "{found}");
    assert!(found.contains("mappings of m3-link: 0 became 1"), "{found}");
    drop((leaked, mapping));
}

#[test]
fn a_file_left_behind_is_found() {
    let directory = std::env::temp_dir().join(format!("m3-crash-left-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("doorbells")).expect("a directory");
    std::fs::write(directory.join("doorbells/1.30"), "").expect("a file");
    assert_eq!(left_in_directory(&directory), ["1.30"]);
    std::fs::remove_dir_all(&directory).expect("removed");
}
