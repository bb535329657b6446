//! One file, mapped by many: which of them are refused, here and between processes, and files that become
//! shorter.

use crate::common::*;
use coldset_pager::{Error, FaultMode, MapOptions, Pool, PoolConfig, SwapConfig};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

fn pool() -> Pool {
    Pool::new(PoolConfig::new(4 * MIB).fault_mode(FaultMode::Explicit)).unwrap()
}

fn file(pages: usize) -> PathBuf {
    let path = temp("mapped");
    std::fs::write(&path, vec![1; pages * PAGE]).unwrap();
    path
}

fn refused<T: std::fmt::Debug>(r: Result<T, Error>, told: &str) {
    let e = r.unwrap_err();
    assert!(matches!(e, Error::InUse { .. }), "{e:?}");
    let e = e.to_string();
    assert!(e.contains(told) && e.contains("shared"), "{e}");
}

/// In one process: by the same path and by others, in one pool and in two.
#[test]
fn a_file_is_mapped_once_for_writing() {
    let _others = together();
    let (p, q, path) = (pool(), pool(), file(4));
    let (hard, soft) = (path.with_extension("hard"), path.with_extension("soft"));
    std::fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    let first = p.file(&path).unwrap();
    for by in [&path, &hard, &soft] {
        for pool in [&p, &q] {
            refused(
                pool.file(by),
                "mapped already, for writing, by this process",
            );
            refused(
                pool.file_read_only(by),
                "mapped already, for writing, by this process",
            );
        }
    }
    // Nothing has become of the attempts.
    first.close().unwrap();
    let readers = [
        p.file_read_only(&path).unwrap(),
        q.file_read_only(&hard).unwrap(),
    ];
    refused(p.file(&soft), "mapped already, to be read, by this process");
    drop(readers);
    // At once, not when some thread of the pool has let go.
    for _ in 0..100 {
        let r = q.file(&path).unwrap();
        r.fix_mut(0).unwrap()[0] = 2;
        drop(r);
    }
    for path in [path, hard, soft] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Emptying is refused too, before anything is emptied; so are swap and a journal.
#[test]
fn what_is_mapped_is_not_used_for_anything_else() {
    let _others = together();
    let (p, path) = (pool(), file(4));
    let first = p.file(&path).unwrap();
    let anew = MapOptions::new()
        .write(true)
        .empty(true)
        .grow_to(9 * PAGE as u64);
    refused(p.root().file_with(&path, anew), "mapped already");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 * PAGE as u64);
    assert!(matches!(p.record(&path), Err(Error::InUse { .. })));
    drop(first);
    let made = p.root().file_with(&path, anew).unwrap();
    assert_eq!((made.len(), made.fix(3).unwrap()[0]), (9 * PAGE, 0));
    drop(made);
    let grown = p
        .root()
        .file_with(&path, MapOptions::new().write(true).grow_to(40_000))
        .unwrap();
    assert_eq!(grown.len(), 40_000);
    drop(grown);
    let e = p
        .root()
        .file_with(&path, MapOptions::new().grow_to(1))
        .unwrap_err();
    assert!(e.to_string().contains("only read"), "{e}");
    std::fs::remove_file(&path).unwrap();
    // A swap file that nobody uses has the right header, and is mapped.
    let swap = || {
        PoolConfig::new(MIB)
            .fault_mode(FaultMode::Explicit)
            .swap(SwapConfig::file(&path, MIB))
    };
    drop(Pool::new(swap()).unwrap());
    for shared in [false, true] {
        let o = MapOptions::new().write(true).shared(shared);
        let map = p.root().file_with(&path, o).unwrap();
        let e = Pool::new(swap()).unwrap_err();
        assert!(
            matches!(e, Error::InUse { .. }) && e.to_string().contains("mapped already"),
            "{e}"
        );
        drop(map);
    }
    drop(Pool::new(swap()).unwrap());
    std::fs::remove_file(path).unwrap();
}

