//! A write context: the dirty inodes of one device (and memcg), their counts, and what its flusher
//! has to do (`docs/rules/writeback.md`).
//!
//! A dirty inode is on exactly one of three lists, or is being written. A list is a map from an
//! ever-growing key to the inode: appending, popping the front and removing from the middle are all
//! cheap, and the order is the order of arrival.

use super::bandwidth::{Estimate, Progress};
use super::fraction::Window;
use super::params::DirtyParams;
use super::work::{FlushReason, Slice, Work};
use crate::ids::{MemcgId, Nanos, ObjectId, Pages};
use std::collections::{BTreeMap, VecDeque};

/// A block device as the host numbers it. All wbs of a device share its bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceId(pub u32);

/// Where a dirty inode is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodePlace {
    /// Waiting, in order of first dirtying.
    Dirty,
    /// Picked for the running work.
    Io,
    /// Its slice was used up; goes first when the next round is picked.
    MoreIo,
    /// The flusher is writing it.
    Writing,
}

/// A dirty inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirtyInode {
    /// Its dirty pages.
    pub pages: Pages,
    /// When it first became dirty, or was put back after writing.
    pub since: Nanos,
    /// Which list it is on.
    pub place: InodePlace,
    key: u64,
}

/// A list of inodes in order of arrival.
pub(super) type InodeList = BTreeMap<u64, ObjectId>;

/// A write context.
#[derive(Clone, Debug)]
pub struct Wb {
    /// Device it writes to.
    pub(super) device: DeviceId,
    /// Its memcg; [`MemcgId::ROOT`] without cgroup writeback.
    pub(super) memcg: MemcgId,
    /// Dirty pages (RECLAIMABLE).
    pub(super) reclaimable: Pages,
    /// Pages under writeback (WRITEBACK).
    pub(super) writeback: Pages,
    /// Pages dirtied since creation (DIRTIED).
    pub(super) dirtied: Pages,
    /// Pages written since creation (WRITTEN).
    pub(super) written: Pages,
    /// The wb and a domain are above their thresholds: dirtiers look more often.
    pub(super) dirty_exceeded: bool,
    /// Bandwidth and ratelimit.
    pub(super) estimate: Estimate,
    /// Least share of a domain's threshold, percent.
    pub(super) min_ratio: u64,
    /// Greatest share of a domain's threshold, percent.
    pub(super) max_ratio: u64,
    pub(super) completions: Window,
    pub(super) memcg_completions: Window,
    pub(super) inodes: BTreeMap<ObjectId, DirtyInode>,
    pub(super) b_dirty: InodeList,
    pub(super) b_io: InodeList,
    pub(super) b_more_io: InodeList,
    next_key: u64,
    /// Explicit works in order of request.
    pub(super) works: VecDeque<Work>,
    /// "Write everything" is asked for.
    pub(super) start_all: Option<FlushReason>,
    /// Dirtiers asked for background writeback.
    pub(super) background: bool,
    /// The periodic pass is due.
    pub(super) periodic_due: bool,
    pub(super) periodic_at: Option<Nanos>,
    pub(super) bandwidth_at: Option<Nanos>,
    pub(super) running: Option<Work>,
    pub(super) current: Option<Slice>,
}

impl Wb {
    pub(super) fn new(device: DeviceId, memcg: MemcgId, params: &DirtyParams) -> Self {
        Self {
            device,
            memcg,
            reclaimable: 0,
            writeback: 0,
            dirtied: 0,
            written: 0,
            dirty_exceeded: false,
            estimate: Estimate::new(params),
            min_ratio: 0,
            max_ratio: 100,
            completions: Window::default(),
            memcg_completions: Window::default(),
            inodes: BTreeMap::new(),
            b_dirty: InodeList::new(),
            b_io: InodeList::new(),
            b_more_io: InodeList::new(),
            next_key: 0,
            works: VecDeque::new(),
            start_all: None,
            background: false,
            periodic_due: false,
            periodic_at: None,
            bandwidth_at: None,
            running: None,
            current: None,
        }
    }

    /// Its memcg; [`MemcgId::ROOT`] without cgroup writeback.
    pub fn memcg(&self) -> MemcgId {
        self.memcg
    }

    /// Dirty pages and pages under writeback of the wb.
    pub fn dirty(&self) -> Pages {
        self.reclaimable + self.writeback
    }

