//! A buffer of the kernel's trace of our own: events are read from it line by line.

use crate::leftovers::{own_name, sweep};
use crate::PlayError;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// It is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    folder: PathBuf,
    pipe: Option<File>,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Buffer {
    /// One for the events in `events/EVENTS`, none of which comes before [`Self::set`] says so. `suffix` tells it from
    /// others of this process.
    ///
    /// # Errors
    /// No tracefs, or none with such events; no right to use it.
    pub fn make(events: &str, suffix: &str) -> Result<Self, PlayError> {
        let mut mounted = TRACEFS.iter().map(Path::new);
        let has = |root: &&Path| root.join("events").join(events).is_dir();
        let root = mounted.find(has).ok_or(PlayError::NoTracepoints)?;
        let instances = root.join("instances");
        sweep(&instances, |left| drop(fs::remove_dir(left)));
        let folder = instances.join(format!("{}{suffix}", own_name()));
        fs::create_dir(&folder).map_err(PlayError::denied(&folder))?;
        let mut buffer = Self {
            folder,
            pipe: None,
            rest: Vec::new(),
        };
        let pipe = buffer.folder.join("trace_pipe");
        let mut open = OpenOptions::new();
        open.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        buffer.pipe = Some(open.open(&pipe).map_err(PlayError::denied(&pipe))?);
        Ok(buffer)
    }

    /// Writes to one of its files.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn set(&self, name: &str, value: &str) -> Result<(), PlayError> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(PlayError::denied(&path))
    }

    /// The whole lines that have come since the last call.
    ///
    /// # Errors
    /// The buffer cannot be read.
    pub fn lines(&mut self) -> Result<Vec<String>, PlayError> {
        if let Some(pipe) = &mut self.pipe {
            // Until it would have to wait.
            let end = pipe.read_to_end(&mut self.rest).map(drop);
            let would_wait = |e: &io::Error| e.kind() == ErrorKind::WouldBlock;
            if let Some(error) = end.err().filter(|e| !would_wait(e)) {
                return Err(PlayError::io("the kernel's trace")(error));
            }
        }
        let whole = self.rest.iter().rposition(|&b| b == b'\n');
        let lines: Vec<u8> = self.rest.drain(..whole.map_or(0, |i| i + 1)).collect();
        let lines = String::from_utf8_lossy(&lines);
        Ok(lines.lines().map(str::to_owned).collect())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A buffer that is read is not given back.
        self.pipe = None;
        let _ = fs::remove_dir(&self.folder);
    }
}
