//! libCacheSim, in a Python of its own.

use super::child;
use super::rows::Measured;
use super::streams::MEMORY;
use super::Failure;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Replays a file over libCacheSim's LRU and says what that took: reading the records from a mapped file included,
/// without the start of Python.
const PROGRAM: &str = "
import json, sys, time
import libcachesim as lcs
stream, pages = sys.argv[1:]
reader = lcs.TraceReader(
    stream,
    trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE,
    reader_init_params=lcs.ReaderInitParam(ignore_obj_size=True),
)
cache = lcs.LRU(int(pages))
begin = time.process_time()
ratio, _ = cache.process_trace(reader)
print(json.dumps({'seconds': time.process_time() - begin, 'miss_ratio': ratio}))
";

/// It can be had here.
pub struct LibCacheSim {
    python: String,
}

impl LibCacheSim {
    /// Installs it if need be.
    ///
    /// # Errors
    /// There is no Python, or no package index.
    pub fn find() -> Result<Self, Failure> {
        let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), ".."].iter().collect();
        let script = root.join("scripts/libcachesim-python");
        let python = child::run::<&str>(&script.to_string_lossy(), &[])?.output;
        Ok(Self {
            python: python.trim().to_owned(),
        })
    }

    /// LRU over a file of oracleGeneral records.
    ///
    /// # Errors
    /// It fails.
    pub fn lru(&self, file: &Path) -> Result<Measured, Failure> {
        let records = file.metadata()?.len() / 24;
        let file = file.to_string_lossy();
        let output = child::run(&self.python, &["-c", PROGRAM, &file, &MEMORY.to_string()])?.output;
        let json: Value = serde_json::from_str(&output)?;
        let number = |name: &str| {
            json[name]
                .as_f64()
                .ok_or(format!("libCacheSim says: {output}"))
        };
        Ok(Measured {
            cpu: number("seconds")?,
            misses: Some((number("miss_ratio")? * records as f64).round() as u64),
        })
    }
}
