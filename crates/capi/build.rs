//! Sets the soname of libm3ipc.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The compiler passes its own version script with the exported functions of this crate, and
    // linkers refuse or ignore a second one. `cargo xtask install` links with libm3ipc.map.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libm3ipc.so.0");
}
