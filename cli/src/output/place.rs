//! Files that are written when all is done: until then, and if it fails, they have what they had.

use crate::error::Failure;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// What a new file may be used for, but for what the process's mask takes away.
const EVERYBODY: u32 = 0o666;

/// Where a file is to be, which can be written.
#[derive(Debug)]
pub struct Place {
    target: PathBuf,
    /// What is there now.
    there: Option<Metadata>,
}

/// Where bytes are to go.
pub enum Target {
    /// A pipe, a terminal: what has been written cannot be taken back.
    Stream(Box<dyn Write + Send>),
    File(Place),
}

impl Target {
    /// Finds out that it can be written, and changes nothing.
    ///
    /// # Errors
    /// It cannot.
    pub fn open(name: &Path) -> io::Result<Self> {
        let there = match fs::metadata(name) {
            Ok(there) if there.is_file() => Some(there),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            _ => return Ok(Self::Stream(Box::new(File::create(name)?))),
        };
        let target = match &there {
            Some(_) => {
                OpenOptions::new().write(true).open(name)?;
                fs::canonicalize(name)?
            }
            None => match OpenOptions::new().write(true).create_new(true).open(name) {
                Ok(_) => {
                    fs::remove_file(name)?;
                    name.to_owned()
                }
                // A link to a file that is not there yet.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    return Ok(Self::Stream(Box::new(File::create(name)?)));
                }
                Err(e) => return Err(e),
            },
        };
        Ok(Self::File(Place { target, there }))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// As writing; a file keeps what it had.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(out) => out.write_all(bytes).and_then(|()| out.flush()),
            Self::File(place) => match place.draft()? {
                Some(mut draft) => {
                    draft.write_all(bytes)?;
                    place.keep(draft)
                }
                None => fs::write(&place.target, bytes),
            },
        }
    }

    /// Has all of it written by `write`; `name` is for messages.
    ///
    /// # Errors
    /// Those of `write`, or as [`Self::put`]; a file keeps what it had.
    pub fn put_by<T>(
        self,
        name: &str,
        write: impl FnOnce(Box<dyn Write + Send>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let failed = |e| Failure::write(name, e);
        let place = match self {
            Self::Stream(out) => return write(out),
            Self::File(place) => place,
        };
        let Some(draft) = place.draft().map_err(failed)? else {
            let file = File::create(&place.target).map_err(failed)?;
            return write(Box::new(file));
        };
        let file = draft.as_file().try_clone().map_err(failed)?;
        let written = write(Box::new(file))?;
        place.keep(draft).map_err(failed)?;
        Ok(written)
    }
}

impl Place {
    /// An empty file beside it, which goes away unless it is [kept](Self::keep); none: the file may be written, its
    /// folder not.
    ///
    /// # Errors
    /// It cannot be made.
    fn draft(&self) -> io::Result<Option<NamedTempFile>> {
        let folder = self.target.parent().filter(|p| !p.as_os_str().is_empty());
        let mut builder = Builder::new();
        let builder = builder
            .prefix(".coldset-")
            .permissions(Permissions::from_mode(EVERYBODY));
        let draft = match builder.tempfile_in(folder.unwrap_or(Path::new("."))) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => return Ok(None),
            draft => draft?,
        };
        if let Some(there) = &self.there {
            fs::set_permissions(draft.path(), there.permissions())?;
            // As far as one may: who writes for another is the superuser.
            let _ = chown(draft.path(), Some(there.uid()), Some(there.gid()));
        }
        Ok(Some(draft))
    }

    /// Puts a draft in its place.
    ///
    /// # Errors
    /// As renaming.
    fn keep(&self, draft: NamedTempFile) -> io::Result<()> {
        draft.persist(&self.target)?;
        Ok(())
    }
}

/// Two names of one file; devices and pipes may be named twice.
pub fn are_one(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let (Ok(a), Ok(b)) = (whole(a), whole(b)) else {
        return false;
    };
    a == b && fs::metadata(&a).map_or(true, |there| there.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "before").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&old, &link).unwrap();
        let mut targets = [&link, &new].map(|path| Target::open(path).unwrap());
        assert_eq!(fs::read_to_string(&old).unwrap(), "before");
        assert!(!new.exists());
        for target in &mut targets {
            target.put(b"after").unwrap();
        }
        for path in [&old, &new, &link] {
            assert_eq!(fs::read_to_string(path).unwrap(), "after");
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&old).unwrap().permissions().mode() & 0o777,
            0o640
        );
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 3, "no draft is left");
    }

    #[test]
    fn what_is_written_half_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old");
        fs::write(&path, "before").unwrap();
        let put = |end: Result<u8, Failure>| {
            let target = Target::open(&path).unwrap();
            target.put_by("old", |mut to| {
                to.write_all(b"after").unwrap();
                end
            })
        };
        assert!(put(Err(Failure::Usage("half".into()))).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(put(Ok(7)).unwrap(), 7);
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "no draft is left");
    }

    #[test]
    fn what_cannot_be_written_is_told_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Target::open(folder.path()).is_err());
        assert!(Target::open(&folder.path().join("no/file")).is_err());
        assert!(matches!(
            Target::open(Path::new("/dev/null")),
            Ok(Target::Stream(_))
        ));
    }

    #[test]
    fn one_file_may_have_two_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(are_one(&path("a"), &path("a")), "nor has it to be there");
        assert!(!are_one(&path("a"), &path("b")));
        fs::write(path("b"), "").unwrap();
        std::os::unix::fs::symlink(path("b"), path("c")).unwrap();
        assert!(are_one(&path("c"), &path("b")));
        assert!(!are_one(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
