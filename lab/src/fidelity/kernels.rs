//! The kernels whose counters have been recorded, and the lab variants that stand for them.

use super::reference::{Reference, ReferenceError};

/// A kernel that ran the cases.
#[derive(Clone, Copy, Debug)]
pub struct RecordedKernel {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// The release that ran.
    pub release: &'static str,
    /// What it was set to, each with the lab variant that stands for it.
    pub policies: &'static [Policy],
    /// The recorded counters, packed by `scripts/trim-reference`.
    pub(super) table: &'static [u8],
}

/// The lab variant of a recorded policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Name in the reference: `classic`, or `mglru-` and the feature bits of `lru_gen`, with `-nodamon` if the
    /// kernel's monitor of accesses was off.
    pub recorded: &'static str,
    /// Lab variant.
    pub variant: &'static str,
    /// Assignments on top.
    pub set: &'static [&'static str],
    /// How far a counter may be off, thousandths of the kernel's.
    pub tolerance_permille: u64,
}

/// `mglru-0x7` without the kernel's own monitor of accesses (DAMON), which clears accessed bits of pages that it
/// samples. It is on by default in these builds, and a replay has none.
pub const UNMONITORED: &str = "mglru-0x7-nodamon";

/// Every recorded kernel, oldest first.
pub const KERNELS: [RecordedKernel; 3] = [
    RecordedKernel {
        name: "6.12",
        release: "6.12.117",
        policies: &[
            policy("mglru-0x7", "v612", &[], 5),
            policy("mglru-0x1", "v612", &["page_table_walk=off"], 5),
            policy(
                "classic",
                "classic",
                &["file_writeback_from_reclaim=on", "swap_cache_always=off"],
                20,
            ),
        ],
        table: include_bytes!("../../data/reference/linux-6.12.json.zst"),
    },
    RecordedKernel {
        name: "6.18",
        release: "6.18.15",
        policies: &[
            policy("mglru-0x7", "v618", &[], 30),
            policy(UNMONITORED, "v618", &[], 30),
        ],
        table: include_bytes!("../../data/reference/linux-6.18.json.zst"),
    },
    RecordedKernel {
        name: "7.2",
        release: "7.2.12",
        policies: &[
            policy("mglru-0x7", "v72", &[], 30),
            policy(UNMONITORED, "v72", &[], 30),
            policy("classic", "classic", &[], 20),
        ],
        table: include_bytes!("../../data/reference/linux-7.2.json.zst"),
    },
];

const fn policy(
    recorded: &'static str,
    variant: &'static str,
    set: &'static [&'static str],
    tolerance_permille: u64,
) -> Policy {
    Policy {
        recorded,
        variant,
        set,
        tolerance_permille,
    }
}

impl Policy {
    /// The same setting without the kernel's own monitor of accesses, where it was recorded.
    pub(crate) fn unmonitored(&self) -> Option<&'static str> {
        (self.recorded == "mglru-0x7").then_some(UNMONITORED)
    }

    /// Multi-gen results do not depend on the phase of the statistics fold; classic ones are averaged over `wanted`.
    #[must_use]
    pub fn phases(&self, wanted: u64) -> u64 {
        if self.recorded == "classic" {
            wanted
        } else {
            1
        }
    }
}

impl RecordedKernel {
    /// The kernel of that name; a full release (`7.2.12`) names it as well.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let named = |k: &Self| {
            name == k.name
                || name
                    .strip_prefix(k.name)
                    .is_some_and(|r| r.starts_with('.'))
        };
        KERNELS.into_iter().find(named)
    }

    /// The variant that stands for a recorded policy.
    #[must_use]
    pub fn policy(&self, recorded: &str) -> Option<Policy> {
        self.policies
            .iter()
            .copied()
            .find(|p| p.recorded == recorded)
    }

    /// The recorded policies of all kernels, each once.
    #[must_use]
    pub fn all_policies() -> Vec<&'static str> {
        let mut all = Vec::new();
        for policy in KERNELS.iter().flat_map(|k| k.policies) {
            if !all.contains(&policy.recorded) {
                all.push(policy.recorded);
            }
        }
        all
    }

    /// What it showed, as built in.
    ///
    /// # Errors
    /// Only if the built-in table is damaged.
    pub fn reference(&self) -> Result<Reference, ReferenceError> {
        Reference::unpacked(self.name, self.table)
    }
}
