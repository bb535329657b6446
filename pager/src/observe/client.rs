//! Looking at other processes.

use super::registry::ProcessSnapshot;
use super::socket::{clean, connect, folders, pid_of};
use serde::Deserialize;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An answer takes well below a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer, in which a region takes some 150. Who looks may be root, and who answers anybody.
const ANSWER_MAX: usize = 64 << 20;

/// Why a process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// There is none with this number.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// It does not answer to anybody.
    #[error(
        "process {pid} has no pool that can be observed; start it with COLDSET_OBSERVE=1, or let it \
         make its pool with PoolConfig::observe"
    )]
    NotObserved {
        /// Its number.
        pid: u32,
    },
    /// It is somebody else's.
    #[error("process {pid} belongs to user {uid}; only that user and root can look at it")]
    Denied {
        /// Its number.
        pid: u32,
        /// Its user.
        uid: u32,
    },
    /// It has ended.
    #[error("process {pid} has ended")]
    Ended {
        /// Its number.
        pid: u32,
    },
    /// It is there and does not answer.
    #[error("process {pid} does not answer; it may be stopped")]
    Silent {
        /// Its number.
        pid: u32,
    },
    /// Its answer is not understood.
    #[error(
        "process {pid} answers in a form that this program does not know ({why}); use the program's \
         own version of coldset"
    )]
    Version {
        /// Its number.
        pid: u32,
        /// What is wrong.
        why: String,
    },
}

/// The user of a running process.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Where the pools of a process stand.
///
/// # Errors
/// The process is not there, not to be observed, somebody else's, or does not answer.
pub fn read(pid: u32) -> Result<ProcessSnapshot, ObserveError> {
    let uid = user_of(pid).ok_or(ObserveError::NoProcess { pid })?;
    for folder in folders(uid) {
        match connect(&folder.join(format!("{pid}.sock"))) {
            Ok(stream) => return read_from(stream, pid),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                return Err(ObserveError::Silent { pid });
            }
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                return Err(ObserveError::Denied { pid, uid });
            }
            Err(_) => {}
        }
    }
    if user_of(pid).is_none() {
        return Err(ObserveError::Ended { pid });
    }
    let me = rustix::process::geteuid();
    Err(if me.is_root() || me.as_raw() == uid {
        ObserveError::NotObserved { pid }
    } else {
        ObserveError::Denied { pid, uid }
    })
}

/// What it says until it closes the stream, or one byte more than an answer has.
fn answer(mut stream: UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (mut text, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while text.len() <= ANSWER_MAX {
        // Of no time at all, the system says that it cannot be set.
        stream.set_read_timeout(Some(until.saturating_duration_since(Instant::now())))?;
        let most = part.len().min(ANSWER_MAX + 1 - text.len());
        match stream.read(&mut part[..most]) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(text)
}

/// What all versions have.
#[derive(Deserialize)]
struct Form {
    version: Option<u32>,
}

fn read_from(stream: UnixStream, pid: u32) -> Result<ProcessSnapshot, ObserveError> {
    let text = match answer(stream) {
        Ok(text) if !text.is_empty() => text,
        _ => {
            return Err(match user_of(pid) {
                None => ObserveError::Ended { pid },
                Some(_) => ObserveError::Silent { pid },
            })
        }
    };
    let version = |why: String| ObserveError::Version { pid, why };
    if text.len() > ANSWER_MAX {
        return Err(version(format!("more than {} MiB", ANSWER_MAX >> 20)));
    }
    let form: Form = serde_json::from_slice(&text).map_err(|e| version(e.to_string()))?;
    match form.version {
        Some(ProcessSnapshot::VERSION) => {}
        Some(other) => return Err(version(format!("version {other}"))),
        None => return Err(version("no version".into())),
    }
    serde_json::from_slice(&text).map_err(|e| version(e.to_string()))
}

/// Processes of this user that answer, lowest number first. What dead ones have left is removed.
pub fn processes() -> Vec<u32> {
    let mut all = Vec::new();
    for folder in folders(rustix::process::geteuid().as_raw()) {
        clean(&folder);
        all.extend(sockets(&folder).filter_map(|p| pid_of(&p)));
    }
    all.retain(|&pid| Path::new(&format!("/proc/{pid}")).exists());
    all.sort_unstable();
    all.dedup();
    all
}

fn sockets(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten();
    all.flatten().map(|e| e.path())
}
