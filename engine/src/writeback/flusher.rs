//! What a flusher writes next (`docs/rules/writeback.md#flushers`). The host runs one worker a wb: it asks for a
//! slice, writes it, reports, and asks again until there is none.

use super::limits::{GlobalFigures, Limits, MemcgFigures};
use super::wb::InodePlace;
use super::work::{FlushReason, Slice, Work};
use super::Writeback;
use crate::ids::{Nanos, ObjectId, Pages, WbId};

/// Figures the worker's own checks need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushInput {
    /// Of the machine.
    pub global: GlobalFigures,
    /// Of the wb's memcg, if it has one below the root.
    pub memcg: Option<MemcgFigures>,
}

impl Writeback {
    /// The next slice for the worker of `wb`, or `None` if it has nothing to do and sleeps.
    /// The slice before must have been reported with [`Writeback::slice_done`].
    pub fn next_slice(&mut self, id: WbId, now: Nanos, input: &FlushInput) -> Option<Slice> {
        debug_assert!(
            self.wb(id).current.is_none(),
            "wb {}: a slice is outstanding",
            id.0
        );
        loop {
            if self.wb(id).running.is_none() {
                let work = self.pick_work(id, now, input)?;
                self.wb_mut(id).running = Some(work);
            }
            if let Some(inode) = self.pick_inode(id, now, input) {
                let slice = self.slice_for(id, inode, now);
                let wb = self.wb_mut(id);
                wb.take(inode);
                wb.current = Some(slice.clone());
                return Some(slice);
            }
            let ended = self.end_work(id, now);
            // Background work that may not go on, or cannot, ends the run: asking again at once
            // would give the same answer.
            if ended == Some(FlushReason::Background) && !self.wb(id).has_request() {
                return None;
            }
        }
    }

    /// Reports a slice: `pages_written` were put under writeback; `still_dirty` if the host knows
    /// that the inode has more to write (the wb's own count is looked at as well).
    pub fn slice_done(
        &mut self,
        id: WbId,
        inode: ObjectId,
        pages_written: Pages,
        still_dirty: bool,
        now: Nanos,
    ) {
        let wb = self.wb_mut(id);
        let Some(slice) = wb.current.take() else {
            debug_assert!(false, "wb {}: no slice is outstanding", id.0);
            return;
        };
        debug_assert_eq!(slice.inode, inode);
        if let Some(work) = wb.running.as_mut() {
            work.wrote |= pages_written > 0;
            work.left = work.left.map(|left| left.saturating_sub(pages_written));
        }
        let state = &wb.inodes[&slice.inode];
        let since = state.since;
        if !still_dirty && state.pages == 0 {
            wb.inodes.remove(&slice.inode);
        } else if pages_written > 0 && (pages_written >= slice.pages_max || now >= slice.deadline) {
            wb.put(slice.inode, InodePlace::MoreIo, since);
        } else {
            wb.put(slice.inode, InodePlace::Dirty, now);
        }
    }

    /// Order of a run: queued works, "write everything", periodic, background.
    fn pick_work(&mut self, id: WbId, now: Nanos, input: &FlushInput) -> Option<Work> {
        let over = self.over_background(id, now, input);
        let budget = self.start_all_budget(id, input.global.file_dirty);
        let wb = self.wb_mut(id);
        if let Some(work) = wb.works.pop_front() {
            return Some(work);
        }
        if let Some(reason) = wb.start_all.take() {
            return Some(Work::new(reason, now, Some(budget)));
        }
        if std::mem::take(&mut wb.periodic_due) {
            return Some(Work::new(FlushReason::Periodic, now, None));
        }
        wb.background = false;
        (over && !wb.inodes.is_empty()).then(|| Work::new(FlushReason::Background, now, None))
    }

    /// The next inode of the running work, or `None` if the work is over.
    fn pick_inode(&mut self, id: WbId, now: Nanos, input: &FlushInput) -> Option<ObjectId> {
        let expire = self.params.dirty_expire;
        let over = self.over_background(id, now, input);
        let wb = self.wb_mut(id);
        let work = wb.running.clone().expect("a work was picked");
        let reason = work.reason;
        let gives_way = matches!(reason, FlushReason::Background | FlushReason::Periodic);
        if work.left == Some(0)
            || (gives_way && (!wb.works.is_empty() || wb.start_all.is_some()))
            || (reason == FlushReason::Background && !over)
        {
            return None;
        }
        if wb.b_io.is_empty() {
            // A round that wrote nothing will write nothing again.
            if work.started && !work.wrote {
                return None;
            }
            let cut = work.asked_at;
            wb.queue_io(|since| match reason {
                FlushReason::Periodic => since.saturating_add(expire) < now,
                FlushReason::Sync => since <= cut,
                _ => true,
            });
            let work = wb.running.as_mut().expect("a work was picked");
            (work.started, work.wrote) = (true, false);
        }
        wb.b_io.first_key_value().map(|(_, &inode)| inode)
    }

    fn slice_for(&self, id: WbId, inode: ObjectId, now: Nanos) -> Slice {
        let p = &self.params;
        let wb = self.wb(id);
        let work = wb.running.as_ref().expect("a work was picked");
        let pages = p
            .pages_in(wb.estimate.avg_bandwidth, p.slice_time)
            .min(self.global.dirty_limit / 8)
            .min(work.left.unwrap_or(Pages::MAX));
        let unit = p.slice_unit.max(1);
        Slice {
            wb: id,
            inode,
            pages_max: (pages + unit) / unit * unit,
            reason: work.reason,
            deadline: now + p.yield_interval,
        }
    }

    fn end_work(&mut self, id: WbId, now: Nanos) -> Option<FlushReason> {
        let period = self.params.dirty_writeback;
        let wb = self.wb_mut(id);
        let ended = wb.running.take().map(|w| w.reason);
        if period != 0 && wb.periodic_at.is_none() && !wb.inodes.is_empty() && !wb.periodic_due {
            wb.periodic_at = Some(now + period);
        }
        ended
    }

    /// True while the background work has reason to go on: the domain's dirty pages or the wb's
    /// are above their background thresholds, in any domain.
    pub fn over_background(&self, id: WbId, now: Nanos, input: &FlushInput) -> bool {
        let reclaimable = self.wb(id).reclaimable;
        let global = Limits::global(&self.params, &input.global, None);
        let over = |limits: &Limits, in_memcg| {
            limits.file_dirty > limits.bg_thresh
                || reclaimable > self.wb_share(id, limits, in_memcg, now).bg_thresh
        };
        over(&global, false)
            || input
                .memcg
                .is_some_and(|m| over(&Limits::memcg(&self.params, &m, &global, None), true))
    }

    /// This wb's part of all dirty pages by bandwidth among the busy wbs of its device, rounded up.
    fn start_all_budget(&self, id: WbId, file_dirty: Pages) -> Pages {
        let own = self.wb(id).estimate.avg_bandwidth;
        let total = self.device_bandwidth(id);
        (u128::from(file_dirty) * u128::from(own)).div_ceil(u128::from(total)) as u64
    }

    /// Bandwidth of all wbs of the wb's device that have dirty inodes, itself included.
    pub(crate) fn device_bandwidth(&self, id: WbId) -> Pages {
        let own = self.wb(id);
        let others = self.wbs.iter().enumerate().filter(|&(i, other)| {
            i != id.idx() && other.device == own.device && !other.inodes.is_empty()
        });
        others.map(|(_, w)| w.estimate.avg_bandwidth).sum::<Pages>() + own.estimate.avg_bandwidth
    }
}
