//! What is different from the table of costs in replays.

use crate::experiment::{Costs, Deviation};

/// What is different from the table of costs in a replay.
pub const DEVIATIONS: &[Deviation] = &[
    Deviation {
        name: "shrinker_call_ns",
        value: 0,
        machine: "",
        why: WHY_FREE,
        source: SOURCE_FREE,
    },
    Deviation {
        name: "shrinker_each_ns",
        value: 0,
        machine: "",
        why: WHY_FREE,
        source: SOURCE_FREE,
    },
    Deviation {
        name: "pcp_batch_ns",
        value: 0,
        machine: "",
        why: WHY_FREE,
        source: SOURCE_FREE,
    },
    Deviation {
        name: "timer_hz",
        value: 250,
        machine: "",
        why: "as the kernels that replays are compared with; a sleep in reclaim is so many ticks",
        source: "configuration of Debian's kernels 6.12 to 7.3",
    },
    Deviation {
        name: "fault_around_max_ptes",
        value: 1,
        machine: "",
        why: "a trace says itself which pages are used; --fault-around changes it",
        source: "setting of the model",
    },
];

/// Those of a guest in virtual time, where an instruction takes a nanosecond, as `scripts/costs-on-kernels` measures
/// them. Its disk copies what is written.
const IN_VIRTUAL_TIME: [(&str, u64); 6] = [
    ("sched_slice_ns", 700_000),
    ("scan_page_ns", 100),
    ("kept_page_ns", 1_000),
    ("walk_pte_ns", 235),
    ("flush_page_ns", 4_400),
    ("flush_request_ns", 5_000),
];

/// The costs of a guest in virtual time, as far as they decide how far its flushers get while a task reclaims: of a kernel that
/// ends slices by a timer, or of another (`docs/rules/machine.md#a-guests-cpu`).
#[must_use]
pub fn in_virtual_time(timed_slices: bool) -> Costs {
    let timed = ("sched_hrtick_enabled", timed_slices.into());
    let mut costs = Costs::default();
    for (name, value) in IN_VIRTUAL_TIME.into_iter().chain([timed]) {
        costs.set(name, value).expect("a row of the table");
    }
    costs
}

const WHY_FREE: &str = "there is one CPU and its misses are counted, not its time";
const SOURCE_FREE: &str = "as when replays were compared with a kernel";
