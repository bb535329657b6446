//! A socket for each process that answers with snapshots. A client that connects gets one JSON document and
//! the end of the stream.
//!
//! It lies in a folder that only its user can enter. The thread that answers sees the pager's own
//! tables and never managed memory, and the program's signal handlers do not run on it.

use super::registry::snapshot_all;
use super::server::serve;
use crate::sys::exit::at_exit;
use crate::sys::fd::Kept;
use crate::sys::fork::OfProcess;
use crate::sys::fuse::pool_thread;
use rustix::fd::OwnedFd;
use rustix::net::{socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Where the socket of this process is.
static OPEN: OfProcess<Mutex<Option<PathBuf>>> = OfProcess::new();

/// Folders in which a user's sockets may lie, best first.
pub(crate) fn folders(uid: u32) -> Vec<PathBuf> {
    let name = format!("coldset-{uid}");
    let mut all = Vec::new();
    let own = uid == rustix::process::geteuid().as_raw();
    if let Some(run) = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| own) {
        let run = PathBuf::from(run);
        if run.is_absolute() {
            all.push(run.join(&name));
        }
    } else if !own {
        all.push(PathBuf::from(format!("/run/user/{uid}")).join(&name));
    }
    all.push(Path::new("/tmp").join(name));
    all
}

/// Makes the process answer, once.
///
/// # Errors
/// No folder can be made that is this user's alone, or no socket in it.
pub(crate) fn open() -> io::Result<()> {
    let mut open = OPEN.get().lock().unwrap_or_else(|e| e.into_inner());
    if open.is_some() {
        return Ok(());
    }
    let (listener, path) = listen(rustix::process::geteuid().as_raw(), std::process::id())?;
    pool_thread("coldset-observe", move || {
        serve(&listener, "observation", answer);
    })?;
    // Once more in a child of a process that has one: it does no harm.
    at_exit(remove);
    *open = Some(path);
    Ok(())
}

/// Where the socket of this process is, if it has one.
pub fn socket_path() -> Option<PathBuf> {
    let open = OPEN.get().lock().unwrap_or_else(|e| e.into_inner());
    open.clone()
}

/// At exit. A child of fork that exits leaves the parent's alone.
extern "C" fn remove() {
    // Another thread may be making one just now: that one is left to be cleaned up.
    if let Ok(open) = OPEN.get().try_lock() {
        if let Some(path) = &*open {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn listen(uid: u32, pid: u32) -> io::Result<(Kept, PathBuf)> {
    let mut refused = None;
    for folder in folders(uid) {
        let made = private_folder(&folder, uid).and_then(|()| {
            clean(&folder);
            let path = folder.join(format!("{pid}.sock"));
            // What is there under this process's number belongs to one that is gone.
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok((Kept::new(OwnedFd::from(listener))?, path))
        });
        match made {
            Ok(made) => return Ok(made),
            Err(e) => {
                let text = format!("{}: {e}", folder.display());
                refused.get_or_insert(io::Error::new(e.kind(), text));
            }
        }
    }
    Err(refused.unwrap_or_else(|| ErrorKind::NotFound.into()))
}

/// Makes a folder for this user alone, or makes sure that it is one. `/tmp` is everybody's: somebody
/// else may have put something there under this name.
fn private_folder(folder: &Path, uid: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let m = std::fs::symlink_metadata(folder)?;
    if !m.is_dir() || m.uid() != uid {
        let text = "it is not a folder of this user's; remove it";
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    if m.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// The process that a socket's name is about.
pub(crate) fn pid_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".sock")?.parse().ok()
}

/// A connection to a process that listens at `path`. One that accepts nobody has a queue that fills: then this does not
/// wait, but fails.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Removes sockets of processes that are gone: nobody listens, and no such process runs.
pub(crate) fn clean(folder: &Path) {
    let Ok(all) = std::fs::read_dir(folder) else {
        return;
    };
    for path in all.flatten().map(|e| e.path()) {
        let gone = pid_of(&path).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        let refused = || connect(&path).is_err_and(|e| e.kind() == REFUSED);
        if gone && refused() {
            let _ = std::fs::remove_file(path);
        }
    }
}

const REFUSED: ErrorKind = ErrorKind::ConnectionRefused;

fn answer(_: &[u8]) -> Option<Vec<u8>> {
    // There is nothing in it that could not be written.
    serde_json::to_vec(&snapshot_all())
        .ok()
        .or(Some(Vec::new()))
}
