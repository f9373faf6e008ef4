//! Runs the benchmark.
fn main() {}
