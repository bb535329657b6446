//! Files: past the page cache, in batches by io_uring, and without either.
#![allow(unsafe_code, reason = "a seccomp filter, mincore")]

use crate::common::*;
use coldset_pager::store::{FileOptions, FileStorage, Read, Storage, Write};
use coldset_pager::sys::memory::PageBuf;
use coldset_pager::{Advice, FaultMode, Pool, PoolConfig, SwapConfig};
use std::os::fd::AsRawFd;
use std::path::Path;

const PAGES: usize = 150;

fn options(direct: bool, ring: bool) -> FileOptions {
    FileOptions { direct, ring }
}

/// Where page `i` of a test lies: scattered, without neighbours.
fn offset(i: usize) -> u64 {
    ((i * 67 % PAGES) * 2 * PAGE) as u64
}

fn page(i: usize) -> Vec<u8> {
    (0..PAGE).map(|b| (b / 8 * 31 + i * 7) as u8).collect()
}

/// What one kind of transfers wrote, another reads.
#[test]
fn all_ways_give_the_same() {
    let _others = together();
    let path = temp("ways");
    let len = (2 * PAGES * PAGE) as u64;
    FileStorage::create(&path, len).unwrap();
    let ways = [(true, true), (true, false), (false, true), (false, false)];
    for (w, &(direct, ring)) in ways.iter().enumerate() {
        let f = FileStorage::open_with(&path, true, options(direct, ring)).unwrap();
        assert!(direct || !f.is_direct());
        assert!(ring || f.no_ring() == Some("not asked for"), "{f:?}");
        let mut buf = PageBuf::new(PAGES).unwrap();
        for i in 0..PAGES {
            buf.page_mut(i).copy_from_slice(&page(i + w));
        }
        let mut writes: Vec<Write<'_>> = (0..PAGES)
            .map(|i| Write::new(buf.page(i), offset(i)))
            .collect();
        f.write_many(&mut writes);
        assert!(writes.iter().all(|w| matches!(w.done, Ok(PAGE))));
        f.sync().unwrap();
        for &(direct, ring) in &ways {
            let g = FileStorage::open_with(&path, false, options(direct, ring)).unwrap();
            let mut back = PageBuf::new(PAGES + 1).unwrap();
            let pages = back.bytes_mut().chunks_mut(PAGE).enumerate();
            // The last one lies beyond the end.
            let at = |i| if i < PAGES { offset(i) } else { len };
            let mut reads: Vec<Read<'_>> = pages.map(|(i, p)| Read::new(p, at(i))).collect();
            g.read_many(&mut reads);
            for (i, r) in reads.iter().enumerate() {
                let expected = if i < PAGES { PAGE } else { 0 };
                assert_eq!(*r.done.as_ref().unwrap(), expected, "page {i}");
                assert!(i == PAGES || r.buf == page(i + w), "page {i}");
            }
            // Only read: a write is an error of each.
            let mut denied = [Write::new(buf.page(0), 0), Write::new(buf.page(1), 4096)];
            g.write_many(&mut denied);
            assert!(denied.iter().all(|w| w.done.is_err()));
        }
    }
    std::fs::remove_file(path).unwrap();
}

/// Pages of the file that the kernel's page cache holds.
fn cached(path: &Path) -> usize {
    let f = std::fs::File::open(path).unwrap();
    let len = f.metadata().unwrap().len() as usize;
    let mut bits = vec![0u8; len.div_ceil(PAGE)];
    // SAFETY: a new mapping, which is asked about, never used, and taken away.
    unsafe {
        let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        let p = libc::mmap(std::ptr::null_mut(), len, prot, flags, f.as_raw_fd(), 0);
        assert_ne!(p, libc::MAP_FAILED);
        assert_eq!(libc::mincore(p, len, bits.as_mut_ptr()), 0);
        libc::munmap(p, len);
    }
    bits.iter().filter(|&&b| b & 1 == 1).count()
}

