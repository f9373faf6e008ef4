//! The name that programs look the library up by, and what it is to export.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The exported names need no version script here: the compiler passes one of
    // its own with the functions of this crate, and linkers refuse, or ignore, a second one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libm3ipc.so.0");
}
