//! The state of the model: one table of pages, and of each memcg what its generations and its controller count.

use super::rules::{On, Page, Rules};
use crate::host::{Made, Name, BATCH};
use std::collections::{BTreeMap, BTreeSet};

/// What is remembered of a page that was evicted.
#[derive(Clone, Debug)]
pub(super) struct Evicted {
    pub(super) min: u64,
    pub(super) low: u64,
    pub(super) workingset: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tier {
    pub(super) refaulted: u64,
    pub(super) total: u64,
    pub(super) old_refaulted: u64,
    pub(super) old_total: u64,
}

/// Counters of a memcg; those with two entries are by type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) refaults: [i64; 2],
    pub(super) activated_refaults: [i64; 2],
    pub(super) restored: [i64; 2],
    pub(super) scanned: [i64; 2],
    pub(super) stolen: [i64; 2],
    pub(super) sorted: i64,
    pub(super) activated: i64,
    pub(super) rotated: i64,
    pub(super) low_events: i64,
}

pub(super) struct Group {
    pub(super) made: Made,
    pub(super) offline: bool,
    /// Pages in memory, without those below.
    pub(super) pages: u64,
    pub(super) min: [u64; 2],
    pub(super) max: u64,
    pub(super) tiers: [[Tier; 4]; 2],
    pub(super) counts: Counts,
    /// Effective min and low, as of the last visit.
    pub(super) granted: [u64; 2],
    /// Where the shared walk of its limit stands.
    pub(super) walk: Option<usize>,
    pub(super) swappiness: u64,
    pub(super) swap_max: u64,
    pub(super) swap_used: u64,
    pub(super) walker: super::aging::Walker,
}

/// The lists of a CPU that wait to be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wait {
    Add,
    Rotate,
    Activate,
}

pub(crate) struct Model {
    pub(super) rules: Rules,
    pub(super) groups: Vec<Group>,
    pub(super) pages: BTreeMap<Name, Page>,
    pub(super) gone: BTreeMap<Name, Evicted>,
    pub(super) batches: Vec<(usize, Wait, Name)>,
    stamp: i64,
    /// Pages of each type in an address space.
    pub(super) span: u32,
    pub(super) victims: Vec<Name>,
    /// Swap pages: free, and in all.
    pub(super) swap: [u64; 2],
    /// What is written to swap has been written when the call returns.
    pub(super) fast_swap: bool,
    /// Names of evicted pages that hold a slot.
    pub(super) swapped: BTreeSet<Name>,
    /// Counts of the machine: scanned and freed by who asked, and sorted.
    pub(super) machine: ([[i64; 2]; 3], i64),
    /// How often each rule has been at work.
    pub(super) seen: BTreeMap<&'static str, u64>,
    /// The order of memcgs in root reclaim.
    pub(super) order: super::root::Order,
}

impl Model {
    pub(super) fn new(preset: &str, made: Vec<Made>, seed: u64) -> Self {
        let groups = made.into_iter().map(|made| Group {
            made,
            offline: false,
            pages: 0,
            min: [0; 2],
            max: 3,
            tiers: Default::default(),
            counts: Counts::default(),
            granted: [0; 2],
            walk: None,
            swappiness: 60,
            swap_max: u64::MAX,
            swap_used: 0,
            walker: super::aging::Walker::default(),
        });
        let groups: Vec<_> = groups.collect();
        Model {
            rules: Rules::of(preset),
            order: super::root::Order::new(seed, groups.len()),
            groups,
            pages: BTreeMap::new(),
            gone: BTreeMap::new(),
            batches: Vec::new(),
            stamp: 0,
            span: 0,
            victims: Vec::new(),
            swap: [0; 2],
            fast_swap: true,
            swapped: BTreeSet::new(),
            machine: Default::default(),
            seen: BTreeMap::new(),
        }
    }

