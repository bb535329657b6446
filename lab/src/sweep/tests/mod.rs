mod grids;
mod keys;
mod stores;
mod supervision;

use super::{Cell, Grid};
use std::path::Path;

/// The cells of a grid in TOML.
fn cells(text: &str) -> Vec<Cell> {
    let grid = Grid::from_toml("grid.toml", text, Path::new(data())).unwrap();
    grid.cells().unwrap()
}

/// The folder of the sample trace.
fn data() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../data")
}

/// The message about a grid that is refused.
fn refused(text: &str) -> String {
    let done = Grid::from_toml("grid.toml", text, Path::new(data())).and_then(|g| g.cells());
    let message = done.unwrap_err().to_string();
    assert!(message.starts_with("grid.toml: "), "{message}");
    assert!(!message.contains('\n'), "{message}");
    message
}
