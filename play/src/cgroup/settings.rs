//! Settings of a group of somebody else's, as they were before a run.

use super::write;
use std::fs;
use std::path::Path;

/// Files of a group and what they held, in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    /// Keeps what a file of the group holds, unless that has been done: it may be ours by now.
    pub fn keep(&mut self, group: &Path, file: &'static str) {
        if self.0.iter().any(|(kept, _)| *kept == file) {
            return;
        }
        if let Ok(text) = fs::read_to_string(group.join(file)) {
            self.0.push((file, text.trim().to_owned()));
        }
    }

    /// Writes all of it back, the last first, as far as the group is still there.
    pub fn give_back(&mut self, group: &Path) {
        let mut left = std::mem::take(&mut self.0);
        // A limit of memory and swap together may be refused until the other one has its value back.
        for _ in 0..2 {
            let refused = |(file, value): &(&str, String)| write(&group.join(file), value).is_err();
            left = left.into_iter().rev().filter(refused).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cgroup, Limits};
    use std::fs;

    #[test]
    fn a_limit_above_that_of_memory_and_swap_needs_both() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] {
            fs::write(dir.path().join(file), "4096").unwrap();
        }
        let mut group = Cgroup::at(dir.path()).unwrap();
        let limits = |swap_max| Limits {
            max: Some(8192),
            swap_max,
            ..Limits::default()
        };
        let said = group.limit(limits(None)).unwrap_err().to_string();
        assert!(
            said.contains("is 4096, below --memory; give --swap-max"),
            "{said}"
        );
        group.limit(limits(Some(4096))).unwrap();
    }

    /// A folder with the files of a group stands for one.
    #[test]
    fn a_group_that_was_there_has_its_settings_back() {
        let v1 = [
            ("memory.limit_in_bytes", "33554432\n"),
            ("memory.memsw.limit_in_bytes", "9223372036854771712\n"),
        ];
        let v2 = [
            ("memory.max", "max\n"),
            ("memory.swap.max", "1048576\n"),
            ("memory.high", "max\n"),
            ("memory.low", "4096\n"),
        ];
        for (files, only_v2) in [(v1.as_slice(), None), (v2.as_slice(), Some(12_288))] {
            let dir = tempfile::tempdir().unwrap();
            let held = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
            for (file, text) in files {
                fs::write(dir.path().join(file), text).unwrap();
            }
            let mut group = Cgroup::at(dir.path()).unwrap();
            for max in [8 << 20, 4 << 20] {
                let limits = Limits {
                    max: Some(max),
                    high: only_v2,
                    low: only_v2,
                    swap_max: Some(4096),
                    ..Limits::default()
                };
                group.limit(limits).unwrap();
                assert_eq!(held(files[0].0), max.to_string());
            }
            assert!(files.iter().all(|(file, text)| held(file) != *text));
            drop(group);
            for (file, text) in files {
                assert_eq!(held(file), text.trim(), "{file}");
            }
        }
    }
}
