//! What the kernel scans on behalf of the workers, scan by scan: its tracepoints of reclaim, in the words in which the lab
//! says the same.

use crate::trace::Buffer;
use crate::PlayError;
use std::fs;

/// Events that are read.
const EVENTS: [&str; 4] = [
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_lru_isolate",
    "mm_vmscan_lru_shrink_inactive",
];
/// Room for events from one point to the next, KiB a CPU: some 80,000.
const BUFFER_KIB: u32 = 8 << 10;

/// Where they come from.
#[derive(Debug)]
pub(crate) struct Scans {
    trace: Buffer,
}

impl Scans {
    /// Events of these processes, from now on.
    ///
    /// # Errors
    /// No tracefs, or no right to use it.
    pub fn begin(processes: &[u32]) -> Result<Self, PlayError> {
        let trace = Buffer::make("vmscan", "")?;
        trace.set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        trace.set("set_event_pid", &threads(processes))?;
        for event in EVENTS {
            trace.set(&format!("events/vmscan/{event}/enable"), "1")?;
        }
        Ok(Self { trace })
    }

    /// What has come since the last call, in order: `limit` and `direct` where a request begins, `inactive_file 64 60 32`
    /// (the list, folios asked for, pages scanned, pages taken), `freed 30 12` (pages, priority); `lost 7` where the
    /// buffer was too small for so many events.
    ///
    /// # Errors
    /// The buffer cannot be read.
    pub fn read(&mut self) -> Result<Vec<String>, PlayError> {
        let lines = self.trace.lines()?;
        Ok(lines.iter().filter_map(|line| word(line)).collect())
    }
}

/// The threads of these processes.
fn threads(processes: &[u32]) -> String {
    let of = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task"));
    let all = processes.iter().filter_map(|pid| of(pid).ok()).flatten();
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect::<Vec<_>>().join(" ")
}

/// A line of the trace in our words; none: it says nothing about scans.
fn word(line: &str) -> Option<String> {
    if let Some((_, lost)) = line.split_once("[LOST ") {
        return Some(format!("lost {}", lost.split(' ').next()?));
    }
    let (_, event) = line.split_once(": mm_vmscan_")?;
    let (name, fields) = event.split_once(": ")?;
    let value = |key: &str| {
        let mut fields = fields.split_whitespace();
        fields.find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
    };
    Some(match name {
        "memcg_reclaim_begin" => "limit".into(),
        "direct_reclaim_begin" => "direct".into(),
        "lru_isolate" => {
            let figures = ["lru", "nr_requested", "nr_scanned", "nr_taken"].map(value);
            let [Some(list), Some(asked), Some(scanned), Some(taken)] = figures else {
                return None;
            };
            format!("{list} {asked} {scanned} {taken}")
        }
        "lru_shrink_inactive" => {
            format!("freed {} {}", value("nr_reclaimed")?, value("priority")?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn lines_become_words() {
        let prefix = "         coldset-97      [000] .....    12.345678: mm_vmscan_";
        let of = |event: &str| word(&format!("{prefix}{event}"));
        let isolate = "lru_isolate: classzone=3 order=0 nr_requested=64 nr_scanned=60 nr_skipped=0 nr_taken=32 lru=inactive_file";
        assert_eq!(of(isolate).as_deref(), Some("inactive_file 64 60 32"));
        let shrink = "lru_shrink_inactive: nid=0 nr_scanned=32 nr_reclaimed=30 nr_dirty=0 nr_writeback=0 nr_congested=0 \
                      nr_immediate=0 nr_activate_anon=0 nr_activate_file=2 nr_ref_keep=0 nr_unmap_fail=0 priority=12 \
                      flags=RECLAIM_WB_FILE|RECLAIM_WB_ASYNC";
        assert_eq!(of(shrink).as_deref(), Some("freed 30 12"));
        let begin = "memcg_reclaim_begin: order=0 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_COMP";
        assert_eq!(of(begin).as_deref(), Some("limit"));
        let lost = word("CPU:0 [LOST 4711 EVENTS]");
        assert_eq!(lost.as_deref(), Some("lost 4711"));
        assert_eq!(of("lru_isolate: nr_requested=64"), None);
        assert_eq!(of("kswapd_wake: nid=0 order=0"), None);
        assert_eq!(word("# tracer: nop"), None);
    }
}
