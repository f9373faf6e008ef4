//! Tells the program the versions of the libraries that it was built with, from `Cargo.lock`.

fn main() {
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    for (package, variable) in [
        ("iceoryx2", "VERSION_ICEORYX2"),
        ("zmq", "VERSION_ZMQ"),
        ("nng-sys", "VERSION_NNG"),
        ("ipc-channel", "VERSION_IPC_CHANNEL"),
        ("tonic", "VERSION_TONIC"),
        ("zbus", "VERSION_ZBUS"),
        ("zenoh", "VERSION_ZENOH"),
        ("tachyon-ipc", "VERSION_TACHYON"),
        ("shmem-ipc", "VERSION_SHMEM_IPC"),
    ] {
        println!("cargo:rustc-env={variable}={}", version(&lock, package).unwrap_or("unknown"));
    }
}

fn version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split('"').next()
}
