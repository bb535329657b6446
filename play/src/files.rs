//! The files of a trace: made before the run, with contents that tell which page they are.

use crate::contents::stamp;
use crate::grouped::grouped;
use crate::leftovers::{own_name, sweep};
use crate::sys::PAGE;
use crate::PlayError;
use coldset_traces::Trace;
use rustix::fs::{fadvise, Advice};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Pages written at once.
const BATCH: usize = 256;

/// The files, in a folder of their own that goes with them.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Makes them below `dir`: of each object that is a file, the pages that the trace uses, and those that may be read
    /// ahead. The others are holes.
    pub fn make(dir: &Path, trace: &Trace) -> Result<Self, PlayError> {
        sweep(dir, |left| {
            let _ = fs::remove_dir_all(left);
        });
        let folder = dir.join(own_name());
        fs::create_dir(&folder).map_err(PlayError::io(format!(
            "{}: cannot make a folder for the files; choose another with --dir",
            folder.display()
        )))?;
        let made = Self { folder };
        made.fill(trace)?;
        Ok(made)
    }

    /// Gives the pages that the trace uses their contents, once more if need be.
    pub fn fill(&self, trace: &Trace) -> Result<(), PlayError> {
        for (object, pages) in (0..=u8::MAX).zip(used(trace)) {
            if !pages.is_empty() {
                let path = self.path(object);
                let size = u64::from(trace.objects[usize::from(object)].pages) * PAGE as u64;
                fill(&path, object, size, &pages).map_err(PlayError::io(format!(
                    "{}: cannot write a file of the trace; is there room for {} pages?",
                    path.display(),
                    grouped(pages.len() as u64)
                )))?;
            }
        }
        Ok(())
    }

    /// The file of an object.
    pub fn path(&self, object: u8) -> PathBuf {
        self.folder.join(format!("object-{object}"))
    }

    /// The folder they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes them back and drops what is cached of them.
    pub fn forget(&self) -> Result<(), PlayError> {
        let each = || -> io::Result<()> {
            for entry in fs::read_dir(&self.folder)? {
                let file = File::open(entry?.path())?;
                file.sync_all()?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            Ok(())
        };
        each().map_err(PlayError::io(format!(
            "{}: writing back",
            self.folder.display()
        )))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The pages of each file that the trace uses. If the kernel reads ahead, also those between them, for it does not go to the
/// disk for holes; but not of files that are hardly anything else.
fn used(trace: &Trace) -> Vec<BTreeSet<u32>> {
    let mut used = vec![BTreeSet::new(); trace.objects.len()];
    for op in trace.ops().iter().filter(|op| !op.kind.is_anon()) {
        used[usize::from(op.object)].insert(op.page);
    }
    if trace.has_advice() {
        for (used, info) in used.iter_mut().zip(&trace.objects) {
            if !used.is_empty() && !info.is_scattered() {
                used.extend(0..info.pages);
            }
        }
    }
    used
}

fn fill(path: &Path, object: u8, size: u64, pages: &BTreeSet<u32>) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.set_len(size)?;
    let mut buf = Vec::with_capacity(BATCH * PAGE);
    let mut from = None;
    for &page in pages {
        let next = from.map(|f: u32| f + (buf.len() / PAGE) as u32);
        if next != Some(page) || buf.len() == BATCH * PAGE {
            if let Some(from) = from {
                file.write_all_at(&buf, u64::from(from) * PAGE as u64)?;
            }
            buf.clear();
            from = Some(page);
        }
        buf.resize(buf.len() + PAGE, object);
        let at = buf.len() - PAGE;
        buf[at] = stamp(object, page);
    }
    if let Some(from) = from {
        file.write_all_at(&buf, u64::from(from) * PAGE as u64)?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_traces::{Event, Op, OpKind, Step, StepKind};

    /// Reading a hole ahead would cost nothing.
    #[test]
    fn what_may_be_read_ahead_is_no_hole() {
        let dir = tempfile::tempdir().unwrap();
        let op = |object, page| Op {
            kind: OpKind::Pread,
            object,
            task: 0,
            page,
        };
        let trace = Trace::from_ops(vec![op(0, 1000), op(1, 99_999)]);
        let step = Step {
            kind: StepKind::Advise,
            object: 0,
            task: 0,
            value: 0,
        };
        let advised = trace.clone().with_events(vec![Event { at: 0, step }]);
        for (trace, held) in [(trace, 0), (advised, stamp(0, 700))] {
            let files = Files::make(dir.path(), &trace).unwrap();
            assert_eq!(fs::read(files.path(0)).unwrap()[700 * PAGE], held);
            // A page of a hundred thousand is not worth the others.
            assert_eq!(fs::read(files.path(1)).unwrap()[700 * PAGE], 0);
        }
    }

    #[test]
    fn pages_hold_their_stamps_and_the_rest_is_a_hole() {
        let dir = tempfile::tempdir().unwrap();
        let op = |kind, object, page| Op {
            kind,
            object,
            task: 0,
            page,
        };
        let mut ops: Vec<Op> = (0..600).map(|p| op(OpKind::Pread, 0, p)).collect();
        ops.push(op(OpKind::MappedRead, 0, 5000));
        ops.push(op(OpKind::AnonWrite, 1, 3));
        let left = dir.path().join("coldset-play-4194305");
        fs::create_dir(&left).unwrap();
        let files = Files::make(dir.path(), &Trace::from_ops(ops)).unwrap();
        assert!(!left.exists(), "of a process that is no more");
        let bytes = fs::read(files.path(0)).unwrap();
        assert_eq!(bytes.len(), 5001 * PAGE);
        for page in (0..600).chain([5000]) {
            assert_eq!(bytes[page as usize * PAGE], stamp(0, page), "page {page}");
        }
        assert_eq!(bytes[700 * PAGE], 0);
        assert!(!files.path(1).exists(), "anonymous");
        files.forget().unwrap();
        let folder = files.folder().to_owned();
        drop(files);
        assert!(!folder.exists());
    }

    #[test]
    fn the_last_number_of_an_object_can_be_used() {
        let dir = tempfile::tempdir().unwrap();
        let op = Op {
            kind: OpKind::Pread,
            object: 255,
            task: 0,
            page: 1,
        };
        let files = Files::make(dir.path(), &Trace::from_ops(vec![op])).unwrap();
        assert_eq!(fs::read(files.path(255)).unwrap()[PAGE], stamp(255, 1));
    }
}