    /// True if nothing is asked of the flusher and it does nothing.
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && !self.has_request()
    }

    /// True if something is asked of the flusher beyond what it runs.
    pub fn has_request(&self) -> bool {
        !self.works.is_empty() || self.start_all.is_some() || self.background || self.periodic_due
    }

    /// The work the flusher runs now, if any.
    pub fn running(&self) -> Option<FlushReason> {
        self.running.as_ref().map(|w| w.reason)
    }

    /// Number of dirty inodes.
    pub fn dirty_inodes(&self) -> usize {
        self.inodes.len()
    }

    /// A dirty inode's state, or `None` if it is clean.
    pub fn inode(&self, inode: ObjectId) -> Option<&DirtyInode> {
        self.inodes.get(&inode)
    }

    pub(crate) fn progress(&self, params: &DirtyParams, now: Nanos) -> Progress {
        Progress {
            now: params.ticks(now),
            written: self.written,
            dirtied: self.dirtied,
            in_flight: self.writeback,
        }
    }

    /// Counts `pages` newly dirty pages; true if the wb had no dirty inode before.
    pub(crate) fn inode_dirtied(&mut self, inode: ObjectId, pages: Pages, now: Nanos) -> bool {
        if let Some(i) = self.inodes.get_mut(&inode) {
            i.pages += pages;
            return false;
        }
        let first = self.inodes.is_empty();
        let fresh = DirtyInode {
            pages,
            since: now,
            place: InodePlace::Writing,
            key: 0,
        };
        self.inodes.insert(inode, fresh);
        self.put(inode, InodePlace::Dirty, now);
        first
    }

    /// Counts `pages` of the inode no longer dirty; a clean inode leaves its list, unless it is
    /// being written.
    pub(crate) fn inode_cleaned(&mut self, inode: ObjectId, pages: Pages) {
        let Some(i) = self.inodes.get_mut(&inode) else {
            debug_assert!(false, "inode {} has no dirty pages in this wb", inode.0);
            return;
        };
        debug_assert!(
            i.pages >= pages,
            "inode {} cleaned more than it has dirty",
            inode.0
        );
        i.pages = i.pages.saturating_sub(pages);
        if i.pages == 0 && i.place != InodePlace::Writing {
            self.take(inode);
            self.inodes.remove(&inode);
        }
    }

    /// Appends an inode that is on no list to the list of `place`.
    pub(crate) fn put(&mut self, inode: ObjectId, place: InodePlace, since: Nanos) {
        let key = self.next_key;
        self.next_key += 1;
        // Tasks run a little ahead of one another; the list is in order of time all the same.
        let since = match self.b_dirty.values().next_back() {
            Some(last) if place == InodePlace::Dirty => since.max(self.inodes[last].since),
            _ => since,
        };
        let state = self
            .inodes
            .get_mut(&inode)
            .expect("a listed inode is dirty");
        debug_assert_eq!(state.place, InodePlace::Writing);
        *state = DirtyInode {
            pages: state.pages,
            since,
            place,
            key,
        };
        if let Some(list) = self.list(place) {
            list.insert(key, inode);
        }
    }

    /// Takes an inode off its list.
    pub(crate) fn take(&mut self, inode: ObjectId) {
        let state = self
            .inodes
            .get_mut(&inode)
            .expect("a listed inode is dirty");
        let (place, key) = (state.place, state.key);
        state.place = InodePlace::Writing;
        if let Some(list) = self.list(place) {
            let listed = list.remove(&key);
            debug_assert_eq!(listed, Some(inode));
        }
    }

    fn list(&mut self, place: InodePlace) -> Option<&mut InodeList> {
        match place {
            InodePlace::Dirty => Some(&mut self.b_dirty),
            InodePlace::Io => Some(&mut self.b_io),
            InodePlace::MoreIo => Some(&mut self.b_more_io),
            InodePlace::Writing => None,
        }
    }

    /// Refills b_io: b_more_io first, then what b_dirty holds from before the cut.
    pub(crate) fn queue_io(&mut self, eligible: impl Fn(Nanos) -> bool) {
        let mut picked: Vec<ObjectId> = self.b_more_io.values().copied().collect();
        let old = |inode: &&ObjectId| eligible(self.inodes[*inode].since);
        picked.extend(self.b_dirty.values().take_while(old));
        for inode in picked {
            let since = self.inodes[&inode].since;
            self.take(inode);
            self.put(inode, InodePlace::Io, since);
        }
    }

    /// Checks that lists, places and counts agree; panics where they do not (tests and samples).
    pub fn check(&self) {
        let lists = [
            (&self.b_dirty, InodePlace::Dirty),
            (&self.b_io, InodePlace::Io),
            (&self.b_more_io, InodePlace::MoreIo),
        ];
        let mut listed = 0;
        for (list, place) in lists {
            for (key, inode) in list {
                let i = &self.inodes[inode];
                assert_eq!((i.place, i.key), (place, *key), "inode {}", inode.0);
                listed += 1;
            }
        }
        let writing = self
            .inodes
            .values()
            .filter(|i| i.place == InodePlace::Writing)
            .count();
        assert_eq!(listed + writing, self.inodes.len());
        assert_eq!(writing, usize::from(self.current.is_some()));
        let pages: Pages = self.inodes.values().map(|i| i.pages).sum();
        assert_eq!(pages, self.reclaimable);
        let order: Vec<_> = self
            .b_dirty
            .values()
            .map(|i| self.inodes[i].since)
            .collect();
        assert!(order.is_sorted(), "b_dirty is in order of time");
    }
}
