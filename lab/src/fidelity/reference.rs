//! Memory counters that unmodified kernels showed for the [`sequences`](super::sequences).
//!
//! Trimmed copies are built in ([`kernels`](super::kernels)); untrimmed files are read as well (same schema).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;

use super::kernels::RecordedKernel;

/// Names looked for in a directory, first found first.
const FILE_NAMES: [&str; 3] = ["golden.json", "linux-6.12.json", "linux-6.12.json.zst"];
/// Unpacked size above which a file is not such a table.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;

/// Why reference tables cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The directory holds none of the known files.
    #[error("{0}: no reference table there; expected one of golden.json, linux-6.12.json, linux-6.12.json.zst")]
    Missing(PathBuf),
    /// The file cannot be read or unpacked.
    #[error(
        "{path}: cannot read the reference table: {source}; check the path and its permissions"
    )]
    Io {
        /// File concerned.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The table is of a kernel that no lab variant stands for.
    #[error("{path}: recorded on Linux {kernel}, which no lab variant stands for; known are 6.12, 6.18 and 7.2")]
    Kernel {
        /// File concerned.
        path: PathBuf,
        /// The release it names.
        kernel: String,
    },
    /// The file is not a reference table.
    #[error("{path}: not a reference table: {source}")]
    Format {
        /// File concerned.
        path: PathBuf,
        /// Where and why parsing failed.
        source: serde_json::Error,
    },
}

/// All runs of a kernel, and bounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Reference {
    /// Release of the kernel; tables without one are of 6.12.
    #[serde(default = "first_recorded")]
    pub kernel: String,
    /// Exact LRU and clairvoyant replacement, by case.
    #[serde(default)]
    pub bounds: IndexMap<String, Bounds>,
    /// Every recorded run: cases by policies by repeats.
    pub runs: Vec<Run>,
}

/// What exact policies reach at the same budget.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Bounds {
    /// Budget in pages.
    pub capacity_pages: u64,
    /// Accesses of the case.
    pub accesses: u64,
    /// Accesses to pages that may be evicted (without swap, anonymous ones may not).
    pub evictable_accesses: u64,
    /// Different evictable pages.
    pub unique_pages: u64,
    /// Misses of an exact LRU.
    pub lru_misses: u64,
    /// Misses of the clairvoyant optimum.
    pub opt_misses: u64,
    /// Share of hits, exact LRU.
    pub lru_hit_ratio: f64,
    /// Share of hits, optimum.
    pub opt_hit_ratio: f64,
    /// Misses that are not first touches, per access, exact LRU.
    pub lru_refaults_per_access: f64,
    /// The same for the optimum.
    pub opt_refaults_per_access: f64,
}

/// One run of one case under one policy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Run {
    /// Name of the case, see [`super::Case::name`].
    pub case: String,
    /// `mglru-0x7`, `mglru-0x1` or `classic`.
    pub policy: String,
    /// 0 or 1.
    pub repeat: u32,
    /// Limit of the memory cgroup in pages.
    pub limit_pages: u64,
    /// Operations of the sequence.
    pub accesses: u64,
    /// Hash of the sequence in hexadecimal; `0` where none was recorded.
    pub trace_fnv1a64: String,
    /// Mapped accesses between two full TLB flushes.
    pub tlb_flush_every: u64,
    /// Bytes mapped around a fault; 4096 = off.
    pub fault_around_bytes: u64,
    /// True if the program was OOM-killed.
    pub killed: bool,
    /// The device's statistics, where swap was on.
    #[serde(default)]
    pub zram_mm_stat: Option<Vec<u64>>,
    /// Groups by path; `r0` is the limited one.
    pub cgroups: IndexMap<String, Cgroup>,
    /// Pages the workload's own pages can use, mean of the second half.
    pub effective_limit_pages: u64,
    /// (device reads + swap-ins) / accesses.
    pub miss_per_access: f64,
    /// Refaults of both kinds / accesses.
    pub refaults_per_access: f64,
}

/// Counters of one cgroup.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Cgroup {
    /// End minus start for counters; level at the end for `*_pages`.
    pub totals: Point,
    /// The same at ten points and at phase changes.
    pub series: Vec<Point>,
}

/// Counters at one moment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Point {
    /// `start`, `tick`, `phase` or `end`; empty for totals.
    #[serde(default)]
    pub label: String,
    /// Accesses done.
    pub accesses: u64,
    /// Wall time of the recorded run in seconds.
    pub seconds: f64,
    /// `[sequence number, anon pages, file pages]` per generation, oldest first. Missing
    /// in totals and at some points.
    #[serde(default)]
    pub lru_gen: Option<Vec<[u64; 3]>>,
    /// The kernel's counters by name.
    #[serde(flatten)]
    pub counters: IndexMap<String, u64>,
}

impl Point {
    /// A counter by its kernel name; `None` if it was not recorded.
    #[must_use]
    pub fn get(&self, counter: &str) -> Option<u64> {
        self.counters.get(counter).copied()
    }
}

impl Run {
    /// The limited group.
    #[must_use]
    pub fn root(&self) -> Option<&Cgroup> {
        self.cgroups.get("r0")
    }
}

