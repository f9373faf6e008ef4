//! Binds the hooks among each other.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program may define a function of the C library and go on to another name of it
    // (`sigaction` to `__sigaction`). A hook that called another hook through the dynamic table
    // would call the program's function, which calls the hook again, without end.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
