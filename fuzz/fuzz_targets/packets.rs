//! See `m3ipc_test_fuzz::packets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| m3ipc_test_fuzz::packets(bytes));