impl Reference {
    /// The packed table of a kernel.
    ///
    /// # Errors
    /// It cannot be unpacked or read.
    pub(super) fn unpacked(kernel: &str, packed: &[u8]) -> Result<Self, ReferenceError> {
        let path = PathBuf::from(format!("built-in linux-{kernel}.json.zst"));
        parse(&path, &unpack(&path, packed)?)
    }

    /// Tables from a file, or from a directory that holds one under a known name.
    ///
    /// # Errors
    /// Nothing found, unreadable, or not such a table: the message names the file.
    pub fn load(path: &Path) -> Result<Self, ReferenceError> {
        let file = if path.is_dir() {
            FILE_NAMES
                .iter()
                .map(|name| path.join(name))
                .find(|candidate| candidate.is_file())
                .ok_or_else(|| ReferenceError::Missing(path.to_owned()))?
        } else {
            path.to_owned()
        };
        let bytes = fs::read(&file).map_err(|source| ReferenceError::Io {
            path: file.clone(),
            source,
        })?;
        if file.extension().is_some_and(|extension| extension == "zst") {
            parse(&file, &unpack(&file, &bytes)?)
        } else {
            parse(&file, &bytes)
        }
    }

    /// The kernel that the table, read from `path`, is of.
    ///
    /// # Errors
    /// One that no lab variant stands for.
    pub fn recorded_kernel(&self, path: &Path) -> Result<RecordedKernel, ReferenceError> {
        RecordedKernel::of(&self.kernel).ok_or_else(|| ReferenceError::Kernel {
            path: path.to_owned(),
            kernel: self.kernel.clone(),
        })
    }

    /// Runs of a case, in file order.
    pub fn runs_of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case == case)
    }

    /// Runs of a case under a policy, by repeat.
    pub fn runs_under<'a>(
        &'a self,
        case: &'a str,
        policy: &'a str,
    ) -> impl Iterator<Item = &'a Run> {
        self.runs_of(case).filter(move |run| run.policy == policy)
    }
}

fn first_recorded() -> String {
    "6.12.117".into()
}

fn unpack(path: &Path, packed: &[u8]) -> Result<Vec<u8>, ReferenceError> {
    let io = |source| ReferenceError::Io {
        path: path.to_owned(),
        source,
    };
    let decoder = zstd::Decoder::new(packed).map_err(io)?;
    let mut bytes = Vec::new();
    decoder
        .take(UNPACKED_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Reference, ReferenceError> {
    serde_json::from_slice(bytes).map_err(|source| ReferenceError::Format {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::kernels::KERNELS;

    fn v612() -> Reference {
        KERNELS[0].reference().unwrap()
    }

    #[test]
    fn built_in_tables_are_whole() {
        let reference = v612();
        assert_eq!(reference.runs.len(), 72);
        assert_eq!(reference.bounds.len(), 11);
        assert_eq!(reference.bounds["d_pread_cyc"].lru_misses, 122_880);
        for run in &reference.runs {
            let root = run.root().unwrap();
            assert!(!run.killed && root.series.len() >= 11);
            assert_eq!(root.series[0].label, "start");
            assert_eq!(root.totals.counters.len(), 45);
        }
        let groups: Vec<_> = reference
            .runs_of("j_low")
            .map(|r| r.cgroups.len())
            .collect();
        assert_eq!(groups, [3; 6]);
    }

    /// The strict figures of the cyclic case under the multi-generation policy.
    #[test]
    fn cyclic_case_reads_back() {
        let reference = v612();
        let run = reference
            .runs_under("d_pread_cyc", "mglru-0x7")
            .next()
            .unwrap();
        let totals = &run.root().unwrap().totals;
        assert_eq!(run.repeat, 0);
        assert_eq!(totals.get("pgscan"), totals.get("pgsteal"));
        assert_eq!(totals.get("no_such_counter"), None);
        let end = run.root().unwrap().series.last().unwrap();
        assert_eq!(end.label, "end");
        assert_eq!(end.lru_gen.as_ref().unwrap().last().unwrap()[0], 3);
    }

    #[test]
    fn loads_files_and_directories_and_names_what_is_wrong() {
        let dir = std::env::temp_dir().join(format!("coldset-reference-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let missing = Reference::load(&dir).unwrap_err().to_string();
        assert!(missing.contains("golden.json"), "{missing}");

        fs::write(dir.join("linux-6.12.json.zst"), KERNELS[0].table).unwrap();
        let embedded = v612();
        assert_eq!(Reference::load(&dir).unwrap(), embedded);

        // The untrimmed file has further keys and is not packed; it comes first.
        let plain = unpack(Path::new("x"), KERNELS[0].table).unwrap();
        let mut tables: serde_json::Value = serde_json::from_slice(&plain).unwrap();
        tables["runs"][0]["kernel_pages_mean"] = serde_json::json!(282.7);
        tables["runs"][0]["repeat"] = serde_json::json!(9);
        fs::write(dir.join("golden.json"), tables.to_string()).unwrap();
        assert_eq!(Reference::load(&dir).unwrap().runs[0].repeat, 9);

        fs::write(dir.join("golden.json"), "{\"runs\": 3}").unwrap();
        let bad = Reference::load(&dir.join("golden.json"))
            .unwrap_err()
            .to_string();
        assert!(bad.contains("golden.json: not a reference table"), "{bad}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
