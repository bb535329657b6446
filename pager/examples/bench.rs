//! The pager beside a plain mmap of the same file, in one run.
//!
//! `cargo run --release -p coldset-pager --example bench [-- --mib N --budget-mib N --ops N --threads N]`
//!
//! The kernel's side has no limit here: the file is dropped from the page cache before and has all
//! of memory while it runs (`np.memmap` is that). It is a floor for the cost of a miss, not a
//! comparison of policies; for that the kernel needs a memory cgroup.
#![allow(unsafe_code, reason = "threads read a shared mapping")]

use coldset_pager::sys::clock;
use coldset_pager::{Advice, Pool, PoolConfig, SwapConfig};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Instant;

const PAGE: usize = 4096;

#[derive(Clone, Copy)]
struct Options {
    mib: usize,
    budget: usize,
    ops: u64,
    threads: usize,
}

/// What one arm came to.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
    misses: u64,
}

fn main() {
    let o = options();
    let path = std::env::temp_dir().join(format!("coldset-bench-{}", std::process::id()));
    make_file(&path, o.mib);
    let zipf = Zipf::new(o.mib as u64 * 256);
    println!(
        "{} MiB of data, {} MiB budget, {} operations of 64 bytes, zipf 0.99 over scattered pages, \
         {} thread(s); read-ahead of the device: {} KiB",
        o.mib,
        o.budget,
        o.ops,
        o.threads,
        read_ahead_kib(&path)
    );
    let mut rounds: Vec<[Cost; 8]> = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([
            kernel_file(&o, &path, &zipf),
            pager_file(&o, &path, &zipf),
            pager_anon(&o, &zipf, 0),
            pager_anon(&o, &zipf, 20),
            kernel_scan(&o, &path),
            pager_scan(&o, &path),
            kernel_hits(&o),
            pager_hits(&o),
        ]);
    }
    std::fs::remove_file(&path).unwrap();
    // Name, the arm that is 1.00, operations a run, unit.
    let pages = (o.mib << 20) / PAGE;
    let rows = [
        ("file zipf, mmap + MADV_RANDOM", 0, o.ops, "op"),
        ("file zipf, pager", 0, o.ops, "op"),
        ("anonymous lz4 zipf, pager, read", 2, o.ops, "op"),
        ("same, 20 % stores", 2, o.ops, "op"),
        ("file scan, mmap", 4, pages as u64, "page"),
        ("file scan, pager", 4, pages as u64, "page"),
        ("all resident, anonymous mmap", 6, o.ops * HITS, "op"),
        ("all resident, pager", 6, o.ops * HITS, "op"),
    ];
    println!("medians of {ROUNDS} rounds; plain mmap has no limit and may keep all it reads:");
    let mid = |i: usize, f: &dyn Fn(&Cost) -> f64| {
        let mut v: Vec<f64> = rounds.iter().map(|r| f(&r[i])).collect();
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    for (i, &(name, base, ops, unit)) in rows.iter().enumerate() {
        let n = ops as f64;
        let (wall, cpu) = (mid(i, &|c| c.wall), mid(i, &|c| c.cpu));
        println!(
            "{name:33} {:9.0} {unit}/s  x{:.2}  {:6.3} misses/{unit}  {:7.2} us CPU/{unit}",
            n / wall,
            mid(base, &|c| c.wall) / wall,
            mid(i, &|c| c.misses as f64) / n,
            cpu / n * 1e6,
        );
    }
}

/// Odd, for a median.
const ROUNDS: usize = 5;

fn options() -> Options {
    let mut o = Options {
        mib: 1024,
        budget: 256,
        ops: 400_000,
        threads: 1,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let v: u64 = args
            .next()
            .and_then(|v| v.parse().ok())
            .unwrap_or_else(|| panic!("{a} needs a number"));
        match a.as_str() {
            "--mib" => o.mib = v as usize,
            "--budget-mib" => o.budget = v as usize,
            "--ops" => o.ops = v,
            "--threads" => o.threads = v as usize,
            _ => panic!("unknown option {a}; there are --mib, --budget-mib, --ops, --threads"),
        }
    }
    o
}

fn make_file(path: &std::path::Path, mib: usize) {
    let mut f = std::fs::File::create(path).unwrap();
    let mut block = vec![0u8; 1 << 20];
    for i in 0..mib {
        fill(&mut block, i as u64);
        f.write_all(&block).unwrap();
    }
    f.sync_all().unwrap();
    drop_cache(path);
}

