//! Files that hold somebody's memory: swap and journals. Who may read them, and what they never overwrite.

use crate::common::*;
use coldset_pager::{Error, FaultMode, Pool, PoolConfig, Region, SwapConfig};
use std::collections::BTreeSet;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn explicit(swap: SwapConfig) -> PoolConfig {
    PoolConfig::new(MIB)
        .swap(swap)
        .fault_mode(FaultMode::Explicit)
        .background(false)
}

fn on_file(path: &Path) -> Result<Pool, Error> {
    Pool::new(explicit(SwapConfig::file(path, 8 * MIB)))
}

/// A folder of this test's own, removed with all it holds.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = temp("folder");
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A swap file that somebody tampers with.
pub(crate) fn writable(path: &Path) -> std::fs::File {
    let mut options = std::fs::File::options();
    options.read(true).write(true).open(path).unwrap()
}

/// An error's text, which names the path.
fn names(e: &Error, path: &Path) -> String {
    let e = e.to_string();
    assert!(e.contains(path.to_str().unwrap()), "{e}");
    e
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Contents of a page that no codec and no accident makes.
pub(crate) fn text(page: usize, version: usize) -> Vec<u8> {
    let mut r = Random::new((page * 1000 + version) as u64);
    let head = format!("TOPSECRET {page} {version}\n").into_bytes();
    let rest = (head.len()..PAGE).map(|_| r.next() as u8);
    head.iter().copied().chain(rest).collect()
}

pub(crate) fn put(r: &Region, pages: usize, version: usize) {
    for p in 0..pages {
        r.fix_mut(p).unwrap().copy_from_slice(&text(p, version));
    }
}

/// Everything that can go to the store does.
pub(crate) fn push_out(pool: &Pool) {
    while pool.root().reclaim(16 * MIB).unwrap() > 0 {}
}

// ---------------------------------------------------------------- who may read

/// Another user looks for files to open in the folder, and in the descriptors of the process, all the time
/// while swap files are made.
#[test]
fn another_user_finds_nothing_to_read() {
    const NAME: &str = "another_user_finds_nothing_to_read";
    if let Some(role) = child::role() {
        return spy(Path::new(&role));
    }
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can start another user's program");
    }
    let folder = Folder::new();
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let (spy, program) = child::spawn_as_nobody(NAME, folder.0.to_str().unwrap());
    while !folder.path("ready").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // A process of its own: TMPDIR is for it alone.
    for i in 0..8 {
        let swap = match i % 2 {
            0 => "temp".to_string(),
            _ => folder.path(&format!("named{i}")).display().to_string(),
        };
        let out = child::command("keeps_secrets_for_a_moment", &swap)
            .env("TMPDIR", &folder.0)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", child::text(&out));
    }
    std::fs::write(folder.path("stop"), "").unwrap();
    let out = spy.wait_with_output().unwrap();
    std::fs::remove_file(program).unwrap();
    let told = child::text(&out);
    assert!(out.status.success(), "{told}");
    assert!(told.contains("looked at"), "{told}");
    print!("{told}");
}

fn spy(folder: &Path) {
    let mut processes = 0;
    let (mut rounds, mut opened, mut seen) = (0u64, BTreeSet::new(), BTreeSet::new());
    std::fs::write(folder.join("ready"), "").unwrap();
    while !folder.join("stop").exists() {
        rounds += 1;
        for e in std::fs::read_dir(folder).unwrap().flatten() {
            let name = e.file_name().into_string().unwrap();
            if name == "ready" || name == "stop" {
                continue;
            }
            if std::fs::File::open(e.path()).is_ok() {
                opened.insert(name.clone());
            }
            seen.insert(name);
        }
        // The kernel lets nobody in who may not trace the process.
        for e in std::fs::read_dir("/proc").unwrap().flatten() {
            let number = e.file_name().to_string_lossy().parse::<u32>().is_ok();
            let roots = number && e.metadata().is_ok_and(|m| m.uid() == 0);
            if let Some(fds) = roots
                .then(|| std::fs::read_dir(e.path().join("fd")).ok())
                .flatten()
            {
                processes += 1;
                opened.extend(fds.flatten().map(|e| e.path().display().to_string()));
            }
        }
    }
    assert_eq!(
        processes, 0,
        "descriptors of root's processes could be listed"
    );
    println!(
        "looked at {} names in {rounds} rounds, opened {opened:?}",
        seen.len()
    );
    assert!(opened.is_empty(), "{opened:?} could be opened");
    assert!(
        seen.len() >= 4,
        "the named ones must have been seen: {seen:?}"
    );
}

