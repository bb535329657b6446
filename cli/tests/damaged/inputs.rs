//! Sound inputs of every kind that the lab reads.

use coldset_lab::traces::Format;
use coldset_pager::{FaultMode, Pool, PoolConfig, Region, SwapConfig};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a trace that are damaged: the cost of a round is in reading the others.
const KEEP: usize = 48 << 10;

/// An input, unpacked.
pub struct Input {
    pub name: String,
    pub kind: Kind,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Trace(Format),
    Journal,
}

impl Input {
    fn path(folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{name}.input"))
    }

    /// Keeps it for another process. The first line is its kind.
    pub fn save(&self, folder: &Path) {
        let kind = match self.kind {
            Kind::Trace(format) => format.name(),
            Kind::Journal => "journal",
        };
        let bytes = [kind.as_bytes(), b"\n", &self.bytes].concat();
        std::fs::write(Self::path(folder, &self.name), bytes).expect("a disk");
    }

    pub fn load(folder: &Path, name: &str) -> Self {
        let bytes = std::fs::read(Self::path(folder, name)).expect("an input");
        let end = bytes.iter().position(|&b| b == b'\n').expect("a kind");
        let kind = std::str::from_utf8(&bytes[..end]).expect("a kind");
        Self {
            name: name.into(),
            kind: kind.parse().map_or(Kind::Journal, Kind::Trace),
            bytes: bytes[end + 1..].to_vec(),
        }
    }
}

/// The journal of a pool's whole life, unpacked.
pub fn journal(folder: &Path) -> Vec<u8> {
    let all = journals(folder);
    let whole = all.into_iter().find(|(name, _)| name == "v5-whole.journal");
    whole.expect("one of them").1
}

/// Every input, in an order that does not change.
pub fn all(folder: &Path) -> Vec<Input> {
    let mut all: Vec<Input> = samples().into_iter().chain(made()).collect();
    for (name, bytes) in journals(folder) {
        let kind = Kind::Journal;
        all.push(Input { name, kind, bytes });
    }
    for format in Format::ALL {
        let has = all.iter().any(|i| i.kind == Kind::Trace(format));
        assert!(has, "no input of format {format}");
    }
    all
}

fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    let read = if path.extension().is_some_and(|e| e == "zst") {
        zstd::Decoder::new(file)
            .expect("a frame")
            .read_to_end(&mut bytes)
    } else {
        { file }.read_to_end(&mut bytes)
    };
    read.expect("a sound sample");
    bytes
}

/// Recorded ones.
fn samples() -> Vec<Input> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let mut paths = vec![data.join("sqlite.pageops.zst")];
    let samples = std::fs::read_dir(data.join("samples")).expect("the samples");
    paths.extend(samples.map(|f| f.expect("a sample").path()));
    paths.sort();
    let input = |path: &PathBuf| {
        let mut bytes = unpacked(path);
        let name = path.file_name().expect("a file").to_string_lossy();
        let format = Format::guess(&name, &bytes[..bytes.len().min(16 << 10)]);
        let format = format.unwrap_or_else(|| panic!("{name}: unknown format"));
        bytes.truncate(KEEP);
        Input {
            name: name.into_owned(),
            kind: Kind::Trace(format),
            bytes,
        }
    };
    paths.iter().map(input).collect()
}

