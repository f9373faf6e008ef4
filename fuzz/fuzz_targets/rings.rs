//! See `m3ipc_test_fuzz::rings`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| m3ipc_test_fuzz::rings(bytes));
