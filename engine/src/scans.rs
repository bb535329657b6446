//! What reclaim by tasks does, scan by scan: the words of a kernel's tracepoints (`vmscan` in tracefs), so that the two can
//! be laid side by side.

use crate::engine::Engine;
use crate::lruvec::LruList;
use crate::reclaim::scan_control::{ReclaimStat, ScanControl};
use std::fmt;

/// One line of the log. [`fmt::Display`] is its form in text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanEvent {
    /// A task begins to reclaim at the limit of a memcg (`mm_vmscan_memcg_reclaim_begin`): `limit`.
    Limit,
    /// A task begins to reclaim because the machine is short of memory (`mm_vmscan_direct_reclaim_begin`): `direct`.
    Direct,
    /// A list has been scanned (`mm_vmscan_lru_isolate`): `inactive_file 64 60 32`. The oldest generation of a type is its
    /// inactive list.
    Isolated {
        /// Which list.
        list: LruList,
        /// Folios to look at, at most.
        asked: u64,
        /// Pages looked at.
        scanned: u64,
        /// Pages taken off the list.
        taken: u64,
    },
    /// What was taken has been worked through (`mm_vmscan_lru_shrink_inactive`): `freed 30 12`.
    Shrunk {
        /// Pages freed.
        freed: u64,
        /// Of the request, 12 (gentle) to 0.
        priority: u8,
    },
}

impl ScanEvent {
    /// A list of this request has been worked through.
    pub(crate) fn shrunk(sc: &ScanControl, stat: &ReclaimStat) -> Self {
        Self::Shrunk {
            freed: stat.reclaimed,
            priority: sc.priority,
        }
    }
}

impl fmt::Display for ScanEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Limit => f.write_str("limit"),
            Self::Direct => f.write_str("direct"),
            Self::Isolated {
                list,
                asked,
                scanned,
                taken,
            } => write!(f, "{} {asked} {scanned} {taken}", list.name()),
            Self::Shrunk { freed, priority } => write!(f, "freed {freed} {priority}"),
        }
    }
}

/// The log; none unless the host asks for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScanLog(Option<Vec<ScanEvent>>);

impl Engine {
    /// From now on scans of tasks are written down, kswapd's are not.
    pub fn log_scans(&mut self) {
        self.scans.0.get_or_insert_default();
    }

    /// What has been written down since the last call; empty without [`Self::log_scans`].
    pub fn take_scans(&mut self) -> Vec<ScanEvent> {
        self.scans
            .0
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Writes down what a request has done.
    pub(crate) fn log_scan(&mut self, sc: &ScanControl, event: ScanEvent) {
        if let Some(log) = &mut self.scans.0 {
            if !sc.is_kswapd() {
                log.push(event);
            }
        }
    }
}
