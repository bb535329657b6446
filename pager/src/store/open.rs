//! Opening files that hold somebody's data: no link is followed and nothing is emptied unseen.

use crate::error::{Error, Result};
use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens an existing regular file. `follow`: also by a symbolic link.
///
/// # Errors
/// [`Error::File`]: it cannot be opened, or is something else.
pub(crate) fn existing(path: &Path, writable: bool, follow: bool) -> Result<File> {
    let link = if follow { 0 } else { libc::O_NOFOLLOW };
    regular(path, OpenOptions::new().read(true).write(writable), link)
}

/// Opens a regular file to be written, or creates it; links are followed, contents kept.
///
/// # Errors
/// As [`existing`].
pub(crate) fn writable_or_new(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    regular(path, options.read(true).write(true).create(true), 0)
}

fn regular(path: &Path, options: &mut OpenOptions, flags: i32) -> Result<File> {
    let follow = flags & libc::O_NOFOLLOW == 0;
    // Not blocked by a FIFO, which nobody else may have open.
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let f = options
        .custom_flags(flags)
        .open(path)
        .map_err(|e| match e.raw_os_error() {
            Some(n @ libc::ELOOP) if !follow => {
                wrong(path, "a symbolic link, which is not followed here", n)
            }
            Some(n @ libc::EISDIR) => wrong(path, DIRECTORY, n),
            Some(libc::ENXIO) => wrong(path, OTHER, libc::ENODEV),
            _ => Error::file(path, e),
        })?;
    let kind = f.metadata().map_err(|e| Error::file(path, e))?.file_type();
    if kind.is_dir() {
        return Err(wrong(path, DIRECTORY, libc::EISDIR));
    }
    if kind.is_block_device() || kind.is_char_device() {
        return Err(wrong(path, "a device, not a regular file", libc::ENODEV));
    }
    if !kind.is_file() {
        return Err(wrong(path, OTHER, libc::ENODEV));
    }
    let flags = fcntl_getfl(&f).and_then(|now| fcntl_setfl(&f, now - OFlags::NONBLOCK));
    flags.map_err(|e| Error::file(path, e.into()))?;
    Ok(f)
}

const DIRECTORY: &str = "a directory, not a regular file";
const OTHER: &str = "a pipe or a socket, not a regular file";

fn wrong(path: &Path, what: &str, errno: i32) -> Error {
    Error::File {
        what: "",
        path: path.into(),
        why: format!("it is {what}"),
        errno,
    }
}

/// Creates a file that only its owner may read and write, whatever the umask; none if there is one of
/// this name, or a link.
///
/// # Errors
/// Those of creating it.
pub(crate) fn new_private(path: &Path) -> io::Result<Option<File>> {
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(e) => Err(e),
        Ok(f) => {
            make_private(&f)?;
            Ok(Some(f))
        }
    }
}

/// Takes everybody's rights away but the owner's.
///
/// # Errors
/// Those of the file system; those that have no modes are no error.
pub(crate) fn make_private(f: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if f.metadata()?.mode() & 0o7777 == 0o600 {
        return Ok(());
    }
    f.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// The same file once more, by its descriptor, which may be all it has: with other flags.
///
/// # Errors
/// Those of opening it; no `/proc`.
pub(crate) fn again(f: &File, writable: bool, flags: i32) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    OpenOptions::new()
        .read(true)
        .write(writable)
        .custom_flags(flags)
        .open(format!("/proc/self/fd/{}", f.as_raw_fd()))
}

/// The path still names this open file.
pub(crate) fn is_still(path: &Path, f: &File) -> io::Result<bool> {
    let open = f.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