#[test]
fn keeps_secrets_for_a_moment() {
    let Some(role) = child::role() else { return };
    // What the default of many systems would make readable.
    rustix::process::umask(rustix::fs::Mode::empty());
    let swap = match role.as_str() {
        "temp" => SwapConfig::none().and_temporary(8 * MIB),
        path => SwapConfig::file(path, 8 * MIB),
    };
    let pool = Pool::new(explicit(swap)).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    put(&region, 1000, 1);
    std::thread::sleep(Duration::from_millis(100));
}

/// Unnamed files have no name and cannot get one; named ones are their owner's alone, whatever the umask
/// says, and whatever the file was before.
#[test]
fn swap_files_are_their_owners_alone() {
    const NAME: &str = "swap_files_are_their_owners_alone";
    if child::role().is_none() {
        // The umask is the whole process's.
        let out = child::run(NAME, "any umask");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let folder = Folder::new();
    for umask in [0, 0o777] {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        let path = folder.path(&format!("swap{umask}"));
        let pool = on_file(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(pool);
        // It stays, known for what it is, and holds nothing.
        let len = std::fs::metadata(&path).unwrap().len();
        assert_eq!((mode(&path), len), (0o600, PAGE as u64));
        let before = std::fs::metadata(&path).unwrap().ino();
        let pool = on_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), before);
        drop(pool);
        // Somebody may have opened it meanwhile: whoever has, keeps the old one.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let spy = std::fs::File::open(&path).unwrap();
        let pool = on_file(&path).unwrap();
        let region = pool.anonymous(4 * MIB as usize).unwrap();
        put(&region, 1000, 1);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(spy.metadata().unwrap().len(), PAGE as u64);
        assert_ne!(
            spy.metadata().unwrap().ino(),
            std::fs::metadata(&path).unwrap().ino()
        );
        drop(region);
        let pool = Pool::new(explicit(SwapConfig::none().and_temporary(8 * MIB))).unwrap();
        let unnamed = open_files()
            .into_iter()
            .filter(|(name, _)| name.ends_with("(deleted)"));
        let swaps: Vec<_> = unnamed.filter(|(_, m)| m.len() == 8 * MIB).collect();
        assert!(!swaps.is_empty(), "{:?}", open_files());
        for (name, m) in swaps {
            assert_eq!((m.nlink(), m.mode() & 0o7777), (0, 0o600), "{name}");
        }
        drop(pool);
    }
}

/// What this process has open, by the names the kernel gives.
fn open_files() -> Vec<(String, std::fs::Metadata)> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter_map(|e| {
        let name = std::fs::read_link(e.path()).ok()?.display().to_string();
        Some((name, std::fs::metadata(e.path()).ok()?))
    })
    .filter(|(name, _)| !name.contains("memfd"))
    .collect()
}

// ---------------------------------------------------------------- what is never overwritten

