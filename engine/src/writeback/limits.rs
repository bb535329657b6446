//! How much may be dirty: dirtyable memory, thresholds, domains and their tracked limit
//! (`docs/rules/writeback.md#limits`). All amounts are pages.

use super::fraction::Window;
use super::params::DirtyParams;
use crate::ids::{Nanos, Pages};

/// Figures of the whole machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GlobalFigures {
    /// Free pages of all zones.
    pub free: Pages,
    /// Pages that are never given to user data (`zone::totalreserve`).
    pub totalreserve: Pages,
    /// Inactive file pages.
    pub inactive_file: Pages,
    /// Active file pages.
    pub active_file: Pages,
    /// Dirty file pages (FILE_DIRTY).
    pub file_dirty: Pages,
    /// Pages under writeback.
    pub writeback: Pages,
}

impl GlobalFigures {
    /// Memory that may hold dirty page cache.
    pub fn dirtyable(&self) -> Pages {
        self.free - self.free.min(self.totalreserve) + self.inactive_file + self.active_file + 1
    }
}

/// Figures of a memcg, as lagging as its statistics are (`docs/rules/memcg.md#statistics-that-lag`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemcgFigures {
    /// Page-cache pages.
    pub file: Pages,
    /// Room below the limits of the memcg and its ancestors: [`headroom`].
    pub headroom: Pages,
    /// Dirty file pages (FILE_DIRTY).
    pub file_dirty: Pages,
    /// Pages under writeback.
    pub writeback: Pages,
}

/// Room a memcg has: the least of `min(max, high) - usage` over it and its ancestors below the
/// root, each given as (usage, high, max).
pub fn headroom(path: impl IntoIterator<Item = (Pages, Pages, Pages)>) -> Pages {
    path.into_iter()
        .map(|(usage, high, max)| max.min(high).saturating_sub(usage))
        .min()
        .unwrap_or(Pages::MAX)
}

/// Thresholds of one domain beside what is dirty in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Pages that may be dirtied: what ratios are taken of.
    pub avail: Pages,
    /// Dirtiers are throttled to stay below this.
    pub thresh: Pages,
    /// Flushers work above this.
    pub bg_thresh: Pages,
    /// FILE_DIRTY: what the background test looks at.
    pub file_dirty: Pages,
    /// FILE_DIRTY + WRITEBACK: what throttling looks at.
    pub dirty: Pages,
}

impl Limits {
    /// Below this nobody is throttled.
    pub fn freerun(&self) -> Pages {
        (self.thresh + self.bg_thresh) / 2
    }

    /// Hard limit, given the domain's tracked limit.
    pub fn limit(&self, dirty_limit: Pages) -> Pages {
        self.thresh.max(dirty_limit)
    }

    /// Where throttling steers to.
    pub fn setpoint(&self, dirty_limit: Pages) -> Pages {
        (self.freerun() + self.limit(dirty_limit)) / 2
    }

    /// Pages a task may dirty before it looks again while in freerun.
    pub fn poll_pages(&self) -> Pages {
        match self.thresh.saturating_sub(self.dirty) {
            0 => 1,
            room => 1 << (room.ilog2() / 2),
        }
    }

    /// Limits of the whole machine. `realtime` is the global tracked limit if the asking task is a
    /// real-time task.
    pub fn global(params: &DirtyParams, figures: &GlobalFigures, realtime: Option<Pages>) -> Self {
        let avail = figures.dirtyable();
        let thresh = params.dirty.global_pages(avail);
        let bg = params.background.global_pages(avail);
        Self::finish(
            avail,
            thresh,
            bg,
            figures.file_dirty,
            figures.writeback,
            realtime,
        )
    }

    /// Limits of a memcg's domain inside `global`.
    pub fn memcg(
        params: &DirtyParams,
        figures: &MemcgFigures,
        global: &Limits,
        realtime: Option<Pages>,
    ) -> Self {
        let dirty = figures.file_dirty + figures.writeback;
        let clean = figures.file.saturating_sub(dirty);
        let global_clean = global.avail.saturating_sub(global.dirty);
        let other_clean = global_clean.saturating_sub(clean);
        let avail = figures.file + figures.headroom.min(other_clean);
        Self::finish(
            avail,
            params.dirty.memcg_pages(avail, global.avail),
            params.background.memcg_pages(avail, global.avail),
            figures.file_dirty,
            figures.writeback,
            realtime,
        )
    }

    fn finish(
        avail: Pages,
        mut thresh: Pages,
        mut bg_thresh: Pages,
        file_dirty: Pages,
        writeback: Pages,
        realtime: Option<Pages>,
    ) -> Self {
        if let Some(dirty_limit) = realtime {
            thresh += thresh / 4 + dirty_limit / 32;
            bg_thresh += bg_thresh / 4 + dirty_limit / 32;
        }
        if bg_thresh >= thresh {
            bg_thresh = thresh / 2;
        }
        Self {
            avail,
            thresh,
            bg_thresh,
            file_dirty,
            dirty: file_dirty + writeback,
        }
    }
}

