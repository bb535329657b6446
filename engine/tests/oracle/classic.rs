//! Limit reclaim of classic lists, victim by victim (`docs/rules/classic.md`, `workingset.md`, `memcg.md`,
//! `batches.md`): file pages of a tree of memcgs, read through descriptors or mapped, clean or dirty.
//!
//! The model is one table of pages. A list is what the table says about a page, its order a stamp; sizes are
//! counted when they are needed. A refault distance is the number of entries in a log of evictions and activations.

use crate::host::{Host, Name, BATCH, CPUS};
use crate::protection::part;
use crate::Rng;
use coldset_engine::lruvec::LruList;
use coldset_engine::reclaim::References;
use coldset_engine::{Counter, Flags, NodeId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Page {
    active: bool,
    referenced: bool,
    workingset: bool,
    reclaim: bool,
    dirty: bool,
    mapped: bool,
    /// Accessed bit of the page-table entry.
    young: bool,
    exec: bool,
    /// Place on its list: the largest is the newest. None: it waits in an add batch.
    stamp: Option<i64>,
}

/// What a shadow says, in the model's words.
#[derive(Clone, Debug)]
struct Evicted {
    /// Whose limit it was.
    target: usize,
    /// Length of the target's log just before.
    at: usize,
    workingset: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Add,
    Rotate,
    Activate,
}

#[derive(Default)]
struct Group {
    parent: Option<usize>,
    low: u64,
    min: u64,
    /// Each tick of the clock: an eviction or an activation.
    log: Vec<&'static str>,
    refaults: [i64; 3],
    scanned: i64,
    low_events: i64,
    /// Effective min and low, as of the last visit.
    granted: [u64; 2],
    /// As of the last fold, with all below it: inactive, active, refaults activated.
    folded: [i64; 3],
    /// Refaults activated at the end of the last reclaim.
    snapshot: i64,
    /// Where the shared walk of this root stands, and how many cycles it has made.
    walk: (Option<usize>, u64),
}

/// One request.
struct Request {
    target: usize,
    want: u64,
    freed: u64,
    priority: u32,
    full: bool,
    force: bool,
    low: bool,
    deactivate: bool,
    spared: bool,
    low_skipped: bool,
}

#[derive(Default)]
struct Model {
    groups: Vec<Group>,
    pages: BTreeMap<Name, Page>,
    gone: BTreeMap<Name, Evicted>,
    batches: Vec<(usize, Op, Name)>,
    newest: i64,
    oldest: i64,
    victims: Vec<Name>,
}

impl Model {
    fn path(&self, g: usize) -> Vec<usize> {
        std::iter::successors(Some(g), |&g| self.groups[g].parent).collect()
    }

    fn within(&self, g: usize, root: usize) -> bool {
        self.path(g).contains(&root)
    }

    fn tick(&mut self, g: usize, why: &'static str) {
        for k in self.path(g) {
            self.groups[k].log.push(why);
        }
    }

    fn list(&self, g: usize, active: bool) -> Vec<Name> {
        let mut on: Vec<_> = self
            .pages
            .iter()
            .filter(|(n, p)| n.0 == g && p.active == active && p.stamp.is_some())
            .map(|(&n, p)| (p.stamp, n))
            .collect();
        on.sort_unstable();
        on.into_iter().map(|(_, n)| n).collect()
    }

    fn usage(&self, g: usize) -> u64 {
        self.pages.keys().filter(|n| self.within(n.0, g)).count() as u64
    }

    fn put_newest(&mut self, name: Name) {
        self.newest += 1;
        self.pages.get_mut(&name).unwrap().stamp = Some(self.newest);
    }

    // ------------------------------------------------------------ batches

    fn queue(&mut self, cpu: usize, op: Op, name: Name) {
        self.batches.push((cpu, op, name));
        if self
            .batches
            .iter()
            .filter(|b| (b.0, b.1) == (cpu, op))
            .count()
            == BATCH
        {
            self.drain(cpu, op);
        }
    }

    fn drain(&mut self, cpu: usize, op: Op) {
        let (now, left) = std::mem::take(&mut self.batches)
            .into_iter()
            .partition(|b: &(usize, Op, Name)| (b.0, b.1) == (cpu, op));
        self.batches = left;
        for (_, _, name) in now {
            match op {
                Op::Add => self.put_newest(name),
                Op::Rotate => {
                    self.oldest -= 1;
                    let p = self.pages.get_mut(&name).unwrap();
                    (p.active, p.stamp) = (false, Some(self.oldest));
                }
                Op::Activate if self.pages[&name].active => {}
                Op::Activate => {
                    self.pages.get_mut(&name).unwrap().active = true;
                    self.put_newest(name);
                }
            }
        }
    }

    fn drain_cpu(&mut self, cpu: usize) {
        for op in [Op::Add, Op::Rotate, Op::Activate] {
            self.drain(cpu, op);
        }
    }

    /// Entries of batches that hold a page.
    fn held(&self, name: Name) -> bool {
        self.batches.iter().any(|b| b.2 == name)
    }

    // ------------------------------------------------------------ uses

    fn bring_in(&mut self, cpu: usize, name: Name, mapped: bool, exec: bool) {
        let mut page = Page {
            active: false,
            referenced: false,
            workingset: false,
            reclaim: false,
            dirty: false,
            mapped,
            young: mapped,
            exec,
            stamp: None,
        };
        if let Some(e) = self.gone.remove(&name) {
            self.groups[name.0].refaults[0] += 1;
            let t = &self.groups[e.target];
            if (t.log.len() - e.at) as i64 <= t.folded[1] {
                page.active = true;
                self.groups[name.0].refaults[1] += 1;
                self.tick(name.0, "refault");
                if e.workingset {
                    page.workingset = true;
                    self.groups[name.0].refaults[2] += 1;
                }
            }
        }
        self.pages.insert(name, page);
        self.queue(cpu, Op::Add, name);
    }

    fn mark_accessed(&mut self, cpu: usize, name: Name) {
        let queued = self.batches.contains(&(cpu, Op::Add, name));
        let p = self.pages.get_mut(&name).unwrap();
        if !p.referenced {
            p.referenced = true;
        } else if !p.active {
            p.referenced = false;
            if p.stamp.is_some() {
                self.queue(cpu, Op::Activate, name);
            } else if queued {
                p.active = true;
            }
            self.tick(name.0, "second access");
        }
    }

    /// Writeback of a page has come to its end.
    fn written(&mut self, cpu: usize, name: Name) {
        let p = self.pages.get_mut(&name).unwrap();
        p.dirty = false;
        if std::mem::take(&mut p.reclaim) && p.stamp.is_some() {
            self.queue(cpu, Op::Rotate, name);
        }
    }

    fn fold(&mut self) {
        for g in 0..self.groups.len() {
            let below: Vec<_> = (0..self.groups.len())
                .filter(|&k| self.within(k, g))
                .collect();
            let size = |active| {
                below
                    .iter()
                    .map(|&k| self.list(k, active).len() as i64)
                    .sum()
            };
            let activated = below.iter().map(|&k| self.groups[k].refaults[1]).sum();
            self.groups[g].folded = [size(false), size(true), activated];
        }
    }

    // ------------------------------------------------------------ reclaim

    /// Effective min and low of `g`. A shared walk may begin below its parent: what the parent was granted is then
    /// what it was when it was last visited, for whatever target.
    fn protect(&mut self, g: usize, target: usize) {
        let parent = self.groups[g].parent.unwrap();
        for x in 0..2 {
            let set = |k: usize| [self.groups[k].min, self.groups[k].low][x];
            let claim = |k: usize| self.usage(k).min(set(k));
            let siblings = |&k: &usize| self.groups[k].parent == Some(parent);
            let claims: u64 = (0..self.groups.len()).filter(siblings).map(claim).sum();
            let granted = self.groups[parent].granted[x];
            self.groups[g].granted[x] = if parent == target {
                set(g)
            } else {
                let usage = [self.usage(parent), self.usage(g)];
                part(granted, claims, claim(g), usage)
            };
        }
    }

    /// The memcg behind `pos` in the walk of `root`: parents first, then children in order of creation.
    fn behind(&self, root: usize, pos: Option<usize>) -> Option<usize> {
        fn visit(m: &Model, g: usize, order: &mut Vec<usize>) {
            order.push(g);
            for k in 0..m.groups.len() {
                if m.groups[k].parent == Some(g) {
                    visit(m, k, order);
                }
            }
        }
        let mut order = Vec::new();
        visit(self, root, &mut order);
        match pos {
            None => order.first().copied(),
            Some(p) => order.iter().skip_while(|&&g| g != p).nth(1).copied(),
        }
    }

    fn reclaim(&mut self, target: usize, want: u64) -> u64 {
        let mut q = Request {
            target,
            want,
            freed: 0,
            priority: 12,
            full: false,
            force: false,
            low: false,
            deactivate: false,
            spared: false,
            low_skipped: false,
        };
        loop {
            for priority in (0..=12).rev() {
                q.priority = priority;
                self.round(&mut q);
                if q.freed >= q.want {
                    break;
                }
            }
            self.groups[target].snapshot = self.groups[target].folded[2];
            if q.freed > 0 {
                return q.freed;
            }
            if !q.full {
                q.full = true;
            } else if q.spared {
                (q.force, q.spared) = (true, false);
            } else if q.low_skipped {
                (q.force, q.low, q.low_skipped) = (false, true, false);
            } else {
                return 0;
            }
        }
    }

    fn round(&mut self, q: &mut Request) {
        let t = &self.groups[q.target];
        let [inactive, active, activated] = t.folded;
        q.deactivate = q.force || activated != t.snapshot || inactive < active;
        let (mut at, mut first) = (None, true);
        let cycle = t.walk.1;
        loop {
            if q.full {
                at = self.behind(q.target, at);
            } else {
                let (pos, cycles) = self.groups[q.target].walk;
                if !first && cycles != cycle {
                    return;
                }
                at = self.behind(q.target, pos);
                if at.is_none() {
                    self.groups[q.target].walk = (None, cycles + 1);
                    if !first {
                        return;
                    }
                    at = self.behind(q.target, None);
                }
                self.groups[q.target].walk.0 = at;
            }
            let Some(g) = at else { return };
            self.visit(q, g);
            if !q.full && q.freed >= q.want {
                return;
            }
            first = false;
        }
    }

    fn visit(&mut self, q: &mut Request, g: usize) {
        let mut guard = None;
        let usage = self.usage(g);
        if g != q.target {
            if usage == 0 {
                return;
            }
            self.protect(g, q.target);
            let [min, low] = self.groups[g].granted;
            if usage <= min {
                return;
            }
            if usage <= low {
                if !q.low {
                    q.low_skipped = true;
                    return;
                }
                self.groups[g].low_events += 1;
            }
            guard = (min.max(low) > 0).then_some(if q.low { min } else { min.max(low) });
            q.low_skipped |= !q.low && low > min;
        }
        // Sizes are taken before the first scan drains this CPU's batches.
        let mut left = [false, true].map(|active| {
            let size = self.list(g, active).len() as u64;
            let open = guard.map_or(size, |n| (size - size * n / (usage.max(n) + 1)).max(32));
            open >> q.priority
        });
        let mut freed = 0;
        while left != [0, 0] {
            for active in [false, true] {
                let n = left[usize::from(active)].min(32);
                left[usize::from(active)] -= n;
                if n == 0 {
                } else if !active {
                    freed += self.shrink_inactive(q, g, n as usize);
                } else if q.deactivate {
                    self.shrink_active(g, n as usize);
                } else {
                    q.spared = true;
                }
            }
            // Only files are scanned: what is left of them is stopped.
            if freed >= q.want {
                break;
            }
        }
        q.freed += freed;
    }

    fn shrink_inactive(&mut self, q: &Request, g: usize, n: usize) -> u64 {
        self.drain_cpu(0);
        let mut freed = 0;
        let mut back = Vec::new();
        for name in self.list(g, false).into_iter().take(n) {
            self.groups[g].scanned += 1;
            let held = self.held(name);
            let p = self.pages.get_mut(&name).unwrap();
            back.push(name);
            if p.mapped {
                let young = std::mem::take(&mut p.young);
                let before = std::mem::take(&mut p.referenced);
                if young {
                    p.referenced = true;
                    p.active = before || p.exec;
                    continue;
                }
                p.mapped = false;
            } else {
                p.referenced = false;
            }
            if p.dirty {
                (p.reclaim, p.active) = (true, true);
                continue;
            }
            if held {
                continue;
            }
            back.pop();
            let workingset = p.workingset;
            let at = self.groups[q.target].log.len();
            self.tick(q.target, "eviction");
            let target = q.target;
            self.gone.insert(
                name,
                Evicted {
                    target,
                    at,
                    workingset,
                },
            );
            self.pages.remove(&name);
            self.victims.push(name);
            freed += 1;
        }
        for name in back {
            self.put_newest(name);
            if self.pages[&name].active {
                self.tick(g, "back to active");
            }
        }
        freed
    }

    fn shrink_active(&mut self, g: usize, n: usize) {
        self.drain_cpu(0);
        let (mut stay, mut leave) = (Vec::new(), Vec::new());
        for name in self.list(g, true).into_iter().take(n) {
            let p = self.pages.get_mut(&name).unwrap();
            let young = std::mem::take(&mut p.young);
            if young && p.mapped && p.exec {
                stay.push(name);
            } else {
                (p.active, p.workingset) = (false, true);
                leave.push(name);
            }
        }
        for name in stay.iter().chain(&leave).copied() {
            self.put_newest(name);
        }
        for _ in stay {
            self.tick(g, "back to active");
        }
    }
}

/// The engine with its host, and the model beside it.
struct Pair {
    seed: u64,
    h: Host,
    m: Model,
}

impl Pair {
    fn new(seed: u64, r: &mut Rng) -> Self {
        let (h, made) = Host::new("classic", r);
        let groups = made.into_iter().map(|made| Group {
            parent: made.parent,
            min: made.min,
            low: made.low,
            ..Group::default()
        });
        let m = Model {
            groups: groups.collect(),
            ..Model::default()
        };
        Pair { seed, h, m }
    }

    fn access(&mut self, cpu: usize, name: Name, mapped: bool, exec: bool) {
        if !self.m.pages.contains_key(&name) {
            self.h.bring_in(cpu, name, mapped);
            self.m.bring_in(cpu, name, mapped, exec);
        } else if self.m.pages[&name].mapped {
            self.m.pages.get_mut(&name).unwrap().young = true;
        }
        if !self.m.pages[&name].mapped {
            self.h.eng.mark_accessed(cpu as u16, self.h.folios[&name]);
            self.m.mark_accessed(cpu, name);
        }
    }

    fn drop_page(&mut self, name: Name) {
        self.h.drop_page(name);
        for cpu in 0..CPUS {
            self.m.drain_cpu(cpu);
        }
        self.m.pages.remove(&name);
        self.m.gone.remove(&name);
    }

    /// Both reclaim: the same victims in the same order.
    fn reclaim(&mut self, target: usize, want: u64) -> usize {
        // Accessed bits before the model clears them.
        let mut pages = self.m.pages.clone();
        let (victims, freed) = self.h.reclaim(target, want, |name| {
            let p = pages.get_mut(&name).unwrap();
            References {
                accessed: u32::from(std::mem::take(&mut p.young)),
                exec: p.exec,
                ..References::default()
            }
        });
        self.m.victims.clear();
        let counted = self.m.reclaim(target, want);
        assert_eq!(victims, self.m.victims, "seed {}", self.seed);
        assert_eq!(freed, counted, "seed {}", self.seed);
        victims.len()
    }

    fn compare(&self) {
        let eng = &self.h.eng;
        for (name, p) in &self.m.pages {
            let f = eng.folio(self.h.folios[name]);
            let flags = [
                (Flags::ACTIVE, p.active),
                (Flags::REFERENCED, p.referenced),
                (Flags::WORKINGSET, p.workingset),
                (Flags::RECLAIM, p.reclaim),
                (Flags::DIRTY, p.dirty),
                (Flags::LRU, p.stamp.is_some()),
            ];
            for (flag, set) in flags {
                assert_eq!(f.has(flag), set, "{name:?} {flag:?}: {p:?}");
            }
            assert_eq!(f.mapped(), p.mapped, "{name:?}");
        }
        assert_eq!(eng.nr_folios(), self.m.pages.len());
        for (g, group) in self.m.groups.iter().enumerate() {
            let id = self.h.ids[g];
            let lruvec = eng.lruvec(eng.lruvec_id(id, NodeId(0)));
            assert_eq!(
                lruvec.workingset.clock(),
                group.log.len() as u64,
                "clock of {g}"
            );
            let sizes = [LruList::InactiveFile, LruList::ActiveFile].map(|l| lruvec.size_all(l));
            let want = [false, true].map(|active| self.m.list(g, active).len() as u64);
            assert_eq!(sizes, want, "lists of {g}");
            let stat = eng.memcgs.local(id);
            let refaults = [
                Counter::RefaultFile,
                Counter::ActivateFile,
                Counter::RestoreFile,
            ]
            .map(|c| stat.get(c));
            assert_eq!(refaults, group.refaults, "refaults of {g}");
            assert_eq!(
                stat.get(Counter::PgscanDirect),
                group.scanned,
                "pgscan of {g}"
            );
            assert_eq!(stat.get(Counter::EventsLow), group.low_events, "low of {g}");
            if g > 0 {
                let usage = eng.memcgs.get(id).unwrap().memory().usage();
                assert_eq!(usage, self.m.usage(g), "usage of {g}");
            }
        }
    }
}

#[test]
fn limit_reclaim_takes_the_victims_of_the_model() {
    let (mut victims, mut refaults, mut low) = (0, [0; 3], 0);
    let mut ticks: BTreeSet<&str> = BTreeSet::new();
    // In the last one a walk begins below a parent whose grant is an old one, and it matters.
    for seed in (27..36).chain([59]) {
        let r = &mut Rng(seed);
        let mut p = Pair::new(seed, r);
        let pages = 20 + r.below(300);
        for _ in 0..1500 {
            let cpu = usize::from(r.one_in(4));
            // Skewed: low numbers are used often.
            let index = r.below(pages).min(r.below(pages)) as u32;
            let name = (1 + r.below(6) as usize, index);
            match r.below(100) {
                0 => {
                    p.h.eng.memcgs.fold();
                    p.m.fold();
                }
                1..=2 => p.drop_page(name),
                3..=6 => {
                    if let Some(page) = p.m.pages.get_mut(&name) {
                        page.dirty = true;
                        p.h.eng.set_dirty(p.h.folios[&name]);
                    }
                }
                7..=10 => {
                    if p.h.write(cpu, name) {
                        p.m.written(cpu, name);
                    }
                }
                11..=14 => {
                    victims += p.reclaim(name.0, 1 + r.below(80));
                    p.compare();
                }
                _ => p.access(cpu, name, index.is_multiple_of(5), index.is_multiple_of(10)),
            }
        }
        p.compare();
        p.h.eng.check();
        for g in &p.m.groups {
            (0..3).for_each(|i| refaults[i] += g.refaults[i]);
            low += g.low_events;
            ticks.extend(g.log.iter());
        }
    }
    // All rules have been at work.
    assert!(victims > 5000 && low >= 5, "{victims} {low}");
    assert!(
        refaults[0] > 2 * refaults[1] && refaults[2] > 50,
        "{refaults:?}"
    );
    assert_eq!(ticks.len(), 4, "{ticks:?}");
}
