//! The pager beside a plain mmap of the same file, in one run.
//!
//! `cargo run --release -p coldset-pager --example bench [-- --mib N --budget-mib N --ops N --threads N]`
//!
//! The kernel's side has no limit here: the file is dropped from the page cache before and has all
//! of memory while it runs. It is a floor for the cost of a miss, not a comparison of policies; for
//! that the kernel needs a memory cgroup.
#![allow(unsafe_code, reason = "threads read a shared mapping")]

use coldset_pager::sys::clock;
use coldset_pager::{Advice, Pool, PoolConfig, SwapConfig};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Instant;

const PAGE: usize = 4096;

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
    let mut rounds: Vec<[Cost; 4]> = Vec::new();
    for _ in 0..3 {
        rounds.push([
            kernel_file(&o, &path, &zipf),
            pager_file(&o, &path, &zipf),
            pager_anon(&o, &zipf, 0),
            pager_anon(&o, &zipf, 20),
        ]);
    }
    std::fs::remove_file(&path).unwrap();
    let names = [
        "file, mmap + MADV_RANDOM (no limit)",
        "file, pager",
        "anonymous lz4, pager, read",
        "anonymous lz4, pager, 20 % stores",
    ];
    println!("medians of {} rounds:", rounds.len());
    let mut base = 0.0;
    for (i, name) in names.iter().enumerate() {
        let mid = |f: &dyn Fn(&Cost) -> f64| {
            let mut v: Vec<f64> = rounds.iter().map(|r| f(&r[i])).collect();
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        };
        let ops = o.ops as f64;
        let (wall, cpu) = (mid(&|c| c.wall), mid(&|c| c.cpu));
        let misses = mid(&|c| c.misses as f64);
        if i == 0 {
            base = ops / wall;
        }
        println!(
            "{name:36} {:9.0} ops/s (x{:.2})  {:6.3} misses/op  {:8.0} misses/s  {:6.2} CPU s per million ops  {:6.2} us CPU per miss",
            ops / wall,
            ops / wall / base,
            misses / ops,
            misses / wall,
            cpu / ops * 1e6,
            cpu / misses.max(1.0) * 1e6,
        );
    }
}

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