/// Neither reading a map nor swapping leaves a second copy in the page cache.
#[test]
fn the_page_cache_keeps_no_second_copy() {
    let _one = alone();
    let (data, swap) = (temp("data"), temp("swap"));
    std::fs::write(&data, vec![1; 8 * MIB as usize]).unwrap();
    let f = std::fs::File::open(&data).unwrap();
    f.sync_all().unwrap();
    rustix::fs::fadvise(&f, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    if cached(&data) > 0 {
        // A file system that has nothing but the page cache.
        std::fs::remove_file(data).unwrap();
        return println!("skipped: files in {} are in memory", data_dir());
    }
    let config = PoolConfig::new(MIB).swap(SwapConfig::file(&swap, 16 * MIB));
    let Some(pool) = faulting(config) else { return };
    let mut map = pool.file(&data).unwrap();
    map.advise(0..map.len(), Advice::Sequential).unwrap();
    assert!(map.bytes().iter().all(|&b| b == 1));
    map.bytes_mut()
        .chunks_mut(PAGE)
        .step_by(3)
        .for_each(|p| p[5] = 2);
    map.sync(0..map.len()).unwrap();
    let mut anon = pool.anonymous(4 * MIB as usize).unwrap();
    for (i, p) in anon.bytes_mut().chunks_mut(PAGE).enumerate() {
        p.copy_from_slice(&page(i));
    }
    for (i, p) in anon.bytes().chunks(PAGE).enumerate() {
        assert!(p == page(i));
    }
    let s = pool.stats();
    println!(
        "{} read, {} swapped out, io_uring {}",
        s.read_file, s.swapped_out, s.io_uring
    );
    let (of_data, of_swap) = (cached(&data), cached(&swap));
    assert_eq!((of_data, of_swap), (0, 0));
    drop((map, anon));
    // Without direct transfers copies are dropped after each read and sync.
    let plain = FileStorage::open_with(&data, true, options(true, true)).unwrap();
    let mut odd = vec![0; 3 * PAGE + 7];
    plain.read_at(&mut odd, 11).unwrap();
    assert_eq!(cached(&data), 0);
    std::fs::remove_file(data).unwrap();
    std::fs::remove_file(swap).unwrap();
}

fn data_dir() -> String {
    std::env::temp_dir().display().to_string()
}

/// A swap file that the disk cannot hold is refused when the pool is made, and leaves nothing behind.
#[test]
fn a_swap_file_larger_than_the_disk_is_refused() {
    let _others = together();
    let path = temp("huge");
    let swap = SwapConfig::file(&path, 15 << 40);
    let config = PoolConfig::new(MIB)
        .swap(swap)
        .fault_mode(FaultMode::Explicit);
    let failed = Pool::new(config).unwrap_err().to_string();
    // The slots and the page before them.
    let bytes = (15u64 << 40) + PAGE as u64;
    let text = format!("{} needs {bytes} bytes", path.display());
    assert!(
        failed.contains(&text) && failed.contains("bytes free"),
        "{failed}"
    );
    assert!(!path.exists());
    let config = PoolConfig::new(MIB)
        .swap(SwapConfig::file(&path, 3 * MIB))
        .fault_mode(FaultMode::Explicit);
    let pool = Pool::new(config).unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    assert_eq!(len, 3 * MIB + PAGE as u64);
    drop(pool);
    std::fs::remove_file(path).unwrap();
}

/// System calls with these numbers fail with EPERM in this process from now on.
fn forbid(call: i64) {
    let stmt = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let eq = libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k: call as u32,
    };
    let mut program = [
        // The number of the call is the first word of what a filter sees.
        stmt(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        eq,
        stmt(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        stmt(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program outlives the calls, which restrict this process only, all its threads.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let tsync = libc::SECCOMP_FILTER_FLAG_TSYNC;
        let set = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, tsync, &filter), 0);
    }
}

/// A sandbox that forbids io_uring, from the start or later: batches go on one by one.
#[test]
fn without_io_uring_transfers_go_one_by_one() {
    const NAME: &str = "without_io_uring_transfers_go_one_by_one";
    let Some(role) = child::role() else {
        for role in ["setup", "enter"] {
            let out = child::run(NAME, role);
            let text = child::text(&out);
            assert!(out.status.success(), "{role}: {text}");
            assert!(text.contains("compared"), "{role}: {text}");
        }
        return;
    };
    let path = temp("denied");
    let len = (2 * PAGES * PAGE) as u64;
    if role == "setup" {
        forbid(libc::SYS_io_uring_setup);
        let f = FileStorage::create(&path, len).unwrap();
        let why = f.no_ring().expect("forbidden").to_string();
        assert!(
            why.contains("io_uring") && why.contains("not permitted"),
            "{why}"
        );
        assert!(format!("{f:?}").contains("not permitted"));
    } else {
        let f = FileStorage::create(&path, len).unwrap();
        println!("before: {:?}", f.no_ring());
        forbid(libc::SYS_io_uring_enter);
    }
    let f = FileStorage::open(&path, true).unwrap();
    let mut buf = PageBuf::new(PAGES).unwrap();
    for i in 0..PAGES {
        buf.page_mut(i).copy_from_slice(&page(i));
    }
    let mut writes: Vec<Write<'_>> = (0..PAGES)
        .map(|i| Write::new(buf.page(i), offset(i)))
        .collect();
    f.write_many(&mut writes);
    assert!(writes.iter().all(|w| matches!(w.done, Ok(PAGE))));
    let bytes = std::fs::read(&path).unwrap();
    for i in 0..PAGES {
        assert!(bytes[offset(i) as usize..][..PAGE] == page(i), "page {i}");
    }
    println!("compared");
    std::fs::remove_file(path).unwrap();
}

/// Read-ahead of anonymous memory from scattered slots of a swap file, and scattered dirty pages of
/// a file.
#[test]
fn batches_of_a_pool_arrive() {
    let _one = alone();
    let (data, swap) = (temp("data"), temp("swap"));
    std::fs::write(&data, vec![0; 2 * MIB as usize]).unwrap();
    let config = PoolConfig::new(MIB).swap(SwapConfig::file(&swap, 16 * MIB));
    let Some(pool) = faulting(config) else { return };
    let mut anon = pool.anonymous(4 * MIB as usize).unwrap();
    let mut map = pool.file(&data).unwrap();
    let mut r = Random::new(1);
    let (pages, of_file) = (anon.len() / PAGE, map.len() / PAGE);
    let mut expected = vec![0u64; pages];
    for round in 1..4000u64 {
        let p = r.below(pages as u64) as usize;
        expected[p] = round;
        anon.bytes_mut()[p * PAGE..][..8].copy_from_slice(&round.to_ne_bytes());
        let q = p % of_file;
        map.bytes_mut()[q * PAGE + 8..][..8].copy_from_slice(&round.to_ne_bytes());
        if round % 500 == 0 {
            Pool::sync(&pool).unwrap();
        }
    }
    anon.advise(0..anon.len(), Advice::Sequential).unwrap();
    for (p, &want) in expected.iter().enumerate() {
        let found = u64::from_ne_bytes(anon.bytes()[p * PAGE..][..8].try_into().unwrap());
        assert_eq!(found, want, "page {p}");
    }
    map.sync(0..map.len()).unwrap();
    let bytes = std::fs::read(&data).unwrap();
    for q in 0..of_file {
        let want = (q..pages)
            .step_by(of_file)
            .map(|p| expected[p])
            .max()
            .unwrap();
        let found = u64::from_ne_bytes(bytes[q * PAGE + 8..][..8].try_into().unwrap());
        assert_eq!(found, want, "page {q} of the file");
    }
    drop((anon, map));
    std::fs::remove_file(data).unwrap();
    std::fs::remove_file(swap).unwrap();
}