/// Who says so may map as often as it likes.
#[test]
fn shared_maps_are_their_users_business() {
    let _others = together();
    let (p, path) = (pool(), file(4));
    let shared = MapOptions::new().write(true).shared(true);
    let one = p.file(&path).unwrap();
    let two = p.root().file_with(&path, shared).unwrap();
    let three = p
        .root()
        .file_with(&path, MapOptions::new().shared(true))
        .unwrap();
    one.fix_mut(0).unwrap()[0] = 7;
    two.fix_mut(1).unwrap()[0] = 8;
    one.close().unwrap();
    two.close().unwrap();
    assert_eq!((three.fix(0).unwrap()[0], three.fix(1).unwrap()[0]), (7, 8));
    std::fs::remove_file(path).unwrap();
}

/// Between processes, by locks; the error names the holder, as far as it can be seen.
#[test]
fn two_processes_do_not_write_to_one_map() {
    const NAME: &str = "two_processes_do_not_write_to_one_map";
    let _others = together();
    if let Some(path) = child::role() {
        let p = pool();
        let say = |what, r: Result<coldset_pager::Region, Error>| match r {
            Ok(_) => println!("{what}: mapped"),
            Err(e) => println!("{what}: {e}"),
        };
        say("write", p.file(&path));
        say("read", p.file_read_only(&path));
        say(
            "shared",
            p.root()
                .file_with(&path, MapOptions::new().write(true).shared(true)),
        );
        return;
    }
    let (p, path) = (pool(), file(4));
    let other = || child::text(&child::run(NAME, path.to_str().unwrap()));
    let line = |text: &str, what: &str| -> String {
        let all: Vec<&str> = text.split(&format!("{what}: ")).collect();
        all[1].lines().next().unwrap().to_string()
    };
    let by = format!("is in use by process {} (", std::process::id());
    let map = p.file(&path).unwrap();
    let told = other();
    assert!(line(&told, "write").contains(&by), "{told}");
    assert!(line(&told, "read").contains(&by), "{told}");
    assert_eq!(line(&told, "shared"), "mapped", "{told}");
    drop(map);
    let map = p.file_read_only(&path).unwrap();
    let told = other();
    assert!(line(&told, "write").contains(&by), "{told}");
    assert_eq!(line(&told, "read"), "mapped", "{told}");
    drop(map);
    let told = other();
    assert_eq!(line(&told, "write"), "mapped", "{told}");
    std::fs::remove_file(path).unwrap();
}

/// A child of fork inherits the open file. It keeps nothing locked that its parent has given up, and gives
/// up nothing of its parent's.
#[test]
#[allow(unsafe_code, reason = "fork")]
fn a_child_of_fork_is_not_in_the_way() {
    const NAME: &str = "a_child_of_fork_is_not_in_the_way";
    let _others = together();
    if let Some(path) = child::role() {
        // Only one thread that matters, so that the child can go on.
        let p = pool();
        let map = p.file(&path).unwrap();
        // SAFETY: the child drops what it has inherited and waits to be killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(map);
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        let held = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let locked = || {
            // SAFETY: a lock that is asked about.
            unsafe {
                let mut l: libc::flock = std::mem::zeroed();
                l.l_type = libc::F_WRLCK as i16;
                assert_eq!(libc::fcntl(held.as_raw_fd(), libc::F_OFD_GETLK, &mut l), 0);
                l.l_type != libc::F_UNLCK as i16
            }
        };
        println!("locked while mapped: {}", locked());
        drop(map);
        println!("locked afterwards: {}", locked());
        println!("again: {}", p.file(&path).is_ok());
        // SAFETY: the child above.
        unsafe { libc::kill(child, libc::SIGKILL) };
        return;
    }
    let path = file(4);
    let told = child::text(&child::run(NAME, path.to_str().unwrap()));
    for line in [
        "locked while mapped: true",
        "locked afterwards: false",
        "again: true",
    ] {
        assert!(told.contains(line), "{told}");
    }
    std::fs::remove_file(path).unwrap();
}

