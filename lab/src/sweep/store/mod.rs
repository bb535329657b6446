//! A folder of results.
//!
//! Each finished cell is a file `part-KEY.parquet`, written elsewhere, made durable, and renamed
//! into its place. Many small parts are put together into one `merged-HASH.parquet` now and then.
//! Nothing else ends in `.parquet`, so that `read_parquet("DIR")` of pandas, polars and `"DIR/*"` of
//! DuckDB see finished results only. Claims and files being written are in `DIR/.work`.
//!
//! Who computes a cell holds a lock on `.work/KEY.lock`; the system takes it away when the process
//! ends, however it ends. So any number of sweeps may work on one folder.

mod claim;
mod merge;
mod part;

pub use claim::Claim;
pub use part::{Row, Rows};

use super::SweepError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Folder of locks and unfinished files, inside the store.
const WORK: &str = ".work";
const ENDING: &str = ".parquet";
const PART: &str = "part-";

/// Results by key.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// Keys of the files that are no parts of one cell. Such files never change.
    known: Mutex<HashMap<String, Vec<String>>>,
}

impl Store {
    /// Opens a folder, which is made if it is not there, and puts right what an interrupted merge
    /// has left.
    ///
    /// # Errors
    /// A folder that cannot be made, read or written; Parquet files of others.
    pub fn open(dir: &Path) -> Result<Self, SweepError> {
        let work = dir.join(WORK);
        fs::create_dir_all(&work).map_err(SweepError::io(&work, "making the folder"))?;
        let store = Self::look(dir);
        store.heal()?;
        Ok(store)
    }

    /// Opens a folder for reading only.
    #[must_use]
    pub fn look(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            known: Mutex::default(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn work(&self, name: &str) -> PathBuf {
        self.dir.join(WORK).join(name)
    }

    fn part(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{PART}{key}{ENDING}"))
    }

    /// Names of the files with results, in order.
    fn files(&self) -> Result<BTreeSet<String>, SweepError> {
        let mut out = BTreeSet::new();
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(out),
            Err(e) => return Err(SweepError::io(&self.dir, "reading the folder")(e)),
        };
        for entry in entries {
            let entry = entry.map_err(SweepError::io(&self.dir, "reading the folder"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(ENDING) && !name.starts_with('.') {
                out.insert(name);
            }
        }
        Ok(out)
    }

    /// The files with the keys in each. A file that another process merges away meanwhile is left
    /// out.
    fn contents(&self) -> Result<BTreeMap<String, Vec<String>>, SweepError> {
        let mut out = BTreeMap::new();
        for name in self.files()? {
            let single = name
                .strip_prefix(PART)
                .and_then(|rest| rest.strip_suffix(ENDING));
            if let Some(key) = single {
                out.insert(name.clone(), vec![key.to_owned()]);
                continue;
            }
            let mut known = self.known.lock().expect("no panic while held");
            if let Some(keys) = known.get(&name) {
                out.insert(name, keys.clone());
                continue;
            }
            if let Some(keys) = part::keys(&self.dir.join(&name))? {
                known.insert(name.clone(), keys.clone());
                out.insert(name, keys);
            }
        }
        Ok(out)
    }

    /// Keys of all finished cells, of any version.
    ///
    /// # Errors
    /// A folder that cannot be read; Parquet files of others.
    pub fn keys(&self) -> Result<BTreeSet<String>, SweepError> {
        // Merged files appear before their parts go: what is missing from one listing is in the next.
        let before = self.contents()?;
        let after = self.contents()?;
        Ok(before
            .into_values()
            .chain(after.into_values())
            .flatten()
            .collect())
    }

    /// True if a cell is finished.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn has(&self, key: &str) -> Result<bool, SweepError> {
        Ok(self.part(key).exists() || self.keys()?.contains(key))
    }

    /// Takes a cell for this process; none if another one has it. Ask [`Self::has`] afterwards:
    /// it may have been finished meanwhile.
    ///
    /// # Errors
    /// The lock cannot be made.
    pub fn claim(&self, key: &str) -> Result<Option<Claim>, SweepError> {
        Claim::take(&self.work(&format!("{key}.lock")))
    }

    /// Stores a finished cell. On return it is on disk and visible under its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, _claim: &Claim, row: Row) -> Result<(), SweepError> {
        let path = self.part(&row.key);
        self.put(&path, &Rows(vec![row]))
    }

    /// Writes a file that appears under its name when it is complete and on disk.
    fn put(&self, path: &Path, rows: &Rows) -> Result<(), SweepError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = self.work(&format!("{name}.{}", std::process::id()));
        part::write(&unfinished, rows)?;
        fs::rename(&unfinished, path).map_err(SweepError::io(path, "renaming into place"))?;
        sync_folder(&self.dir)
    }

    /// The finished cells of `wanted`, each once, in the order of the keys.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn read(&self, wanted: &BTreeSet<String>) -> Result<Rows, SweepError> {
        let mut found: BTreeMap<String, Row> = BTreeMap::new();
        // Again if a merge has taken files away between the listing and the reading.
        for _ in 0..3 {
            for (name, keys) in self.contents()? {
                let new = |k: &String| wanted.contains(k) && !found.contains_key(k);
                if !keys.iter().any(new) {
                    continue;
                }
                for row in part::read(&self.dir.join(&name))?.0 {
                    if wanted.contains(&row.key) {
                        found.insert(row.key.clone(), row);
                    }
                }
            }
            if found.len() == wanted.len() {
                break;
            }
        }
        Ok(Rows(found.into_values().collect()))
    }
}

fn sync_folder(dir: &Path) -> Result<(), SweepError> {
    File::open(dir)
        .and_then(|folder| folder.sync_all())
        .map_err(SweepError::io(dir, "making it durable"))
}
