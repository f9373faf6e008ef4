//! Chores of the project, as one program.
fn main() {}
