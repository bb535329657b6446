//! The initramfs of a guest: this program with its libraries as the first process, modules, a job, files.

use crate::job::{Job, JOB, MODULES};
use crate::modules::Module;
use crate::GuestError;
use cpio::newc::{trailer, Builder};
use flate2::write::GzEncoder;
use flate2::Compression;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is in it.
pub struct Image<'a> {
    /// The first process: a program of this machine.
    pub program: PathBuf,
    /// Modules, in the order in which they are loaded.
    pub modules: &'a [Module],
    /// What the guest is told.
    pub job: &'a Job,
    /// Other files: name inside, file of this machine.
    pub files: Vec<(String, PathBuf)>,
}

/// Permissions and kinds of entries.
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

struct Archive<W: Write> {
    out: W,
    made: BTreeSet<PathBuf>,
    inode: u32,
}

impl<W: Write> Archive<W> {
    fn entry(&mut self, name: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let inside = name.strip_prefix("/").unwrap_or(name);
        if let Some(parent) = inside.parent().filter(|p| !p.as_os_str().is_empty()) {
            let parent = parent.to_owned();
            self.folder(&parent)?;
        }
        self.inode += 1;
        let builder = Builder::new(&inside.to_string_lossy())
            .ino(self.inode)
            .mode(mode);
        let mut writer = builder.write(&mut self.out, bytes.len() as u32);
        writer.write_all(bytes)?;
        writer.finish()?;
        Ok(())
    }

    fn folder(&mut self, name: &Path) -> io::Result<()> {
        match self.made.insert(name.to_owned()) {
            true => self.entry(name, FOLDER, &[]),
            false => Ok(()),
        }
    }
}

impl Image<'_> {
    /// Writes it to `path`, packed.
    ///
    /// # Errors
    /// No `ldd`, a file that cannot be read, or the initramfs that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), GuestError> {
        let libraries = libraries("ldd", &self.program)?;
        self.try_write(path, &libraries)
            .map_err(GuestError::io(format!("{}: the initramfs", path.display())))
    }

    fn try_write(&self, path: &Path, libraries: &[PathBuf]) -> io::Result<()> {
        let packed = GzEncoder::new(BufWriter::new(File::create(path)?), Compression::fast());
        let mut archive = Archive {
            out: packed,
            made: BTreeSet::new(),
            inode: 0,
        };
        for name in ["dev", "proc", "sys", "mnt", "tmp"] {
            archive.folder(Path::new(name))?;
        }
        archive.entry(Path::new("init"), PROGRAM, &fs::read(&self.program)?)?;
        for library in libraries {
            archive.entry(library, PROGRAM, &fs::read(library)?)?;
        }
        for module in self.modules {
            let name = format!("{MODULES}/{}", module.name);
            archive.entry(Path::new(&name), FILE, &module.bytes)?;
        }
        let job = serde_json::to_vec(self.job).expect("a job is plain data");
        archive.entry(Path::new(JOB), FILE, &job)?;
        for (name, file) in &self.files {
            archive.entry(Path::new(name), FILE, &fs::read(file)?)?;
        }
        let packed = trailer(archive.out)?;
        packed.finish()?.flush()
    }
}

/// The libraries of a program, and what loads them, as `ldd` says; none of one that is linked statically.
fn libraries(ldd: &'static str, program: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let out = std::process::Command::new(ldd).arg(program).output();
    let out = out.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => GuestError::Program {
            program: ldd,
            package: "libc-bin",
        },
        _ => GuestError::io(ldd)(e),
    })?;
    Ok(parse(&String::from_utf8_lossy(&out.stdout)))
}

/// Lines like `libm.so.6 => /lib/libm.so.6 (0x7f)` and `/lib64/ld-linux-x86-64.so.2 (0x7f)`.
fn parse(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let path = line.split_whitespace().rfind(|w| w.starts_with('/'))?;
        Some(PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loads_a_program_is_found() {
        let text = "\tlinux-vdso.so.1 (0x7ff)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x7f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(
            parse(text),
            ["/lib/x/libc.so.6", "/lib64/ld.so.2"].map(PathBuf::from)
        );
        assert_eq!(parse("\tstatically linked\n"), Vec::<PathBuf>::new());
    }

    #[test]
    fn who_has_no_ldd_is_told_where_it_is() {
        let said = libraries("no-such-ldd", Path::new("/bin/true")).unwrap_err();
        assert_eq!(
            said.to_string(),
            "no-such-ldd is missing; install it: apt-get install libc-bin"
        );
    }

    #[test]
    fn an_archive_has_each_folder_once_and_before_its_files() {
        let mut archive = Archive {
            out: Vec::new(),
            made: BTreeSet::new(),
            inode: 0,
        };
        archive.entry(Path::new("/a/b/one"), FILE, b"1").unwrap();
        archive.entry(Path::new("/a/b/two"), FILE, b"22").unwrap();
        let bytes = trailer(archive.out).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let places = ["a\0", "a/b\0", "a/b/one\0", "a/b/two\0", "TRAILER!!!"]
            .map(|name| text.find(name).unwrap());
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(text.matches("a/b\0").count(), 1);
    }
}
