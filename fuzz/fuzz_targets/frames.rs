//! See `m3ipc_test_fuzz::frames`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| m3ipc_test_fuzz::frames(bytes));
