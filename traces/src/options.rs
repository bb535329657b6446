//! How the references of a foreign trace become page references.

use super::error::TraceError;

/// How reads of a file are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// As `pread` calls.
    #[default]
    Read,
    /// Through a mapping. Writes remain `pwrite` calls.
    Mapped,
}

/// What becomes of the page ids of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageIds {
    /// Numbered from 0 in the order of first appearance, for each object apart. The
    /// `pageops` format holds page indices already and is never renumbered.
    #[default]
    Dense,
    /// Kept; an id of 2^31 or more is an error.
    Keep,
}

/// How many pages a variable-sized object of a cache trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectPages {
    /// One page, whatever its size.
    #[default]
    One,
    /// As many as its size needs; each reference touches all of them in order.
    Split,
}

/// Options of the readers. The default suits every format; see the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    /// How reads of files are done. No effect on `pageops` and on anonymous memory.
    pub access: Access,
    /// Renumbering of page ids.
    pub page_ids: PageIds,
    /// ARC only: blocks in one page: 1 for OLTP (a block is a database page), 8 for P3
    /// and P6 (512-byte blocks in 4 KiB pages).
    pub blocks_per_page: u32,
    /// oracleGeneral and traces of keys: pages of an object.
    pub object_pages: ObjectPages,
    /// Page size as a power of two, in bytes, where the format holds bytes or sectors
    /// (address, lackey, CloudPhysics CSV, oracleGeneral split in pages, perf, ftrace, fio,
    /// blkparse). 12 is 4 KiB.
    pub page_shift: u32,
    /// lackey, perf, ftrace: report instruction fetches, as mapped reads of a file (object 1 of
    /// lackey, among the files of object 0 of the others).
    pub instructions: bool,
    /// Merge consecutive references of one task to one page. Loads and stores of
    /// anonymous memory merge into a store; file references merge only with their kind.
    pub collapse: bool,
    /// Merge, in the same way, the references to one page within each window of so many
    /// references (counted after `collapse`); 0 or 1 for none, at most 1024. Thins out a
    /// trace of single loads and stores: the order of references, and with it the LRU
    /// order of pages, is kept to within one window.
    pub merge_window: u32,
    /// Which events or actions are references, for the formats that have several (`perf`,
    /// `ftrace`, `blkparse`); empty for the usual ones. The format's file says what there is.
    pub events: Vec<String>,
    /// csv only: what its columns hold, in their order: `page`, `offset` (bytes), `sector` (of 512 bytes), `size`
    /// (bytes), `sectors`, `op`, `object`, `task`, `key`, `time` and `-` (both passed over). Empty: the format's own.
    pub columns: Vec<String>,
    /// A bad line is an error in every format. Otherwise the formats that other text gets mixed
    /// into (`perf`, `ftrace`, `fio`, `blkparse`, `lackey`) count bad lines and leave them out.
    pub strict: bool,
    /// All references are those of task 0, whatever the trace says.
    pub one_task: bool,
    /// Threads of a process stay tasks of their own ([`Trace::processes`](super::Trace::processes)). Otherwise they
    /// are one task.
    pub threads: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions {
            access: Access::default(),
            page_ids: PageIds::default(),
            blocks_per_page: 1,
            object_pages: ObjectPages::default(),
            page_shift: 12,
            instructions: false,
            collapse: false,
            merge_window: 0,
            events: Vec::new(),
            columns: Vec::new(),
            strict: false,
            one_task: false,
            threads: false,
        }
    }
}

impl TraceOptions {
    /// Refuses values that no trace can be read with.
    ///
    /// # Errors
    /// [`TraceError::Option`] names the option and what it may be.
    pub fn check(&self) -> Result<(), TraceError> {
        if self.blocks_per_page == 0 {
            return Err(TraceError::Option {
                option: "blocks_per_page",
                found: self.blocks_per_page.to_string(),
                expected: "1 or more",
            });
        }
        if !(9..=30).contains(&self.page_shift) {
            return Err(TraceError::Option {
                option: "page_shift",
                found: self.page_shift.to_string(),
                expected: "9 to 30 (12 is a page of 4 KiB)",
            });
        }
        if self.merge_window > 1024 {
            return Err(TraceError::Option {
                option: "merge_window",
                found: self.merge_window.to_string(),
                expected: "0 to 1024 references",
            });
        }
        if self.object_pages == ObjectPages::Split && self.page_ids == PageIds::Keep {
            return Err(TraceError::Option {
                option: "page_ids",
                found: "keep".to_string(),
                expected: "dense where objects are split in pages",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_named() {
        let message = |options: TraceOptions| options.check().expect_err("refused").to_string();
        assert_eq!(
            message(TraceOptions {
                blocks_per_page: 0,
                ..TraceOptions::default()
            }),
            "trace option blocks_per_page = 0: expected 1 or more"
        );
        assert!(message(TraceOptions {
            page_shift: 31,
            ..TraceOptions::default()
        })
        .contains("9 to 30"));
        assert!(message(TraceOptions {
            object_pages: ObjectPages::Split,
            page_ids: PageIds::Keep,
            ..TraceOptions::default()
        })
        .contains("page_ids"));
        assert!(message(TraceOptions {
            merge_window: 1025,
            ..TraceOptions::default()
        })
        .contains("0 to 1024"));
    }
}
