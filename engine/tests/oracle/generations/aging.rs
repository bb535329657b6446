//! New generations, walks over page tables, and empty generations (`docs/rules/aging.md`).

use super::model::{At, Model, Tier};
use super::request::{Request, Who};
use super::rules::Page;
use crate::host::Name;
use std::collections::BTreeSet;

/// Entries of a page table.
pub(super) const TABLE: u32 = 128;
/// Names from here on are of anonymous memory.
pub(super) const ANON: u32 = 1 << 16;

/// Walks over the address space of a memcg's programs.
#[derive(Clone, Debug, Default)]
pub(super) struct Walker {
    /// There is one.
    pub(super) space: bool,
    /// It has run since it was last walked.
    pub(super) ran: bool,
    /// It has never been walked.
    pub(super) fresh: bool,
    /// First entries of the tables that a pass has found dense, by the parity of the pass that will read them.
    filters: [Option<BTreeSet<u32>>; 2],
    pub(super) looked_at: i64,
}

/// Types that a swappiness leaves: 0 anonymous, 1 file.
pub(super) fn types(swappiness: u64) -> std::ops::Range<usize> {
    match swappiness {
        0 => 1..2,
        201 => 0..1,
        _ => 0..2,
    }
}

/// Tables of a type in an address space of `span` pages of each.
pub(super) fn tables(kind: usize, span: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
    let base = if kind == 0 { ANON } else { 0 };
    let firsts = (0..span).step_by(TABLE as usize);
    firsts.map(move |first| base + first..base + span.min(first + TABLE))
}

/// The entries around one: 64 at most, of its table.
pub(super) fn around(index: u32, span: u32) -> std::ops::Range<u32> {
    let base = if index >= ANON { ANON } else { 0 };
    let first = (index - base) / TABLE * TABLE;
    let (start, end) = (base + first, base + span.min(first + TABLE));
    if end - start <= 64 || index < start + 32 {
        start..end.min(start + 64)
    } else if index + 32 > end {
        end - 64..end
    } else {
        index - 32..index + 32
    }
}

/// Enough of the entries are in use for the table to be walked next time.
fn dense(young: u64, entries: u64) -> bool {
    young * 8 >= entries
}

impl Model {
    /// Opens a generation.
    pub(super) fn age(&mut self, v: At, swappiness: u64) {
        self.age_looking(v, swappiness, false);
    }

    /// The same; `everywhere`: a walk looks into tables that no walk has found worth it, of who has not run.
    fn age_looking(&mut self, v: At, swappiness: u64, everywhere: bool) {
        let w = &mut self.lruvec_mut(v).walker;
        if w.space && (w.ran || w.fresh || everywhere) {
            let force = std::mem::take(&mut w.fresh) || everywhere;
            w.ran = false;
            self.walk(v, swappiness, force);
        }
        for kind in 0..2 {
            let (min, max) = (self.lruvec(v).min[kind], self.lruvec(v).max);
            if max - min < 3 {
                continue;
            }
            if types(swappiness).contains(&kind) {
                for name in self.list(v, kind, min, usize::MAX) {
                    self.force_out(name);
                }
            } else {
                // What may not be evicted stays, and belongs to the new generation now.
                if !self.list_is_empty(v, kind, min) {
                    self.saw("inverted");
                }
            }
            self.drop_below(v, kind, min + 1);
        }
        let now = self.now;
        let l = self.lruvec_mut(v);
        l.max += 1;
        l.born.insert(l.max, now);
        self.saw("aged");
    }

    /// Opens a generation on command. One that insists looks everywhere.
    pub(super) fn age_by_hand(&mut self, v: At, force: bool) {
        let q = Request::new(Who::Proactive, v.g, 0);
        let swappiness = self.swappiness(&q, v.g);
        self.saw(if force {
            "looked everywhere"
        } else {
            "aged on command"
        });
        self.age_looking(v, swappiness, force);
    }

    /// From the oldest generation to the tail of the next one, or of the one that a walk has moved it to.
    fn force_out(&mut self, name: Name) {
        let v = self.of(name);
        let min = self.lruvec(v).min[self.pages[&name].kind()];
        let p = self.pages.get_mut(&name).unwrap();
        let gen = p.on.unwrap().gen;
        let (kind, tier, n) = (p.kind(), p.tier(), p.size());
        let lazily_promoted = p.lazily_promoted();
        if !lazily_promoted {
            self.lruvec_mut(v).tiers[kind][tier].total += n;
            let large = n > 1;
            self.saw(if large {
                "large, forced out"
            } else {
                "forced out"
            });
        }
        if gen != min {
            self.saw("forced out, and promoted before");
            return self.put(name, gen, false);
        }
        self.pages.get_mut(&name).unwrap().forget_uses();
        self.put(name, min + 1, false);
    }

