//! Dirty pages: accounting, limits, throttling of dirtiers and the flushers' work selection
//! (`docs/rules/writeback.md`).
//!
//! [`Writeback`] owns the write contexts (wbs) and the domains with limits. It counts what a wb and
//! its inodes have dirty; the statistics of lruvecs, zones and memcgs are the caller's, who gives
//! them as figures to each decision. The folio side of completion and of reclaim (`docs/rules/writeback.md#completion`
//! and 8) is elsewhere.

pub mod balance;
pub mod bandwidth;
pub mod flusher;
pub mod foreign;
mod fraction;
pub mod limits;
mod owner;
pub mod params;
pub mod pause;
pub mod position;
#[cfg(test)]
mod tests;
pub mod wb;
pub mod work;

use crate::ids::{MemcgId, Nanos, ObjectId, Pages, WbId};
pub use balance::{Balance, BalanceInput, TaskDirty, WbShare};
pub use flusher::FlushInput;
pub use limits::{Domain, GlobalFigures, Limits, MemcgFigures};
use owner::Owner;
pub use params::{DirtyParamError, DirtyParams, Threshold};
use std::collections::{BTreeMap, BTreeSet};
use wb::InodePlace;
pub use wb::{DeviceId, Wb};
pub use work::{FlushReason, Slice, Work};

/// All write contexts of a machine.
#[derive(Clone, Debug)]
pub struct Writeback {
    params: DirtyParams,
    wbs: Vec<Wb>,
    by_owner: BTreeMap<(DeviceId, MemcgId), WbId>,
    attached: BTreeMap<ObjectId, Owner>,
    /// Memcgs that have been removed.
    gone: BTreeSet<MemcgId>,
    global: Domain,
    memcgs: BTreeMap<MemcgId, Domain>,
    foreign: BTreeMap<MemcgId, foreign::ForeignDirty>,
    cpus: Vec<balance::CpuDirty>,
    ratelimit_pages: Pages,
    laptop_at: Option<Nanos>,
    wakeups: [u64; FlushReason::COUNT],
}

impl Writeback {
    /// No wbs yet. Errors name the setting that cannot work.
    pub fn new(params: DirtyParams) -> Result<Self, DirtyParamError> {
        params.validate()?;
        Ok(Self {
            params,
            wbs: Vec::new(),
            by_owner: BTreeMap::new(),
            attached: BTreeMap::new(),
            gone: BTreeSet::new(),
            global: Domain::default(),
            memcgs: BTreeMap::new(),
            foreign: BTreeMap::new(),
            cpus: Vec::new(),
            ratelimit_pages: 32,
            laptop_at: None,
            wakeups: [0; FlushReason::COUNT],
        })
    }

    /// Ratios, intervals and limits in force.
    pub fn params(&self) -> &DirtyParams {
        &self.params
    }

    /// The wb of (device, memcg), made if it does not exist. Without cgroup writeback the host
    /// always names the root.
    pub fn wb_for(&mut self, device: DeviceId, memcg: MemcgId) -> WbId {
        let next = WbId(self.wbs.len() as u32);
        let id = *self.by_owner.entry((device, memcg)).or_insert(next);
        if id == next {
            self.wbs.push(Wb::new(device, memcg, &self.params));
        }
        id
    }

    /// The wb of an inode: the one it has been attached to since it was first dirtied, or else the
    /// wb of (device, memcg of the folio about to be dirtied; a memcg that is there).
    pub fn attach(&mut self, inode: ObjectId, device: DeviceId, memcg: MemcgId) -> WbId {
        if let Some(owner) = self.attached.get(&inode) {
            let (id, wb) = (owner.wb, self.wb(owner.wb));
            if !self.gone.contains(&wb.memcg) || wb.inode(inode).is_some() {
                return id;
            }
        }
        // A number that is used again.
        self.gone.remove(&memcg);
        let id = self.wb_for(device, memcg);
        self.attached.insert(inode, Owner::new(id));
        id
    }

    /// So many dirty pages of an inode that are charged to `memcg` are being written.
    pub fn wrote(&mut self, inode: ObjectId, memcg: MemcgId, pages: Pages) {
        if let Some(owner) = self.attached.get_mut(&inode) {
            owner.wrote(memcg, pages);
        }
    }

