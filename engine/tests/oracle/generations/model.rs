//! The state of the model: one table of pages, and of each memcg what its generations and its controller count.

use super::batches::Wait;
use super::root::Order;
use super::rules::{On, Page, Rules};
use crate::host::{Made, Name};
use std::collections::{BTreeMap, BTreeSet};

/// What is remembered of a page that was evicted.
#[derive(Clone, Debug)]
pub(super) struct Evicted {
    pub(super) from: At,
    pub(super) min: u64,
    pub(super) low: u64,
    pub(super) workingset: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    pub(super) culled: i64,
    pub(super) rescued: i64,
    pub(super) low_events: i64,
}

pub(super) struct Group {
    pub(super) made: Made,
    pub(super) offline: bool,
    /// Pages in memory, without those below.
    pub(super) pages: u64,
    pub(super) counts: Counts,
    /// Effective min and low, as of the last visit.
    pub(super) granted: [u64; 2],
    pub(super) swappiness: u64,
    pub(super) swap_max: u64,
    pub(super) swap_used: u64,
}

/// A memcg on a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct At {
    pub(super) g: usize,
    pub(super) node: usize,
}

/// What a memcg has on a node.
pub(super) struct Lruvec {
    pub(super) min: [u64; 2],
    pub(super) max: u64,
    /// When each generation was opened.
    pub(super) born: BTreeMap<u64, u64>,
    pub(super) tiers: [[Tier; 4]; 2],
    /// Where the shared walk of its limit stands.
    pub(super) walk: Option<usize>,
    pub(super) walker: super::aging::Walker,
}

impl Lruvec {
    fn new() -> Self {
        Lruvec {
            min: [0; 2],
            max: 3,
            born: (0..4).map(|seq| (seq, 0)).collect(),
            tiers: Default::default(),
            walk: None,
            walker: super::aging::Walker::default(),
        }
    }
}

pub(crate) struct Model {
    pub(super) rules: Rules,
    pub(super) groups: Vec<Group>,
    /// By memcg and node.
    lruvecs: Vec<Vec<Lruvec>>,
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
    /// Nanoseconds, and for how many of them a working set is protected.
    pub(super) now: u64,
    pub(super) min_ttl: u64,
    /// How often each rule has been at work.
    pub(super) seen: BTreeMap<&'static str, u64>,
    /// The order of memcgs in root reclaim, by node.
    pub(super) orders: Vec<Order>,
}

impl Model {
    pub(super) fn new(preset: &str, made: Vec<Made>, seed: u64, nodes: usize) -> Self {
        let groups = made.into_iter().map(|made| Group {
            made,
            offline: false,
            pages: 0,
            counts: Counts::default(),
            granted: [0; 2],
            swappiness: 60,
            swap_max: u64::MAX,
            swap_used: 0,
        });
        let groups: Vec<_> = groups.collect();
        Model {
            rules: Rules::of(preset),
            orders: (0..nodes as u64)
                .map(|node| Order::new(seed + node, groups.len()))
                .collect(),
            lruvecs: groups
                .iter()
                .map(|_| (0..nodes).map(|_| Lruvec::new()).collect())
                .collect(),
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
            now: 0,
            min_ttl: 0,
            seen: BTreeMap::new(),
        }
    }

    pub(super) fn lruvec(&self, v: At) -> &Lruvec {
        &self.lruvecs[v.g][v.node]
    }

    pub(super) fn lruvec_mut(&mut self, v: At) -> &mut Lruvec {
        &mut self.lruvecs[v.g][v.node]
    }

    pub(super) fn nodes(&self) -> usize {
        self.orders.len()
    }

    /// Where a page in memory belongs.
    pub(super) fn of(&self, name: Name) -> At {
        let node = self.pages[&name].node;
        At { g: name.0, node }
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

    pub(super) fn own(&self, v: At) -> impl Iterator<Item = (&Name, &Page)> {
        let of = self.pages.range((v.g, 0)..(v.g + 1, 0));
        of.filter(move |(_, p)| p.node == v.node)
    }

    fn listed(&self, v: At, kind: usize, seq: u64) -> impl Iterator<Item = (i64, Name)> + '_ {
        self.own(v).filter_map(move |(&n, p)| {
            let on = p.on.filter(|on| on.list == seq && p.kind() == kind);
            on.map(|on| (on.at, n))
        })
    }