    fn walk(&mut self, v: At, swappiness: u64, force: bool) {
        let (g, max, span) = (v.g, self.lruvec(v).max, self.span);
        let [read, written] = [max % 2, (max + 1) % 2].map(|i| i as usize);
        self.lruvec_mut(v).walker.filters[written] = Some(BTreeSet::new());
        for table in types(swappiness).flat_map(|kind| tables(kind, span)) {
            let w = &self.lruvec(v).walker;
            let filter = w.filters[read].as_ref();
            if !(force || filter.is_none_or(|f| f.contains(&table.start))) {
                self.saw("table skipped");
                continue;
            }
            let mut young = 0;
            for index in table.clone() {
                let skips = self.rules.since_72;
                let here = |p: &Page| p.node == v.node && !(skips && p.on.is_none());
                let mapped_here = self.pages.get(&(g, index)).is_some_and(here);
                if mapped_here && self.take_young((g, index)) {
                    young += 1;
                    let joins = self.rules.exec_joins[1];
                    let p = self.pages.get_mut(&(g, index)).unwrap();
                    p.workingset |= joins && p.exec && !p.anon;
                    self.promote((g, index));
                }
            }
            let w = &mut self.lruvec_mut(v).walker;
            w.looked_at += table.len() as i64;
            if dense(young, table.len() as u64) {
                w.filters[written].as_mut().unwrap().insert(table.start);
            }
        }
    }

    /// Tests and clears the accessed bit of an entry.
    pub(super) fn take_young(&mut self, name: Name) -> bool {
        let page = self.pages.get_mut(&name).filter(|p| p.mapped);
        page.is_some_and(|p| std::mem::take(&mut p.young))
    }

    /// To the youngest generation, but for the list.
    pub(super) fn promote(&mut self, name: Name) {
        let max = self.lruvec(self.of(name)).max;
        let p = self.pages.get_mut(&name).unwrap();
        if p.refs == 0 && !p.workingset {
            // Unlike other marks this one takes up what a refault has left.
            (p.refs, p.hidden) = (p.hidden + 1, 0);
        } else if let Some(on) = &mut p.on {
            on.gen = max;
            p.forget_uses();
            p.workingset = true;
            self.saw("promoted");
        }
    }

    /// What is near an accessed entry of a victim is looked at as well.
    pub(super) fn look_around(&mut self, victim: Name, context: bool) {
        let (g, v) = (victim.0, self.of(victim));
        let window = around(victim.1, self.span);
        let mut young = 1;
        for index in window.clone().filter(|&i| i != victim.1) {
            let name = (g, index);
            let here = |p: &Page| p.on.is_some() && p.node == v.node;
            let listed = self.pages.get(&name).is_some_and(here);
            if !listed || !self.take_young(name) {
                continue;
            }
            young += 1;
            if context {
                self.saw("neighbour with a walk context");
                self.promote(name);
                continue;
            }
            let (rules, max) = (self.rules, self.lruvec(v).max);
            let p = self.pages.get_mut(&name).unwrap();
            if p.found_used(&rules) && p.on.unwrap().gen != max {
                self.queue(0, super::batches::Wait::Activate, name);
                self.saw("neighbour activated");
            }
        }
        if dense(young, window.len() as u64) {
            let l = self.lruvec_mut(v);
            if let Some(f) = &mut l.walker.filters[(l.max % 2) as usize] {
                let base = if victim.1 >= ANON { ANON } else { 0 };
                f.insert(base + (victim.1 - base) / TABLE * TABLE);
                self.saw("dense window");
            }
        }
    }

    // ------------------------------------------------------------ empty generations

    /// The oldest generation of a type is another one. Slots are numbers modulo 4: what is still in a slot below
    /// belongs to the generation that uses it next.
    fn drop_below(&mut self, v: At, kind: usize, min: u64) {
        self.lruvec_mut(v).min[kind] = min;
        let pages = self.pages.range_mut((v.g, 0)..(v.g + 1, 0));
        for (_, p) in pages.filter(|(_, p)| p.kind() == kind && p.node == v.node) {
            if let Some(on) = &mut p.on {
                on.list += if on.list < min { 4 } else { 0 };
                on.gen += if on.gen < min { 4 } else { 0 };
            }
        }
        for t in &mut self.lruvec_mut(v).tiers[kind] {
            *t = Tier {
                old_refaulted: (t.old_refaulted + t.refaulted) / 2,
                old_total: (t.old_total + t.total) / 2,
                ..Tier::default()
            };
        }
    }

    /// Empty oldest generations go, as long as two are left and the types stay near each other.
    pub(super) fn drop_empty(&mut self, v: At, swappiness: u64) -> bool {
        let (was, max) = (self.lruvec(v).min, self.lruvec(v).max);
        let mut min = was;
        for kind in types(swappiness) {
            while min[kind] + 2 <= max && self.list_is_empty(v, kind, min[kind]) {
                min[kind] += 1;
            }
        }
        if min == was {
            return false;
        }
        if types(swappiness).len() == 2 {
            let third = max - 2;
            for kind in 0..2 {
                if min[kind] > third && min[1 - kind] < third {
                    min[kind] = third;
                    self.saw("kept near the other type");
                }
            }
        }
        let mut dropped = false;
        for kind in types(swappiness) {
            if min[kind] > was[kind] {
                self.drop_below(v, kind, min[kind]);
                dropped = true;
            }
        }
        dropped
    }
}