/// Of the formats without a sample: references to pages of a skewed choice.
fn made() -> Vec<Input> {
    let mut state = 88_172_645_463_325_252u64;
    let pages: Vec<u64> = (0..2000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 1000) * (state / 1000 % 1000) / 1000
        })
        .collect();
    let text = |line: &dyn Fn(usize, u64) -> String| {
        let lines = pages.iter().enumerate().map(|(i, &p)| line(i, p));
        lines.collect::<String>().into_bytes()
    };
    let records = |record: &dyn Fn(usize, u64) -> Vec<u8>| {
        let all = pages.iter().enumerate().map(|(i, &p)| record(i, p));
        all.flatten().collect::<Vec<u8>>()
    };
    let mut csv = b"page,op,object,task\n".to_vec();
    csv.extend(text(&|i, p| {
        format!("{p},{},{},{}\n", ["r", "w", "m"][i % 3], i % 4, i % 5)
    }));
    let formats = [
        (
            Format::Arc,
            text(&|i, p| format!("{} {} 0 {i}\n", p * 8, 1 + i % 9)),
        ),
        (Format::Lirs, text(&|_, p| format!("{p}\n"))),
        (Format::Csv, csv),
        (
            Format::Address,
            text(&|i, p| format!("{} 0x{:x} {}\n", ["s", "l"][i % 2], p << 12, i % 7)),
        ),
        (
            Format::CloudPhysicsCsv,
            text(&|i, p| {
                format!(
                    "1,{i},{},{},{}\n",
                    ["28", "2a"][i % 2],
                    4096 << (i % 3),
                    p * 8
                )
            }),
        ),
        (
            Format::Msr,
            text(&|i, p| {
                let op = ["Read", "Write"][i % 2];
                format!(
                    "128166372003061629,hm,{},{op},{},{},9\n",
                    i % 3,
                    p << 12,
                    4096 << (i % 3)
                )
            }),
        ),
        (
            Format::Alibaba,
            text(&|i, p| {
                format!(
                    "7,{},{},{},{i}\n",
                    ["R", "W"][i % 2],
                    p << 12,
                    4096 << (i % 3)
                )
            }),
        ),
        (
            Format::Wikipedia,
            text(&|i, p| format!("{i}\t-{p}\tjpeg\t{}\t1.5E-4\n", 900 + i % 9000)),
        ),
        (
            Format::Tencent,
            text(&|i, p| format!("1538323200,{},{},{},12\n", p * 8, 8 << (i % 3), i % 2)),
        ),
        (
            Format::Twitter,
            text(&|i, p| format!("{i},k{p},3,200,4,{},0\n", ["get", "set"][i % 2])),
        ),
        (
            Format::CloudPhysics,
            records(&|_, p| (p as u32).to_le_bytes().to_vec()),
        ),
        (
            Format::Cache2k,
            records(&|_, p| (p as u32).to_be_bytes().to_vec()),
        ),
        (
            Format::OracleGeneral,
            records(&|i, p| {
                let mut r = (i as u32).to_le_bytes().to_vec();
                r.extend(p.to_le_bytes());
                r.extend(4096u32.to_le_bytes());
                r.extend((-1i64).to_le_bytes());
                r
            }),
        ),
    ];
    let input = |(format, bytes): (Format, Vec<u8>)| Input {
        name: format!("made.{format}"),
        kind: Kind::Trace(format),
        bytes,
    };
    formats.into_iter().map(input).collect()
}

fn use_pages(region: &Region, n: u64) {
    let pages = region.len() as u64 / 4096;
    let mut state = 88_172_645_463_325_252u64;
    for i in 0..n {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let page = ((state % pages) * (state / pages % pages) / pages) as usize;
        if i % 5 == 0 {
            region.fix_mut(page).expect("a page")[0] = 1;
        } else {
            drop(region.fix(page).expect("a page"));
        }
    }
}

/// Journals of a pool's whole life, and from its middle on.
fn journals(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for policy in ["v5", "classic"] {
        let config = PoolConfig::new(1 << 20)
            .policy(policy)
            .expect("a policy")
            .fault_mode(FaultMode::Explicit)
            .read_ahead(1)
            .background(false)
            .store_outside_budget()
            .swap(SwapConfig::lz4(16 << 20));
        let path = |name: &str| folder.join(format!("{policy}-{name}.journal"));
        let whole = path("whole");
        let pool = Pool::new(config.clone().journal(&whole)).expect("a pool");
        use_pages(&pool.anonymous(4 << 20).expect("a region"), 4000);
        drop(pool);
        let middle = path("middle");
        let pool = Pool::new(config).expect("a pool");
        let region = pool.anonymous(4 << 20).expect("a region");
        use_pages(&region, 4000);
        pool.record(&middle).expect("a journal");
        use_pages(&region, 2000);
        pool.stop_recording().expect("a journal");
        for path in [whole, middle] {
            let plain = zstd::decode_all(std::fs::File::open(&path).expect("a journal"));
            let name = path.file_name().expect("a file").to_string_lossy();
            all.push((name.into_owned(), plain.expect("a sound journal")));
        }
    }
    all
}