    pub(super) fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// A memcg and its ancestors.
    pub(super) fn path(&self, g: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(g), |&g| self.groups[g].made.parent)
    }

    pub(super) fn usage(&self, g: usize) -> u64 {
        let below = |&k: &usize| self.path(k).any(|k| k == g);
        let inside = (0..self.groups.len()).filter(below);
        inside.map(|k| self.groups[k].pages).sum()
    }

    pub(super) fn own(&self, g: usize) -> impl Iterator<Item = (&Name, &Page)> {
        self.pages.range((g, 0)..(g + 1, 0))
    }

    /// Pages on the list of a generation, the next victim first.
    pub(super) fn list(&self, g: usize, kind: usize, seq: u64) -> Vec<Name> {
        let mut on: Vec<_> = self
            .own(g)
            .filter(|(_, p)| p.kind() == kind)
            .filter_map(|(&n, p)| p.on.filter(|on| on.list == seq).map(|on| (on.at, n)))
            .collect();
        on.sort_unstable();
        on.into_iter().map(|(_, n)| n).collect()
    }

    /// Pages that belong to a generation.
    pub(super) fn size(&self, g: usize, kind: usize, seq: u64) -> u64 {
        let of = |p: &Page| p.kind() == kind && p.on.is_some_and(|on| on.gen == seq);
        self.own(g).filter(|(_, p)| of(p)).count() as u64
    }

    /// Pages of a type as statistics have them: inactive, and active, which are those of the two youngest generations.
    pub(super) fn lists(&self, g: usize, kind: usize) -> [u64; 2] {
        let max = self.groups[g].max;
        let mut lists = [0; 2];
        for on in self
            .own(g)
            .filter_map(|(_, p)| p.on.filter(|_| p.kind() == kind))
        {
            lists[usize::from(on.gen == max || on.gen + 1 == max)] += 1;
        }
        lists
    }

    pub(super) fn put(&mut self, name: Name, seq: u64, newest: bool) {
        self.stamp += 1;
        let at = if newest { self.stamp } else { -self.stamp };
        let (gen, list) = (seq, seq);
        self.pages.get_mut(&name).unwrap().on = Some(On { gen, list, at });
    }

    /// The generation that a page would enter.
    pub(super) fn entry(&self, name: Name, rotated: bool) -> u64 {
        let (g, p) = (&self.groups[name.0], &self.pages[&name]);
        let in_use = p.workingset || (self.rules.since_72 && p.refs > 0);
        let distance = if p.active {
            2 - u64::from(p.workingset)
        } else if rotated {
            4
        } else if (p.anon && !p.slot) || (p.reclaim && (p.dirty || p.writeback)) {
            2
        } else {
            4 - u64::from(in_use)
        };
        (g.max + 1).saturating_sub(distance).max(g.min[p.kind()])
    }

    pub(super) fn insert(&mut self, name: Name, rotated: bool) {
        let seq = self.entry(name, rotated);
        self.pages.get_mut(&name).unwrap().active = false;
        self.put(name, seq, !rotated);
    }

    // ------------------------------------------------------------ batches

    pub(super) fn queue(&mut self, cpu: usize, wait: Wait, name: Name) {
        self.batches.push((cpu, wait, name));
        let of = |b: &&(usize, Wait, Name)| (b.0, b.1) == (cpu, wait);
        if self.batches.iter().filter(of).count() == BATCH {
            self.drain(cpu, wait);
        }
    }

    fn drain(&mut self, cpu: usize, wait: Wait) {
        let (now, left) = std::mem::take(&mut self.batches)
            .into_iter()
            .partition(|b: &(usize, Wait, Name)| (b.0, b.1) == (cpu, wait));
        self.batches = left;
        for (.., name) in now {
            // What has been isolated meanwhile is left alone.
            if wait != Wait::Add && self.pages[&name].on.is_none() {
                continue;
            }
            let counts = &mut self.groups[name.0].counts;
            match wait {
                Wait::Add => self.insert(name, false),
                Wait::Rotate => {
                    counts.rotated += 1;
                    self.pages.get_mut(&name).unwrap().active = false;
                    self.insert(name, true);
                }
                Wait::Activate => {
                    counts.activated += 1;
                    self.pages.get_mut(&name).unwrap().active = true;
                    self.insert(name, false);
                }
            }
        }
    }

    pub(super) fn drain_cpu(&mut self, cpu: usize) {
        for wait in [Wait::Add, Wait::Rotate, Wait::Activate] {
            self.drain(cpu, wait);
        }
    }

    // ------------------------------------------------------------ what programs do

    /// A page comes into memory: by a read, or by a fault that maps it.
    pub(super) fn bring_in(&mut self, cpu: usize, name: Name, mut page: Page) {
        let fault = page.mapped;
        if let Some(e) = self.gone.remove(&name) {
            self.refault(&mut page, name.0, &e, fault);
        }
        if self.swapped.remove(&name) {
            self.give_slot_back(name.0);
        }
        if fault {
            if !self.rules.since_72 || page.workingset {
                page.active = true;
            } else {
                (page.refs, page.hidden) = (1, 0);
            }
        }
        self.pages.insert(name, page);
        self.groups[name.0].pages += 1;
        self.queue(cpu, Wait::Add, name);
    }

    fn refault(&mut self, page: &mut Page, g: usize, e: &Evicted, fault: bool) {
        let (kind, since_72) = (page.kind(), self.rules.since_72);
        let g = &mut self.groups[g];
        g.counts.refaults[kind] += 1;
        if g.max - e.min >= 4 {
            self.saw("late refault");
            return;
        }
        let was = Page {
            refs: e.low + 1,
            workingset: e.workingset,
            ..Page::default()
        };
        g.tiers[kind][was.tier()].refaulted += 1;
        if fault && (e.workingset || !since_72) {
            g.counts.activated_refaults[kind] += 1;
        }
        if e.workingset {
            page.workingset = true;
            g.counts.restored[kind] += 1;
            self.saw("restored");
        } else {
            page.hidden = e.low;
        }
    }

    /// A write has ended.
    pub(super) fn written(&mut self, cpu: usize, name: Name) {
        let p = self.pages.get_mut(&name).unwrap();
        p.writeback = false;
        if std::mem::take(&mut p.reclaim) && p.on.is_some() && !p.dirty {
            self.queue(cpu, Wait::Rotate, name);
        }
    }

    /// A page leaves memory.
    pub(super) fn remove(&mut self, name: Name) -> Option<Page> {
        let page = self.pages.remove(&name);
        self.groups[name.0].pages -= u64::from(page.is_some());
        page
    }

    // ------------------------------------------------------------ swap

    /// Swap pages that a memcg could still use.
    pub(super) fn swap_left(&self, g: usize) -> u64 {
        let room = |k: usize| {
            let k = &self.groups[k];
            k.swap_max.saturating_sub(k.swap_used)
        };
        self.path(g).map(room).min().unwrap().min(self.swap[0])
    }

    pub(super) fn take_slot(&mut self, g: usize) -> bool {
        let room = self.swap_left(g) > 0;
        if room {
            let path: Vec<_> = self.path(g).collect();
            path.into_iter().for_each(|k| self.groups[k].swap_used += 1);
            self.swap[0] -= 1;
        }
        room
    }

    pub(super) fn give_slot_back(&mut self, g: usize) {
        let path: Vec<_> = self.path(g).collect();
        path.into_iter().for_each(|k| self.groups[k].swap_used -= 1);
        self.swap[0] += 1;
    }

    /// Swap is more than half full, or that of a memcg above.
    pub(super) fn swap_is_full(&self, g: usize) -> bool {
        let full = |k: usize| {
            let k = &self.groups[k];
            k.swap_max != u64::MAX && k.swap_used * 2 >= k.swap_max
        };
        self.swap[0] * 2 < self.swap[1] || self.path(g).any(full)
    }
}