/// Locks of the old kind on the whole file: the process's own is not in its way; another's is.
#[test]
#[allow(unsafe_code, reason = "lockf")]
fn lockf_of_others_counts() {
    const NAME: &str = "lockf_of_others_counts";
    let _others = together();
    if let Some(path) = child::role() {
        println!(
            "got: {:?}",
            pool().file(&path).map(|_| ()).map_err(|e| e.to_string())
        );
        return;
    }
    let (p, path) = (pool(), file(4));
    let f = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    // SAFETY: a lock on an open file.
    assert_eq!(unsafe { libc::lockf(f.as_raw_fd(), libc::F_LOCK, 0) }, 0);
    let told = child::text(&child::run(NAME, path.to_str().unwrap()));
    let by = format!("in use by process {}", std::process::id());
    assert!(told.contains("got: Err") && told.contains(&by), "{told}");
    drop(p.file(&path).unwrap());
    drop(f);
    let told = child::text(&child::run(NAME, path.to_str().unwrap()));
    assert!(told.contains("got: Ok"), "{told}");
    std::fs::remove_file(path).unwrap();
}

/// Things that are not files: one clear line each, and nobody waits for the other end of a pipe.
#[test]
fn only_regular_files_are_mapped() {
    let _others = together();
    let p = pool();
    let folder = temp("folder");
    std::fs::create_dir(&folder).unwrap();
    let fifo = folder.join("fifo");
    assert!(std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap()
        .success());
    let socket = folder.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let empty = folder.join("empty");
    std::fs::write(&empty, "").unwrap();
    let all: [(&Path, &str, i32); 6] = [
        (
            &folder,
            "it is a directory, not a regular file",
            libc::EISDIR,
        ),
        (&fifo, "it is a pipe or a socket", libc::ENODEV),
        (&socket, "it is a pipe or a socket", libc::ENODEV),
        (Path::new("/dev/zero"), "it is a device", libc::ENODEV),
        (&empty, "it is empty", libc::EINVAL),
        (Path::new("/nowhere/at/all"), "No such file", libc::ENOENT),
    ];
    for (path, told, number) in all {
        for e in [p.file(path), p.file_read_only(path)] {
            let e = e.unwrap_err();
            let Error::File { errno, .. } = e else {
                panic!("{e:?}")
            };
            assert_eq!(errno, number, "{e}");
            let e = e.to_string();
            assert!(
                e.contains(told) && e.starts_with(path.to_str().unwrap()),
                "{e}"
            );
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A file that somebody has shortened stays short: what lies beyond its end is an error of `sync`, every
/// time, and what lies before is written.
#[test]
fn a_shortened_file_is_not_made_long_again() {
    let _others = together();
    let pages = 3 * MIB as usize / PAGE;
    let path = file(pages);
    let p = Pool::new(PoolConfig::new(8 * MIB).fault_mode(FaultMode::Explicit)).unwrap();
    let map = p.file(&path).unwrap();
    for page in 0..pages {
        map.fix_mut(page).unwrap()[7] = 9;
    }
    let f = std::fs::File::options().write(true).open(&path).unwrap();
    f.set_len(MIB).unwrap();
    for _ in 0..2 {
        let told = map.sync(0..map.len()).unwrap_err().to_string();
        let text = format!("shortened from {} to {MIB} bytes", 3 * MIB);
        assert!(told.contains(&text), "{told}");
        assert_eq!(f.metadata().unwrap().len(), MIB);
    }
    // Evicting writes too.
    let _ = p.root().reclaim(8 * MIB);
    assert_eq!(f.metadata().unwrap().len(), MIB);
    assert!(p.stats().store_errors > 0);
    map.sync(0..MIB as usize / 2)
        .unwrap_or_else(|e| println!("told late: {e}"));
    let bytes = std::fs::read(&path).unwrap();
    assert!(
        bytes.chunks(PAGE).all(|p| p[7] == 9),
        "what is still there is written"
    );
    // Whoever makes it long again gets the rest.
    f.set_len(3 * MIB).unwrap();
    map.sync(0..map.len())
        .unwrap_or_else(|e| println!("told late: {e}"));
    map.sync(0..map.len()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.chunks(PAGE).all(|p| p[7] == 9));
    map.close().unwrap();
    // At the end nothing grows either.
    let map = p.file(&path).unwrap();
    map.fix_mut(pages - 1).unwrap()[7] = 10;
    f.set_len(MIB).unwrap();
    assert!(map.close().is_err());
    assert_eq!(f.metadata().unwrap().len(), MIB);
    std::fs::remove_file(path).unwrap();
}
