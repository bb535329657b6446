//! The `coldset` command.
fn main() {}