/// Half noise, half text-like: LZ4 makes about half of it.
fn fill(block: &mut [u8], seed: u64) {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for (i, w) in block.chunks_exact_mut(8).enumerate() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let v = if i % 2 == 0 { x } else { i as u64 / 16 };
        w.copy_from_slice(&v.to_le_bytes());
    }
}

fn drop_cache(path: &std::path::Path) {
    let f = std::fs::File::open(path).unwrap();
    // SAFETY: a call with a descriptor and numbers.
    unsafe { libc::posix_fadvise(f.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

fn read_ahead_kib(path: &std::path::Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let dev = std::fs::metadata(path).unwrap().dev();
    // SAFETY: pure arithmetic on a device number.
    let (major, minor) = (libc::major(dev), libc::minor(dev));
    std::fs::read_to_string(format!(
        "/sys/dev/block/{major}:{minor}/queue/read_ahead_kb"
    ))
    .map_or("unknown".into(), |s| s.trim().into())
}

/// Zipf 0.99 by inversion of a table.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(n: u64) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=n)
            .map(|k| {
                sum += 1.0 / (k as f64).powf(0.99);
                sum
            })
            .collect();
        Self { cumulative }
    }

    fn sequence(&self, ops: u64, seed: u64) -> Vec<u32> {
        let n = self.cumulative.len() as u64;
        let total = *self.cumulative.last().unwrap();
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..ops)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let u = (x >> 11) as f64 / (1u64 << 53) as f64 * total;
                let rank = self.cumulative.partition_point(|&c| c < u) as u64;
                // Ranks lie scattered over the file: an odd multiplier is a bijection modulo 2^k.
                (rank.wrapping_mul(0x9E37_79B1) % n.next_power_of_two() % n) as u32
            })
            .collect()
    }
}

/// Runs the operations on memory; (wall, CPU) seconds.
fn work(o: &Options, zipf: &Zipf, base: usize, stores: u64) -> (f64, f64) {
    let each = o.ops / o.threads as u64;
    let sequences: Vec<Vec<u32>> = (0..o.threads)
        .map(|t| zipf.sequence(each, t as u64 + 7))
        .collect();
    let (start, cpu) = (Instant::now(), clock::process_cpu());
    std::thread::scope(|s| {
        for seq in &sequences {
            s.spawn(move || {
                let mut sum = 0u64;
                for (i, &p) in seq.iter().enumerate() {
                    let at = base + p as usize * PAGE + (i * 64) % PAGE;
                    for k in 0..8 {
                        // SAFETY: inside the mapping, which outlives the scope; races are between
                        // threads of this benchmark that do not care for the value.
                        sum =
                            sum.wrapping_add(unsafe { (at as *const u64).add(k).read_volatile() });
                    }
                    if (i as u64 * 37) % 100 < stores {
                        // SAFETY: as above, and the mapping is writable.
                        unsafe { (at as *mut u64).write_volatile(sum) };
                    }
                }
                std::hint::black_box(sum);
            });
        }
    });
    let cpu = clock::process_cpu() - cpu;
    (start.elapsed().as_secs_f64(), cpu as f64 / 1e9)
}

fn kernel_file(o: &Options, path: &std::path::Path, zipf: &Zipf) -> Cost {
    drop_cache(path);
    let f = std::fs::File::open(path).unwrap();
    let len = o.mib << 20;
    // SAFETY: a new read-only shared mapping of a file that nobody changes meanwhile.
    let p = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            f.as_raw_fd(),
            0,
        )
    };
    assert_ne!(p, libc::MAP_FAILED);
    // SAFETY: advice on the mapping just made.
    unsafe { libc::madvise(p, len, libc::MADV_RANDOM) };
    let before = major_faults();
    let (wall, cpu) = work(o, zipf, p as usize, 0);
    let misses = major_faults() - before;
    // SAFETY: the mapping is not used any more.
    unsafe { libc::munmap(p, len) };
    Cost { wall, cpu, misses }
}

fn major_faults() -> u64 {
    // SAFETY: getrusage fills the structure it is given.
    unsafe {
        let mut u = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut u);
        u.ru_majflt as u64
    }
}

fn pager_file(o: &Options, path: &std::path::Path, zipf: &Zipf) -> Cost {
    drop_cache(path);
    let pool = Pool::new(PoolConfig::new((o.budget as u64) << 20)).unwrap();
    let region = pool.file_read_only(path).unwrap();
    region.advise(0..region.len(), Advice::Random).unwrap();
    let (wall, cpu) = work(o, zipf, region.as_ptr() as usize, 0);
    report(&pool, wall, cpu)
}