/// Everything that is no swap file of ours stays as it is, and nothing hangs.
#[test]
fn what_is_not_a_swap_file_is_left_alone() {
    let _others = together();
    let folder = Folder::new();
    let data = folder.path("mydata.npy");
    std::fs::write(&data, b"\x93NUMPY and more than a page".repeat(500)).unwrap();
    let was = std::fs::read(&data).unwrap();
    let link = folder.path("link");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let dangling = folder.path("dangling");
    std::os::unix::fs::symlink(folder.path("nothing"), &dangling).unwrap();
    let fifo = folder.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let empty = folder.path("empty");
    std::fs::write(&empty, "").unwrap();
    let mut all = vec![
        (data.clone(), "not a swap file"),
        (link, "symbolic link"),
        (dangling, "symbolic link"),
        (fifo, "not a regular file"),
        (empty, "not a swap file"),
        (folder.0.clone(), "a directory"),
        (PathBuf::from("/dev/null"), "a device"),
        (folder.path("no/such/folder"), "No such file"),
    ];
    if rustix::process::geteuid().is_root() {
        // With our header, prepared by somebody who may have kept a descriptor.
        let path = folder.path("theirs");
        drop(on_file(&path).unwrap());
        std::os::unix::fs::chown(&path, Some(child::NOBODY), None).unwrap();
        all.push((path, "belongs to user 65534"));
    }
    for (path, told) in all {
        let e = on_file(&path).unwrap_err();
        assert!(matches!(e, Error::File { .. }), "{e:?}");
        let e = names(&e, &path);
        assert!(e.contains(told), "{e}");
    }
    assert!(
        std::fs::read(&data).unwrap() == was,
        "the data are as they were"
    );
    assert!(!folder.path("nothing").exists());
}

/// One pool at a time: others, here and in other processes, get an error that names the holder, and the
/// holder loses nothing.
#[test]
fn a_swap_file_has_one_pool() {
    const NAME: &str = "a_swap_file_has_one_pool";
    let _others = together();
    if let Some(role) = child::role() {
        return println!(
            "got: {:?}",
            on_file(Path::new(&role))
                .map(|_| ())
                .map_err(|e| e.to_string())
        );
    }
    let folder = Folder::new();
    let path = folder.path("swap");
    let pool = on_file(&path).unwrap();
    let region = pool.anonymous(6 * MIB as usize).unwrap();
    put(&region, 1500, 1);
    let e = on_file(&path).unwrap_err();
    assert!(matches!(e, Error::InUse { .. }), "{e:?}");
    assert!(
        e.to_string().contains("used as swap by this process"),
        "{e}"
    );
    let told = child::text(&child::run(NAME, path.to_str().unwrap()));
    let by = format!("in use by process {} (", std::process::id());
    assert!(told.contains("got: Err") && told.contains(&by), "{told}");
    // A map of it is refused as well.
    for e in [pool.file(&path), pool.file_read_only(&path)] {
        let e = e.unwrap_err().to_string();
        assert!(e.contains("used as swap"), "{e}");
    }
    let e = Pool::new(explicit(SwapConfig::none()).journal(&path)).unwrap_err();
    assert!(e.to_string().contains("used as swap"), "{e}");
    for p in 0..1500 {
        assert!(*region.fix(p).unwrap() == *text(p, 1), "page {p}");
    }
    drop((region, pool));
    let told = child::text(&child::run(NAME, path.to_str().unwrap()));
    assert!(told.contains("got: Ok"), "{told}");
}

/// A pool that has been dropped gives its file up, with all its threads on: who comes next need not wait
/// or try again.
#[test]
fn a_dropped_pool_gives_its_files_up() {
    let _others = together();
    let folder = Folder::new();
    let (swap, journal) = (folder.path("swap"), folder.path("journal"));
    for _ in 0..20 {
        let config = PoolConfig::new(MIB)
            .swap(SwapConfig::file(&swap, 8 * MIB))
            .fault_mode(FaultMode::Auto)
            .background(true)
            .journal(&journal);
        let pool = Pool::new(config).unwrap();
        let mut region = pool.anonymous(4 * MIB as usize).unwrap();
        if region.is_explicit() {
            put(&region, 900, 1);
        } else {
            region.bytes_mut().chunks_mut(PAGE).for_each(|p| p[1] = 1);
        }
        drop((pool, region));
    }
}