    /// A round of writing of an inode is over. Where most of what is written belongs to another memcg, round after
    /// round, the inode moves to the wb of that one, which is returned.
    pub fn round_over(&mut self, inode: ObjectId) -> Option<WbId> {
        let owner = self.attached.get_mut(&inode)?;
        let from = &self.wbs[owner.wb.idx()];
        let (id, device) = (owner.wb, from.device);
        let memcg = owner.round_over(from.memcg)?;
        // While it is being written it stays.
        let state = from.inode(inode);
        if state.is_some_and(|i| i.place == InodePlace::Writing) {
            return None;
        }
        let dirty = state.map(|i| (i.pages, i.since));
        let to = self.wb_for(device, memcg);
        self.attached.insert(inode, Owner::new(to));
        if let Some((pages, since)) = dirty {
            let from = self.wb_mut(id);
            from.reclaimable -= pages;
            from.inode_cleaned(inode, pages);
            self.dirtied_at(to, inode, pages, since);
        }
        Some(to)
    }

    /// The memcg has been removed: inodes attached to it are attached anew once they are clean.
    pub fn memcg_gone(&mut self, memcg: MemcgId) {
        self.gone.insert(memcg);
    }

    /// Forgets a deleted inode; its dirty pages must have been dropped.
    pub fn forget(&mut self, inode: ObjectId) {
        self.attached.remove(&inode);
    }

    /// The wb with this id.
    pub fn wb(&self, id: WbId) -> &Wb {
        &self.wbs[id.idx()]
    }

    /// All wbs in order of creation.
    pub fn wbs(&self) -> impl Iterator<Item = (WbId, &Wb)> {
        self.wbs
            .iter()
            .enumerate()
            .map(|(i, wb)| (WbId(i as u32), wb))
    }

    fn wb_mut(&mut self, id: WbId) -> &mut Wb {
        &mut self.wbs[id.idx()]
    }

    /// `pages` of an inode went from clean to dirty. The first dirty inode of a wb arms the
    /// periodic wake-up.
    pub fn dirtied(&mut self, id: WbId, inode: ObjectId, pages: Pages, now: Nanos) {
        self.wb_mut(id).dirtied += pages;
        self.dirtied_at(id, inode, pages, now);
    }

    fn dirtied_at(&mut self, id: WbId, inode: ObjectId, pages: Pages, now: Nanos) {
        let period = self.params.dirty_writeback;
        let wb = self.wb_mut(id);
        wb.reclaimable += pages;
        if wb.inode_dirtied(inode, pages, now) && period != 0 && wb.periodic_at.is_none() {
            wb.periodic_at = Some(now + period);
        }
    }

    /// `pages` of an inode were cleaned for I/O; follow with [`Writeback::started`].
    pub fn clean_for_io(&mut self, id: WbId, inode: ObjectId, pages: Pages) {
        self.dirty_gone(id, inode, pages);
    }

    /// Dirty `pages` of an inode were dropped without writing (truncate).
    pub fn dirty_dropped(&mut self, id: WbId, inode: ObjectId, pages: Pages) {
        self.dirty_gone(id, inode, pages);
    }

    fn dirty_gone(&mut self, id: WbId, inode: ObjectId, pages: Pages) {
        // A clean inode is not known here.
        if pages == 0 {
            return;
        }
        let wb = self.wb_mut(id);
        debug_assert!(
            wb.reclaimable >= pages,
            "wb {} cleaned more than it has dirty",
            id.0
        );
        wb.reclaimable = wb.reclaimable.saturating_sub(pages);
        wb.inode_cleaned(inode, pages);
    }

    /// Writeback of `pages` started.
    pub fn started(&mut self, id: WbId, pages: Pages, now: Nanos) {
        let params = &self.params;
        let wb = &mut self.wbs[id.idx()];
        let progress = wb.progress(params, now);
        wb.estimate.restart_if_idle(params, &progress);
        wb.writeback += pages;
        wb.bandwidth_at = None;
    }

    /// Writeback of `pages` ended. When the last page in flight ends, an estimation is armed one
    /// interval later.
    pub fn written(&mut self, id: WbId, pages: Pages, now: Nanos) {
        let (period, interval) = (
            self.params.completion_period,
            self.params.bandwidth_interval,
        );
        let wb = &mut self.wbs[id.idx()];
        debug_assert!(
            wb.writeback >= pages,
            "wb {} ended more than it has in flight",
            id.0
        );
        wb.writeback = wb.writeback.saturating_sub(pages);
        wb.written += pages;
        wb.completions.add(pages, now, period);
        self.global.completions.add(pages, now, period);
        if wb.memcg != MemcgId::ROOT {
            wb.memcg_completions.add(pages, now, period);
            let domain = self.memcgs.entry(wb.memcg).or_default();
            domain.completions.add(pages, now, period);
        }
        if wb.writeback == 0 {
            wb.bandwidth_at = Some(now + interval);
        }
    }