fn pager_anon(o: &Options, zipf: &Zipf, stores: u64) -> Cost {
    let swap = SwapConfig::lz4((o.mib as u64) << 20);
    let config = PoolConfig::new((o.budget as u64) << 20)
        .swap(swap)
        .store_outside_budget();
    let pool = Pool::new(config).unwrap();
    let mut region = pool.anonymous(o.mib << 20).unwrap();
    for (i, b) in region.bytes_mut().chunks_mut(1 << 20).enumerate() {
        fill(b, i as u64);
    }
    region.advise(0..region.len(), Advice::Random).unwrap();
    let before = pool.stats();
    let (wall, cpu) = work(o, zipf, region.as_ptr() as usize, stores);
    let mut c = report(&pool, wall, cpu);
    c.misses -= before.misses;
    c
}

/// Adds up every word of a range, as a column sum does.
fn scan(base: usize, len: usize) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), clock::process_cpu());
    // SAFETY: the mapping is that long and nobody writes to it.
    let words = unsafe { std::slice::from_raw_parts(base as *const u64, len / 8) };
    let sum = words.iter().fold(0u64, |s, &w| s.wrapping_add(w));
    std::hint::black_box(sum);
    let cpu = clock::process_cpu() - cpu;
    (start.elapsed().as_secs_f64(), cpu as f64 / 1e9)
}

fn kernel_scan(o: &Options, path: &std::path::Path) -> Cost {
    drop_cache(path);
    let f = std::fs::File::open(path).unwrap();
    let (len, fd) = (o.mib << 20, f.as_raw_fd());
    // SAFETY: a new read-only shared mapping of a file that nobody changes meanwhile.
    let p = unsafe { libc::mmap(NULL, len, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    assert_ne!(p, libc::MAP_FAILED);
    let before = major_faults();
    let (wall, cpu) = scan(p as usize, len);
    let misses = major_faults() - before;
    // SAFETY: the mapping is not used any more.
    unsafe { libc::munmap(p, len) };
    Cost { wall, cpu, misses }
}

fn pager_scan(o: &Options, path: &std::path::Path) -> Cost {
    drop_cache(path);
    let pool = Pool::new(PoolConfig::new((o.budget as u64) << 20)).unwrap();
    let region = pool.file_read_only(path).unwrap();
    let (wall, cpu) = scan(region.as_ptr() as usize, region.len());
    report(&pool, wall, cpu)
}

const NULL: *mut libc::c_void = std::ptr::null_mut();

/// Half the budget, all of it in memory: what a hit costs.
fn hit_zipf(o: &Options) -> (usize, Zipf) {
    let len = o.budget << 19;
    (len, Zipf::new((len / PAGE) as u64))
}

/// Hits are too short to be timed by as many operations as misses.
const HITS: u64 = 20;

fn many(o: &Options) -> Options {
    Options {
        ops: o.ops * HITS,
        ..*o
    }
}

fn kernel_hits(o: &Options) -> Cost {
    let (len, zipf) = hit_zipf(o);
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new private mapping.
    let p = unsafe { libc::mmap(NULL, len, prot, flags, -1, 0) };
    assert_ne!(p, libc::MAP_FAILED);
    // SAFETY: as in the pager, single pages; then the mapping is filled by its only user.
    unsafe {
        libc::madvise(p, len, libc::MADV_NOHUGEPAGE);
        std::ptr::write_bytes(p.cast::<u8>(), 1, len);
    }
    let (wall, cpu) = work(&many(o), &zipf, p as usize, 20);
    // SAFETY: the mapping is not used any more.
    unsafe { libc::munmap(p, len) };
    Cost {
        wall,
        cpu,
        misses: 0,
    }
}

fn pager_hits(o: &Options) -> Cost {
    let (len, zipf) = hit_zipf(o);
    let pool = Pool::new(PoolConfig::new((o.budget as u64) << 20)).unwrap();
    let mut region = pool.anonymous(len).unwrap();
    region.bytes_mut().fill(1);
    let before = pool.stats();
    let (wall, cpu) = work(&many(o), &zipf, region.as_ptr() as usize, 20);
    let mut c = report(&pool, wall, cpu);
    c.misses -= before.misses;
    c
}

fn report(pool: &Pool, wall: f64, cpu: f64) -> Cost {
    let s = pool.stats();
    if std::env::var_os("COLDSET_BENCH_VERBOSE").is_some() {
        println!(
            "  {} misses, {} evicted, miss {:?}, evict {:?}, {} swept in {} sweeps, {} gate waits",
            s.misses, s.evicted, s.miss, s.evict, s.swept, s.sweeps, s.gate_waits
        );
    }
    Cost {
        wall,
        cpu,
        misses: s.misses,
    }
}
