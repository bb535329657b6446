//! What the series of a run are, by name: unit and how they are drawn.

/// How the values of a series become points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Totals so far: drawn as a rate.
    Rate,
    /// Nanoseconds so far of all tasks: drawn as milliseconds in each second.
    Share,
    /// What is there at a moment.
    Level,
}

/// Series that share an axis.
#[derive(Debug)]
pub struct Topic {
    /// Short name.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// How to read it.
    pub about: &'static str,
    /// Unit of the values; of rates, before the "per".
    pub unit: &'static str,
    /// How they are drawn.
    pub kind: Kind,
    /// Values are multiplied by it.
    pub factor: f64,
    /// Names and labels.
    pub series: &'static [(&'static str, &'static str)],
}

/// All topics, in the order of the page.
pub const TOPICS: &[Topic] = &[
    Topic {
        id: "refaults",
        title: "Refaults",
        about: "Pages that were needed again after they had been evicted: every one of them was a \
                wrong choice, or memory is too small for the working set. Lower is better.",
        unit: "pages",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[
            ("workingset_refault_file", "file"),
            ("workingset_refault_anon", "anonymous"),
        ],
    },
    Topic {
        id: "scan",
        title: "Pages scanned and stolen",
        about: "Scanned pages were looked at for eviction, stolen ones were freed. The closer the two \
                lines of a variant, the less work was in vain.",
        unit: "pages",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[("pgscan", "scanned"), ("pgsteal", "stolen")],
    },
    Topic {
        id: "dirty",
        title: "Dirty pages and pages under writeback",
        about: "Pages that must be written before their memory can be reused, and those being written.",
        unit: "pages",
        kind: Kind::Level,
        factor: 1.0,
        series: &[
            ("file_dirty", "dirty"),
            ("file_writeback", "under writeback"),
        ],
    },
    Topic {
        id: "dirty-reclaim",
        title: "Dirty pages that reclaim met",
        about: "Pages that reclaim took in hand and put back because they were dirty or being written: \
                work for nothing.",
        unit: "pages",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[("dirty_put_back", "put back")],
    },
    Topic {
        id: "stalls",
        title: "Time lost to throttling and allocation stalls",
        about: "Time that all tasks together slept in a throttle, and CPU time they spent on reclaim or \
                waiting for memory. Lower is better, unless it prevents worse.",
        unit: "ms",
        kind: Kind::Share,
        factor: 1e3,
        series: &[
            ("throttled_ns", "throttled"),
            ("alloc_stall_ns", "allocation stall"),
        ],
    },
    Topic {
        id: "stall-events",
        title: "Throttling and allocation stalls, events",
        about: "How often tasks slept in a throttle of reclaim, had to reclaim themselves, or did so \
                without freeing a page.",
        unit: "events",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[
            ("throttle_waits", "throttle sleeps"),
            ("reclaim_entries", "entries into reclaim"),
            ("zero_progress", "nothing freed"),
        ],
    },
    Topic {
        id: "io",
        title: "Block devices",
        about: "Data read from and written to block devices. Reading less for the same work means that \
                the right pages were kept.",
        unit: "MiB",
        kind: Kind::Rate,
        factor: 1.0 / 1024.0,
        series: &[("pgpgin", "read"), ("pgpgout", "written")],
    },
    Topic {
        id: "swap",
        title: "Swap",
        about: "Anonymous pages read from and written to swap.",
        unit: "pages",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[("pswpin", "in"), ("pswpout", "out")],
    },
    Topic {
        id: "faults",
        title: "Major faults",
        about: "Page faults that had to wait for a device.",
        unit: "faults",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[("pgmajfault", "major faults")],
    },
    Topic {
        id: "aging",
        title: "New generations",
        about: "How often a new youngest generation was opened. Each time, accessed pages move up and \
                the rest becomes older.",
        unit: "generations",
        kind: Kind::Rate,
        factor: 1.0,
        series: &[("aging_runs", "opened")],
    },
    Topic {
        id: "memory",
        title: "What memory holds",
        about: "Anonymous and file pages in memory; free pages where the whole machine is under pressure.",
        unit: "pages",
        kind: Kind::Level,
        factor: 1.0,
        series: &[
            ("anon_pages", "anonymous"),
            ("file_pages", "file"),
            ("free_pages", "free"),
        ],
    },
    Topic {
        id: "phone-memory",
        title: "Memory of the phone",
        about: "Memory of the full-size phone, as /proc/meminfo would show it.",
        unit: "MiB",
        kind: Kind::Level,
        factor: 1.0,
        series: &[
            ("mem_available_mb", "available"),
            ("mem_free_mb", "free"),
            ("cached_mb", "cached"),
            ("anon_pages_mb", "anonymous"),
            ("dirty_mb", "dirty"),
        ],
    },
];

/// Lists by the name of their series, from the youngest to the oldest.
pub const LISTS: &[(&str, &str)] = &[
    ("gen0_file", "file, youngest"),
    ("gen1_file", "file, 2nd"),
    ("gen2_file", "file, 3rd"),
    ("gen3_file", "file, 4th"),
    ("gen0_anon", "anonymous, youngest"),
    ("gen1_anon", "anonymous, 2nd"),
    ("gen2_anon", "anonymous, 3rd"),
    ("gen3_anon", "anonymous, 4th"),
];

/// The same where there are no generations.
pub const PLAIN_LISTS: &[(&str, &str)] = &[
    ("active_file", "file, active"),
    ("inactive_file", "file, inactive"),
    ("active_anon", "anonymous, active"),
    ("inactive_anon", "anonymous, inactive"),
];