    /// Notes that a page of `memcg` was dirtied through `wb` of another memcg.
    pub fn note_foreign(&mut self, memcg: MemcgId, wb: WbId, now: Nanos) {
        self.foreign
            .entry(memcg)
            .or_default()
            .note(&self.params, wb, now);
    }

    /// Queues a flush of the foreign wbs of `memcg`; returns the workers to run.
    pub fn flush_foreign(&mut self, memcg: MemcgId, now: Nanos) -> Vec<WbId> {
        let Some(records) = self.foreign.get_mut(&memcg) else {
            return Vec::new();
        };
        let mut wbs = records.take(&self.params, now);
        wbs.retain(|&id| self.wake_wb(id, FlushReason::ForeignFlush, now));
        wbs
    }

    /// Wakes the flushers of all wbs for `reason`; returns the workers to run. "Write everything"
    /// reasons find at most one such request pending or running a wb; a wb without dirty inodes is
    /// left alone.
    pub fn wake(&mut self, reason: FlushReason, now: Nanos) -> Vec<WbId> {
        let mut ids: Vec<WbId> = (0..self.wbs.len() as u32).map(WbId).collect();
        ids.retain(|&id| self.wake_wb(id, reason, now));
        ids
    }

    /// As [`Writeback::wake`] for one wb; true if its worker must run.
    pub fn wake_wb(&mut self, id: WbId, reason: FlushReason, now: Nanos) -> bool {
        let wb = self.wb_mut(id);
        if wb.inodes.is_empty() {
            return false;
        }
        match reason {
            FlushReason::Background => {
                if wb.background || wb.running() == Some(reason) {
                    return false;
                }
                wb.background = true;
            }
            FlushReason::Periodic => {
                if wb.periodic_due {
                    return false;
                }
                wb.periodic_due = true;
                wb.periodic_at = None;
            }
            FlushReason::Vmscan | FlushReason::LaptopTimer | FlushReason::FsFreeSpace => {
                if wb.start_all.is_some() || wb.running().is_some_and(FlushReason::is_start_all) {
                    return false;
                }
                wb.start_all = Some(reason);
            }
            FlushReason::Sync | FlushReason::ForeignFlush => {
                wb.works.push_back(Work::new(reason, now, None));
            }
        }
        self.count_wakeup(reason);
        true
    }

    /// Disk I/O was done: in laptop mode everything is written laptop_mode later.
    pub fn disk_io(&mut self, now: Nanos) {
        if self.params.laptop_mode != 0 {
            self.laptop_at = Some(now + self.params.laptop_mode);
        }
    }

    /// When [`Writeback::expire_timers`] has something to do next.
    pub fn next_timer(&self) -> Option<Nanos> {
        let of_wbs = self
            .wbs
            .iter()
            .flat_map(|wb| [wb.periodic_at, wb.bandwidth_at]);
        of_wbs.chain([self.laptop_at]).flatten().min()
    }

    /// Does what is due at `now`; returns the workers to run.
    pub fn expire_timers(&mut self, now: Nanos) -> Vec<WbId> {
        let due = |t: Option<Nanos>| t.is_some_and(|t| t <= now);
        let mut wake = Vec::new();
        for i in 0..self.wbs.len() {
            let params = &self.params;
            let wb = &mut self.wbs[i];
            if due(wb.bandwidth_at) {
                wb.bandwidth_at = None;
                let progress = wb.progress(params, now);
                wb.estimate.update(params, &progress, None);
            }
            if due(wb.periodic_at) {
                wb.periodic_at = None;
                let id = WbId(i as u32);
                if self.params.dirty_writeback != 0 && self.wake_wb(id, FlushReason::Periodic, now)
                {
                    wake.push(id);
                }
            }
        }
        if due(self.laptop_at) {
            self.laptop_at = None;
            wake.extend(self.wake(FlushReason::LaptopTimer, now));
            wake.sort_unstable();
            wake.dedup();
        }
        wake
    }

    fn count_wakeup(&mut self, reason: FlushReason) {
        self.wakeups[reason as usize] += 1;
    }

    /// Wake-ups of flushers for `reason` since the start.
    pub fn wakeups(&self, reason: FlushReason) -> u64 {
        self.wakeups[reason as usize]
    }

    /// Checks the invariants of every wb; panics where one is broken.
    pub fn check(&self) {
        for wb in &self.wbs {
            wb.check();
        }
    }
}
