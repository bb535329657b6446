//! Few large files in place of many small ones.

use super::{part, sync_folder, Claim, Rows, Store, ENDING, WORK};
use crate::sweep::version::hex;
use crate::sweep::SweepError;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

/// Cells of a file that is not merged with others any more.
const CELLS_FULL: usize = 4096;
const LOCK: &str = "merge.lock";

impl Store {
    /// Puts small files together. Others may read and write meanwhile.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub fn merge(&self) -> Result<(), SweepError> {
        let _lock = Claim::wait(&self.work(LOCK))?;
        let small = |keys: &Vec<String>| keys.len() < CELLS_FULL;
        let all = self.contents()?;
        let mut together: BTreeMap<String, Vec<String>> =
            all.into_iter().filter(|(_, keys)| small(keys)).collect();
        while together.len() > 1 {
            let mut rows = Vec::new();
            let mut names = Vec::new();
            while let Some((name, _)) = together.pop_first() {
                rows.extend(part::read(&self.dir.join(&name))?.0);
                names.push(name);
                if rows.len() >= CELLS_FULL {
                    break;
                }
            }
            if names.len() < 2 {
                break;
            }
            rows.sort_by(|a, b| a.key.cmp(&b.key));
            rows.dedup_by(|a, b| a.key == b.key);
            let keys: Vec<&str> = rows.iter().map(|r| r.key.as_str()).collect();
            let hash = hex(&Sha256::digest(keys.concat())[..8]);
            let target = format!("merged-{hash}{ENDING}");
            self.put(&self.dir.join(&target), &Rows(rows))?;
            for name in names.iter().filter(|n| **n != target) {
                remove(self, name)?;
            }
            sync_folder(&self.dir)?;
        }
        Ok(())
    }

    /// Removes files all of whose cells are in larger ones: a merge was stopped before it could.
    /// Unfinished files of processes that are gone go, too.
    pub(super) fn heal(&self) -> Result<(), SweepError> {
        let Some(_lock) = Claim::take(&self.work(LOCK))? else {
            return Ok(());
        };
        let mut files: Vec<(String, Vec<String>)> = self.contents()?.into_iter().collect();
        files.sort_by_key(|(name, keys)| (std::cmp::Reverse(keys.len()), name.clone()));
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for (name, keys) in files {
            if keys.iter().all(|k| seen.contains(k)) {
                remove(self, &name)?;
            }
            seen.extend(keys);
        }
        let work = self.dir.join(WORK);
        let entries = fs::read_dir(&work).map_err(SweepError::io(&work, "reading the folder"))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((_, process)) = name.rsplit_once(&format!("{ENDING}.")) else {
                continue;
            };
            if !fs::exists(format!("/proc/{process}")).unwrap_or(true) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

fn remove(store: &Store, name: &str) -> Result<(), SweepError> {
    let path = store.dir.join(name);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(SweepError::io(&path, "removing what has been merged")(e))
        }
        _ => Ok(()),
    }
}