/// A set of pages with limits of its own: the machine, or a memcg.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    /// Follows the threshold up at once and down slowly.
    pub(super) dirty_limit: Pages,
    stamp: Nanos,
    /// Completions of all wbs of the domain.
    pub(super) completions: Window,
}

impl Domain {
    /// Tracks `limits`: up at once, down by 1/32 of the excess each bandwidth interval.
    pub fn track(&mut self, params: &DirtyParams, limits: &Limits, now: Nanos) {
        if self.dirty_limit <= limits.thresh {
            self.dirty_limit = limits.thresh;
            self.stamp = now;
            return;
        }
        if now.saturating_sub(self.stamp) < params.bandwidth_interval {
            return;
        }
        self.stamp = now;
        let floor = limits.thresh.max(limits.dirty);
        self.dirty_limit -= self.dirty_limit.saturating_sub(floor) >> 5;
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::Threshold;
    use super::*;

    #[test]
    fn r1_global_limits() {
        let g = GlobalFigures {
            free: 100_000,
            totalreserve: 5000,
            inactive_file: 40_000,
            active_file: 20_000,
            ..Default::default()
        };
        let l = Limits::global(&DirtyParams::default(), &g, None);
        assert_eq!((l.avail, l.thresh, l.bg_thresh), (155_001, 30_992, 15_477));
        assert_eq!((l.freerun(), l.setpoint(0)), (23_234, 27_113));
    }

    #[test]
    fn r6_memcg_limits() {
        let global = Limits {
            avail: 10_000_000,
            ..Default::default()
        };
        let of = |file, headroom| {
            let m = MemcgFigures {
                file,
                headroom,
                ..Default::default()
            };
            Limits::memcg(&DirtyParams::default(), &m, &global, None)
        };
        let l = of(
            30_000,
            headroom([(30_768, Pages::MAX, 32_768), (0, Pages::MAX, Pages::MAX)]),
        );
        assert_eq!(
            (l.avail, l.thresh, l.bg_thresh, l.freerun()),
            (32_000, 6398, 3195, 4796)
        );
        let l = of(0, 32_768);
        assert_eq!(
            (l.avail, l.thresh, l.bg_thresh, l.freerun()),
            (32_768, 6552, 3272, 4912)
        );
    }

    #[test]
    fn memcg_room_is_bounded_by_clean_pages_elsewhere() {
        let p = DirtyParams::default();
        let global = Limits {
            avail: 1000,
            dirty: 300,
            ..Default::default()
        };
        let m = MemcgFigures {
            file: 500,
            headroom: 9000,
            file_dirty: 60,
            writeback: 40,
        };
        // clean 400, global clean 700, so 300 elsewhere.
        assert_eq!(Limits::memcg(&p, &m, &global, None).avail, 800);
    }

    #[test]
    fn r7_poll() {
        let l = Limits {
            thresh: 30_992,
            dirty: 20_000,
            ..Default::default()
        };
        assert_eq!(l.poll_pages(), 64);
        assert_eq!(Limits { dirty: 30_992, ..l }.poll_pages(), 1);
    }

    #[test]
    fn bytes_replace_ratios_and_background_stays_below() {
        let p = DirtyParams {
            dirty: Threshold::Bytes(4096 * 100 + 1),
            background: Threshold::Bytes(4096 * 500),
            ..DirtyParams::default()
        };
        let g = GlobalFigures {
            free: 999,
            ..Default::default()
        };
        let l = Limits::global(&p, &g, None);
        assert_eq!((l.thresh, l.bg_thresh), (101, 50));
        // 409601 bytes of 1000 pages: 410/4096 of a memcg.
        let m = MemcgFigures {
            file: 4096,
            ..Default::default()
        };
        assert_eq!(Limits::memcg(&p, &m, &l, None).thresh, 410);
        let rt = Limits::global(&p, &g, Some(320));
        assert_eq!((rt.thresh, rt.bg_thresh), (101 + 25 + 10, 68));
    }

    #[test]
    fn limit_follows_up_at_once_and_down_slowly() {
        let p = DirtyParams::default();
        let mut d = Domain::default();
        let at = |thresh, dirty| Limits {
            thresh,
            dirty,
            ..Default::default()
        };
        d.track(&p, &at(6400, 0), 0);
        assert_eq!(d.dirty_limit, 6400);
        d.track(&p, &at(3200, 0), p.bandwidth_interval - 1);
        assert_eq!(d.dirty_limit, 6400);
        d.track(&p, &at(3200, 0), p.bandwidth_interval);
        assert_eq!(d.dirty_limit, 6300);
        d.track(&p, &at(3200, 6300), 2 * p.bandwidth_interval);
        assert_eq!(d.dirty_limit, 6300, "not below what is dirty");
        d.track(&p, &at(7000, 0), 2 * p.bandwidth_interval + 1);
        assert_eq!(d.dirty_limit, 7000);
    }
}
