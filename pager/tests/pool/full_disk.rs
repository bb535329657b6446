//! Devices that are full: the error is told, nothing is lost, and it goes on once there is room.

use crate::common::*;
use coldset_pager::store::FileStorage;
use coldset_pager::{Error, FaultMode, FlushConfig, Pool, PoolConfig, Region, SwapConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A small file system of this test's own, if the user may mount one; gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(bytes: u64) -> Option<Self> {
        let dir = temp("disk");
        std::fs::create_dir(&dir).unwrap();
        let options = format!("size={bytes}");
        let out = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "coldset-test"])
            .arg(&dir)
            .output();
        match out {
            Ok(o) if o.status.success() => Some(Self(dir)),
            other => {
                let why = other.map_or_else(
                    |e| e.to_string(),
                    |o| String::from_utf8_lossy(&o.stderr).trim().to_string(),
                );
                println!("skipped, a limit on file sizes is tested instead: mount: {why}");
                std::fs::remove_dir(&dir).unwrap();
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Takes all room that is left.
    fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.path("ballast");
        let mut f = std::fs::File::create(&path).unwrap();
        while f.write_all(&[1; PAGE]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn quiet() -> FlushConfig {
    FlushConfig {
        interval: Duration::from_secs(3600),
        expire: Duration::from_secs(3600),
        background_percent: 100,
        hard_percent: 100,
    }
}

/// Faulting where that is possible.
fn pool(budget: u64) -> Pool {
    let config = PoolConfig::new(budget)
        .flush(quiet())
        .full_wait(Duration::ZERO);
    match faulting(config.clone()) {
        Some(p) => p,
        None => Pool::new(config.fault_mode(FaultMode::Explicit)).unwrap(),
    }
}

/// A byte of a page, however the pool is used.
fn put(r: &mut Region, explicit: bool, page: usize, v: u8) -> Result<(), Error> {
    if explicit {
        r.fix_mut(page)?[9] = v;
    } else {
        r.bytes_mut()[page * PAGE + 9] = v;
    }
    Ok(())
}

fn get(r: &Region, explicit: bool, page: usize) -> u8 {
    if explicit {
        r.fix(page).unwrap()[9]
    } else {
        r.bytes()[page * PAGE + 9]
    }
}

/// Stores to holes of a sparse file on a full disk: an error at sync, pages kept; after room has been
/// made, they are in the file.
#[test]
fn a_map_of_a_sparse_file_on_a_full_disk() {
    let _one = alone();
    let Some(disk) = SmallDisk::new(MIB) else {
        return;
    };
    let path = disk.path("sparse");
    let pages = 64;
    std::fs::File::create(&path)
        .unwrap()
        .set_len((pages * PAGE) as u64)
        .unwrap();
    let ballast = disk.fill();
    let pool = pool(4 * MIB);
    let explicit = pool.snapshot().fault_mode == "explicit";
    let mut region = pool.file(&path).unwrap();
    for p in 0..pages {
        put(&mut region, explicit, p, p as u8 + 1).unwrap();
    }
    let told = region.sync(0..region.len()).unwrap_err().to_string();
    assert!(told.contains("No space left"), "{told}");
    // Evicting cannot get rid of them either.
    let _ = pool.root().reclaim(MIB);
    for p in 0..pages {
        assert_eq!(get(&region, explicit, p), p as u8 + 1, "page {p} is kept");
    }
    let again = region.sync(0..region.len());
    assert!(again.is_err(), "still no room, and told again");
    std::fs::remove_file(ballast).unwrap();
    // The flusher has tried, too, and failed: that is told once, whatever is on disk by now.
    let late = region.sync(0..region.len());
    late.unwrap_or_else(|e| println!("told late: {e}"));
    region.sync(0..region.len()).unwrap();
    compare(&path, pages);
    region.close().unwrap();
}

fn compare(path: &Path, pages: usize) {
    let bytes = std::fs::read(path).unwrap();
    for p in 0..pages {
        assert_eq!(bytes[p * PAGE + 9], p as u8 + 1, "page {p} in the file");
    }
}

/// A swap file on a disk that fills up: what cannot leave stays, misses find no room, and nothing is
/// lost.
#[test]
fn a_swap_file_on_a_full_disk() {
    let _one = alone();
    let Some(disk) = SmallDisk::new(4 * MIB) else {
        return;
    };
    // Sparse: the file system has room for 1 of its 16 MiB.
    let ballast = {
        let path = disk.path("ballast");
        std::fs::write(&path, vec![1; 3 * MIB as usize]).unwrap();
        path
    };
    // A swap file of the pool's own gets its space at once, or is refused.
    let refused = PoolConfig::new(MIB)
        .swap(SwapConfig::file(disk.path("swap"), 16 * MIB))
        .fault_mode(FaultMode::Explicit);
    let refused = Pool::new(refused).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::File {
                errno: libc::ENOSPC,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("bytes free"), "{refused}");
    assert!(!disk.path("swap").exists());
    // One that the program brings may be sparse.
    let path = disk.path("sparse");
    let sparse = std::fs::File::create(&path).unwrap();
    sparse.set_len(16 * MIB).unwrap();
    let sparse = Arc::new(FileStorage::open(&path, true).unwrap());
    let swap = SwapConfig::none().and_storage(sparse, 16 * MIB);
    let pool = Pool::new(
        PoolConfig::new(MIB)
            .swap(swap)
            .full_wait(Duration::ZERO)
            .fault_mode(FaultMode::Explicit),
    )
    .unwrap();
    let mut region = pool.anonymous(8 * MIB as usize).unwrap();
    let mut stored = 0;
    let refused = loop {
        match put(&mut region, true, stored, stored as u8 | 1) {
            Ok(()) => stored += 1,
            Err(e) => break e,
        }
        assert!(stored < 2048, "8 MiB fit into 1 + 1 MiB");
    };
    assert!(matches!(refused, Error::NoMemory { .. }), "{refused}");
    assert!(stored > 300, "{stored} pages");
    let told = pool.sync().unwrap_err().to_string();
    assert!(told.contains("No space left"), "{told}");
    // What is in swap cannot come in while nothing can leave; room is made, and all is there.
    std::fs::remove_file(ballast).unwrap();
    for p in stored..2 * stored {
        put(&mut region, true, p, p as u8 | 1).unwrap();
    }
    for p in 0..2 * stored {
        assert_eq!(get(&region, true, p), p as u8 | 1, "page {p}");
    }
    pool.sync().unwrap_or_else(|e| println!("told late: {e}"));
    pool.sync().unwrap();
}

/// Evictions wait for room, and say so once: when it comes, nothing has failed; when it does not, it is
/// the error that it was. Under swap and under a mapped file.
#[test]
fn room_is_waited_for() {
    const NAME: &str = "room_is_waited_for";
    if let Some(role) = child::role() {
        let [under, path, wait] = role.split('|').collect::<Vec<_>>()[..] else {
            panic!("{role}");
        };
        return store_more_than_fits(under, Path::new(path), wait);
    }
    let _one = alone();
    for (under, comes) in [
        ("swap", true),
        ("swap", false),
        ("file", true),
        ("file", false),
    ] {
        let Some(disk) = SmallDisk::new(4 * MIB) else {
            return;
        };
        let ballast = disk.path("ballast");
        std::fs::write(&ballast, vec![1; 3 * MIB as usize]).unwrap();
        let wait = if comes { "600" } else { "300ms" };
        let path = disk.path("sparse").display().to_string();
        let mut running = child::command(NAME, &format!("{under}|{path}|{wait}"))
            .spawn()
            .unwrap();
        let what = match under {
            "swap" => "swap".into(),
            _ => format!("the file {path}"),
        };
        let waiting = format!("the disk has no room for {what}; waiting up to 600 s");
        let mut lines = Vec::new();
        let stderr = std::io::BufReader::new(running.stderr.take().unwrap());
        for line in std::io::BufRead::lines(stderr).map_while(Result::ok) {
            if comes && line.contains(&waiting) {
                std::fs::remove_file(&ballast).unwrap();
            }
            lines.push(line);
        }
        let out = running.wait_with_output().unwrap();
        let told = format!("{}\n{}", child::text(&out), lines.join("\n"));
        assert!(out.status.success(), "{told}");
        let waits = lines.iter().filter(|l| l.contains("waiting up to"));
        assert_eq!(waits.count(), 1, "{told}");
        if comes {
            assert!(told.contains("all stored, 0 store errors"), "{told}");
        } else {
            assert!(told.contains("refused: no memory"), "{told}");
            let sync = format!("sync: writing {what}: No space left");
            assert!(told.contains(&sync), "{told}");
        }
    }
}

/// Stores 3 MiB within a budget of 1 MiB, the rest `under` swap or in the file itself.
fn store_more_than_fits(under: &str, path: &Path, wait: &str) {
    let sparse = std::fs::File::create(path).unwrap();
    sparse.set_len(16 * MIB).unwrap();
    let mut config = PoolConfig::new(MIB)
        .flush(quiet())
        .fault_mode(FaultMode::Explicit)
        .set("full_wait", wait)
        .unwrap();
    if under == "swap" {
        let sparse = Arc::new(FileStorage::open(path, true).unwrap());
        config = config.swap(SwapConfig::none().and_storage(sparse, 16 * MIB));
    }
    let pool = Pool::new(config).unwrap();
    let mut region = match under {
        "swap" => pool.anonymous(3 * MIB as usize).unwrap(),
        _ => pool.file(path).unwrap(),
    };
    for p in 0..768 {
        if let Err(e) = put(&mut region, true, p, p as u8 | 1) {
            println!("refused: {e}");
            let told = pool.sync().unwrap_err();
            return println!("sync: {told}");
        }
    }
    for p in 0..768 {
        assert_eq!(get(&region, true, p), p as u8 | 1, "page {p}");
    }
    println!("all stored, {} store errors", pool.stats().store_errors);
}

/// The same without the right to mount: the process may not write beyond a limit.
#[test]
#[allow(unsafe_code, reason = "limits and signals of the process")]
fn a_limit_on_file_sizes_is_a_full_disk() {
    const NAME: &str = "a_limit_on_file_sizes_is_a_full_disk";
    if child::role().is_none() {
        // The limit is the whole process's.
        let out = child::run(NAME, "limited");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let path = temp("limited");
    let pages = 64;
    std::fs::File::create(&path)
        .unwrap()
        .set_len((pages * PAGE) as u64)
        .unwrap();
    let set = |bytes: u64| {
        // SAFETY: a limit of this process, whose signal is an error of the call instead.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let mut l = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_FSIZE, &mut l);
            l.rlim_cur = bytes.min(l.rlim_max);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &l), 0);
        }
    };
    let pool = pool(4 * MIB);
    let explicit = pool.snapshot().fault_mode == "explicit";
    let mut region = pool.file(&path).unwrap();
    for p in 0..pages {
        put(&mut region, explicit, p, p as u8 + 1).unwrap();
    }
    // A limit inside a run: the write is short first, then refused.
    set(10 * PAGE as u64 + 100);
    let told = region.sync(0..region.len()).unwrap_err().to_string();
    assert!(told.contains("File too large"), "{told}");
    for p in 0..pages {
        assert_eq!(get(&region, explicit, p), p as u8 + 1, "page {p} is kept");
    }
    set(u64::MAX);
    region.sync(0..region.len()).unwrap();
    compare(&path, pages);
    region.close().unwrap();
    std::fs::remove_file(path).unwrap();
}
