//! Temporary files and folders that go with us, or at the next start if we are killed.

use crate::error::Failure;
use coldset_play::leftovers::{own_name, sweep};
use std::fs;
use std::io;
use std::path::Path;
use tempfile::{Builder, NamedTempFile, TempDir};

/// A folder for `what`.
///
/// # Errors
/// It cannot be made.
pub fn folder(what: &str) -> Result<TempDir, Failure> {
    made(what, |builder| builder.tempdir())
}

/// A file for `what`, whose name ends so.
///
/// # Errors
/// It cannot be made.
pub fn file(what: &str, suffix: &'static str) -> Result<NamedTempFile, Failure> {
    made(what, |builder| builder.suffix(suffix).tempfile())
}

fn made<T>(
    what: &str,
    make: impl FnOnce(&mut Builder<'_, '_>) -> io::Result<T>,
) -> Result<T, Failure> {
    let dir = std::env::temp_dir();
    sweep(&dir, remove);
    let name = format!("{}-", own_name());
    make(Builder::new().prefix(&name)).map_err(|e| {
        let dir = dir.display();
        Failure::Surroundings(format!(
            "{dir}: cannot make {what}: {e}; name another folder in TMPDIR"
        ))
    })
}

/// What somebody else has left of the same name stays, if it is not ours to remove.
fn remove(left: &Path) {
    let _ = match left.is_dir() {
        true => fs::remove_dir_all(left),
        false => fs::remove_file(left),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_they_are_and_the_dead_leave_nothing() {
        // No process has such a number.
        let left = std::env::temp_dir().join("coldset-play-4194399-guest");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("disk"), "x").unwrap();
        let (folder, file) = (
            folder("a folder").unwrap(),
            file("a file", ".pageops").unwrap(),
        );
        assert!(!left.exists());
        for path in [folder.path(), file.path()] {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(name.starts_with(&own_name()), "{name}");
            assert!(path.exists());
        }
        assert!(file.path().to_string_lossy().ends_with(".pageops"));
    }
}