/// What cannot come back is SIGBUS for an access, with a line that says why.
#[test]
fn a_page_that_is_wrong_is_a_signal_with_a_line() {
    use std::os::unix::process::ExitStatusExt;
    const NAME: &str = "a_page_that_is_wrong_is_a_signal_with_a_line";
    if let Some(role) = child::role() {
        let config = PoolConfig::new(MIB).swap(SwapConfig::file(&role, 8 * MIB));
        let Some(pool) = faulting(config) else { return };
        let mut region = pool.anonymous(4 * MIB as usize).unwrap();
        for (i, p) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
            p.copy_from_slice(&text(i, 1));
        }
        push_out(&pool);
        let file = writable(Path::new(&role));
        for slot in 0..2000 {
            file.write_all_at(b"x", (slot + 1) * PAGE as u64 + 100)
                .unwrap();
        }
        let sum: u64 = region.bytes().iter().map(|&b| u64::from(b)).sum();
        return println!("all of it was read: {sum}");
    }
    let folder = Folder::new();
    let out = child::run(NAME, folder.path("swap").to_str().unwrap());
    let told = child::text(&out);
    if told.contains("skipped") {
        return;
    }
    assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{told}");
    assert!(
        told.contains("cannot be brought in: reading swap: swap slot"),
        "{told}"
    );
    assert!(told.contains("do not match their checksum"), "{told}");
}

/// A pool whose process was killed leaves a file that nobody holds: the next one takes it, and finds none
/// of it.
#[test]
fn a_killed_pool_leaves_its_swap_file_to_the_next() {
    const NAME: &str = "a_killed_pool_leaves_its_swap_file_to_the_next";
    let _others = together();
    if let Some(role) = child::role() {
        let pool = on_file(Path::new(&role)).unwrap();
        let region = pool.anonymous(6 * MIB as usize).unwrap();
        put(&region, 1500, 1);
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .unwrap();
    }
    let folder = Folder::new();
    let path = folder.path("swap");
    child::run(NAME, path.to_str().unwrap());
    let holds = |what: &str| {
        let bytes = std::fs::read(&path).unwrap();
        bytes.windows(what.len()).any(|w| w == what.as_bytes())
    };
    assert!(holds("TOPSECRET"), "killed in the middle of it");
    let pool = on_file(&path).unwrap();
    assert!(!holds("TOPSECRET"));
    assert!(holds(&format!("pid {}", std::process::id())));
    drop(pool);
    assert!(holds("closed"));
}

// ---------------------------------------------------------------- journals

#[test]
fn journals_never_empty_what_is_none() {
    let _others = together();
    let folder = Folder::new();
    let data = folder.path("data");
    std::fs::write(&data, b"precious".repeat(1000)).unwrap();
    let link = folder.path("link");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let config = || explicit(SwapConfig::lz4(8 * MIB));
    let pool = Pool::new(config()).unwrap();
    for (path, told) in [
        (&data, "is not a journal"),
        (&link, "symbolic link"),
        (&folder.0, "directory"),
    ] {
        for e in [
            pool.record(path).unwrap_err(),
            Pool::new(config().journal(path)).unwrap_err(),
        ] {
            let e = names(&e, path);
            assert!(e.contains(told), "{e}");
        }
    }
    assert_eq!(std::fs::read(&data).unwrap(), b"precious".repeat(1000));
    // A swap file is none either.
    let swap = folder.path("swap");
    drop(on_file(&swap).unwrap());
    assert!(pool.record(&swap).is_err());
    let journal = folder.path("journal");
    pool.record(&journal).unwrap();
    assert_eq!(mode(&journal), 0o600);
    let other = Pool::new(config()).unwrap();
    let e = other.record(&journal).unwrap_err();
    assert!(matches!(e, Error::InUse { .. }));
    let e = e.to_string();
    assert!(
        e.contains("being written as a journal by this process"),
        "{e}"
    );
    let region = pool.anonymous(2 * MIB as usize).unwrap();
    put(&region, 200, 1);
    pool.stop_recording().unwrap();
    let first = std::fs::metadata(&journal).unwrap().len();
    coldset_pager::journal::replay(&journal).unwrap();
    // One that has ended may be written again, an empty file too.
    other.record(&journal).unwrap();
    other.stop_recording().unwrap();
    let second = std::fs::metadata(&journal).unwrap().len();
    assert!(second < first, "{second} of {first} bytes");
    coldset_pager::journal::replay(&journal).unwrap();
    let empty = folder.path("empty");
    std::fs::write(&empty, "").unwrap();
    other.record(&empty).unwrap();
    other.stop_recording().unwrap();
    coldset_pager::journal::replay(&empty).unwrap();
}