    pub(super) fn list_is_empty(&self, v: At, kind: usize, seq: u64) -> bool {
        self.listed(v, kind, seq).next().is_none()
    }

    /// Up to `n` pages on the list of a generation, the next victim first.
    pub(super) fn list(&self, v: At, kind: usize, seq: u64, n: usize) -> Vec<Name> {
        let mut on: Vec<_> = self.listed(v, kind, seq).collect();
        if n < on.len() {
            on.select_nth_unstable(n);
            on.truncate(n);
        }
        on.sort_unstable();
        on.into_iter().map(|(_, name)| name).collect()
    }

    /// Pages that belong to each generation, by type and number.
    pub(super) fn sizes(&self, v: At) -> BTreeMap<(usize, u64), u64> {
        let mut sizes = BTreeMap::new();
        for (_, p) in self.own(v) {
            if let Some(on) = p.on {
                *sizes.entry((p.kind(), on.gen)).or_insert(0) += p.size();
            }
        }
        sizes
    }

    /// Pages of a type as statistics have them: inactive, and active, which are those of the two youngest generations.
    pub(super) fn lists(&self, v: At, kind: usize) -> [u64; 2] {
        let max = self.lruvec(v).max;
        let mut lists = [0; 2];
        for (_, p) in self.own(v).filter(|(_, p)| p.kind() == kind) {
            if let Some(on) = p.on {
                lists[usize::from(on.gen == max || on.gen + 1 == max)] += p.size();
            }
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
        let (l, p) = (self.lruvec(self.of(name)), &self.pages[&name]);
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
        (l.max + 1).saturating_sub(distance).max(l.min[p.kind()])
    }

    pub(super) fn insert(&mut self, name: Name, rotated: bool) {
        let seq = self.entry(name, rotated);
        self.pages.get_mut(&name).unwrap().active = false;
        self.put(name, seq, !rotated);
    }

    // ------------------------------------------------------------ what programs do

    /// A page comes into memory: by a read, or by a fault that maps it.
    pub(super) fn bring_in(&mut self, cpu: usize, name: Name, mut page: Page) {
        let fault = page.mapped;
        if let Some(e) = self.gone.remove(&name) {
            let v = At {
                g: name.0,
                node: page.node,
            };
            self.refault(&mut page, v, &e, fault);
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
        self.groups[name.0].pages += page.size();
        self.pages.insert(name, page);
        self.queue(cpu, Wait::Add, name);
    }

    fn refault(&mut self, page: &mut Page, v: At, e: &Evicted, fault: bool) {
        if e.from != v {
            let other_memcg = e.from.g != v.g;
            self.saw(if other_memcg {
                "back in another memcg"
            } else {
                "back on another node"
            });
            return;
        }
        let (kind, since_72) = (page.kind(), self.rules.since_72);
        let n = page.size();
        if n > 1 {
            self.saw("large, back");
        }
        let (g, l) = (&mut self.groups[v.g], &mut self.lruvecs[v.g][v.node]);
        g.counts.refaults[kind] += n as i64;
        if l.max - e.min >= 4 {
            self.saw("late refault");
            return;
        }
        let was = Page {
            refs: e.low + 1,
            workingset: e.workingset,
            ..Page::default()
        };
        l.tiers[kind][was.tier()].refaulted += n;
        if fault && (e.workingset || !since_72) {
            g.counts.activated_refaults[kind] += n as i64;
        }
        if e.workingset {
            page.workingset = true;
            g.counts.restored[kind] += n as i64;
            self.saw("restored");
        } else {
            page.hidden = e.low;
        }
    }

    /// A write has ended.
    pub(super) fn written(&mut self, cpu: usize, name: Name) {
        let p = self.pages.get_mut(&name).unwrap();
        p.writeback = false;
        if std::mem::take(&mut p.reclaim) && p.on.is_some() && !p.dirty && !p.locked {
            self.queue(cpu, Wait::Rotate, name);
        }
    }

    /// A page leaves memory.
    pub(super) fn remove(&mut self, name: Name) -> Option<Page> {
        let page = self.pages.remove(&name);
        self.groups[name.0].pages -= page.as_ref().map_or(0, |p| p.size());
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
