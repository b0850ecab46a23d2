//! The `platter` command.
fn main() {}
