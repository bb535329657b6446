//! Eviction: the controller, the scan, the shrink list and what survives it (`docs/rules/eviction.md`,
//! `shrink-list.md`).

use super::aging::types;
use super::model::{Evicted, Model};
use super::request::Request;
use super::rules::Form;
use crate::host::Name;

/// What a scan of one type comes to.
#[derive(Default)]
struct Scan {
    scanned: u64,
    taken: Vec<Name>,
}

impl Model {
    /// Refaults and all that could have come back, of one tier or of all.
    fn rate(&self, g: usize, kind: usize, tiers: std::ops::Range<usize>) -> [u128; 2] {
        self.groups[g].tiers[kind][tiers]
            .iter()
            .fold([0; 2], |[r, n], t| {
                [
                    r + u128::from(t.old_refaulted + t.refaulted),
                    n + u128::from(t.old_total + t.total),
                ]
            })
    }

    /// The second comes back more often than the first, by these weights.
    fn worse(first: [u128; 2], second: [u128; 2], weights: [u64; 2]) -> bool {
        let [w1, w2] = weights.map(u128::from);
        let ([r1, n1], [r2, n2]) = (first, second);
        r2 >= 64 && r2 * (n1 + 64) * w1 > (r1 + 1) * n2 * w2
    }

    /// The highest tier that is not protected.
    fn tier_limit(&self, g: usize, kind: usize) -> usize {
        let first = self.rate(g, kind, 0..1);
        let spared = |&t: &usize| Self::worse(first, self.rate(g, kind, t..t + 1), [2, 3]);
        (1..4).find(spared).unwrap_or(4) - 1
    }

    fn first_type(&mut self, g: usize, swappiness: u64) -> usize {
        let [anon, file] = [0, 1].map(|kind| self.rate(g, kind, 0..4));
        if swappiness <= 1 {
            if swappiness == 1 && Self::worse(anon, file, [1, 199]) {
                self.saw("files although they come back");
            }
            return 1;
        } else if swappiness >= 200 {
            return 0;
        }
        let weights = [swappiness, 200 - swappiness];
        let anon_first = Self::worse(anon, file, weights);
        if anon_first != Self::worse(anon, file, [weights[1], weights[0]]) {
            self.saw("swappiness decides");
        }
        usize::from(!anon_first)
    }

    /// Scans up to `batch` pages and frees what it can. How many were scanned, as the loop is told.
    pub(super) fn evict(&mut self, q: &mut Request, g: usize, swappiness: u64, batch: u64) -> u64 {
        let old = self.rules.old_loop();
        if !old {
            self.drop_empty(g, swappiness);
        }
        let mut kind = self.first_type(g, swappiness);
        if kind == 0 && swappiness < 200 {
            self.saw("anonymous memory first");
        }
        let mut all = Scan::default();
        for _ in types(swappiness) {
            let scan = self.scan(g, kind, batch);
            let looked_at = scan.scanned;
            let left = batch.saturating_sub(looked_at);
            // Before the series a scan counts only if it took something or went to its end.
            all.scanned += if old && scan.taken.is_empty() && left > 0 {
                0
            } else {
                looked_at
            };
            all.taken = scan.taken;
            if !all.taken.is_empty() || (old && all.scanned > 0) {
                break;
            }
            if self.rules.form == Form::Merged && looked_at > 0 {
                self.saw("the same type once more");
            } else {
                self.saw("the other type");
                kind = 1 - kind;
            }
        }
        let dropped = (old || all.scanned > 0) && self.drop_empty(g, swappiness);
        if old {
            all.scanned += u64::from(dropped);
            if self.left(g, swappiness) < 2 {
                all.scanned = 0;
            }
        }
        let again = self.shrink(q, g, kind, all.taken, true);
        self.shrink(q, g, kind, again, false);
        all.scanned
    }

    /// Generations above the oldest one that may be evicted from.
    pub(super) fn left(&self, g: usize, swappiness: u64) -> u64 {
        let g = &self.groups[g];
        g.max - types(swappiness).map(|kind| g.min[kind]).min().unwrap()
    }

    fn scan(&mut self, g: usize, kind: usize, batch: u64) -> Scan {
        let mut scan = Scan::default();
        let limit = self.tier_limit(g, kind);
        let (min, max) = (self.groups[g].min[kind], self.groups[g].max);
        if max - min < 2 {
            return scan;
        }
        let old = self.rules.old_loop();
        for name in self.list(g, kind, min).into_iter().take(batch as usize) {
            if scan.taken.len() == 64 {
                break;
            }
            scan.scanned += 1;
            let p = self.pages.get_mut(&name).unwrap();
            let (tier, promoted) = (p.tier(), p.lazily_promoted());
            let gen = p.on.unwrap().gen;
            if gen != min {
                self.saw("walked");
                self.put(name, gen, true);
            } else if tier > limit || promoted {
                p.forget_uses();
                if promoted {
                    self.saw("lazily promoted");
                } else {
                    self.groups[g].tiers[kind][tier].total += 1;
                    self.saw("spared");
                }
                self.put(name, min + 1, true);
            } else if old && (p.writeback || (p.dirty && !p.anon)) {
                p.forget_uses();
                p.reclaim = true;
                self.put(name, min + 1, true);
            } else {
                p.on = None;
                if p.refs == 0 {
                    p.hidden = 0;
                }
                p.reclaim &= !old;
                self.groups[g].counts.scanned[kind] += 1;
                scan.taken.push(name);
                continue;
            }
            self.groups[g].counts.sorted += 1;
        }
        scan
    }

    /// Frees what can be freed and puts back the rest, but for those that are to be tried once more.
    fn shrink(
        &mut self,
        q: &mut Request,
        g: usize,
        kind: usize,
        taken: Vec<Name>,
        first: bool,
    ) -> Vec<Name> {
        let (mut back, mut again) = (Vec::new(), Vec::new());
        q.scanned += taken.len() as u64;
        for name in taken {
            match self.decide(q, name) {
                Fate::Freed => q.freed += 1,
                Fate::Kept => back.push(name),
                Fate::Activated => {
                    self.groups[g].counts.activated += 1;
                    let full = self.swap_is_full(g);
                    let p = self.pages.get_mut(&name).unwrap();
                    p.active = true;
                    if p.slot && full && !p.writeback {
                        (p.slot, p.dirty) = (false, true);
                        self.give_slot_back(g);
                        self.saw("slot given back");
                    }
                    back.push(name);
                }
            }
        }
        for name in back {
            let oldest = self.entry(name, false) == self.groups[g].min[kind];
            let p = self.pages.get_mut(&name).unwrap();
            if first && !(p.active || p.mapped || p.dirty || p.writeback) {
                again.push(name);
                self.saw("tried again");
                continue;
            }
            if oldest {
                p.forget_uses();
                p.active = true;
                self.saw("survivor");
            }
            self.insert(name, false);
        }
        again
    }

    /// What becomes of an isolated page.
    fn decide(&mut self, q: &Request, name: Name) -> Fate {
        let g = name.0;
        let held = self.batches.iter().any(|b| b.2 == name);
        let p = self.pages.get_mut(&name).unwrap();
        if p.writeback {
            p.reclaim = true;
            return Fate::Activated;
        }
        if p.mapped && std::mem::take(&mut p.young) {
            p.workingset |= self.rules.exec_joins[0] && p.exec && !p.anon;
            let activate = p.found_used(&self.rules);
            if self.groups[g].walker.space {
                self.look_around(name, q.context);
            }
            return match activate {
                true => Fate::Activated,
                false => Fate::Kept,
            };
        }
        if p.anon && !p.slot {
            if !self.take_slot(g) {
                self.saw("no slot");
                return Fate::Activated;
            }
            let p = self.pages.get_mut(&name).unwrap();
            (p.slot, p.dirty) = (true, true);
        }
        let p = self.pages.get_mut(&name).unwrap();
        p.mapped = false;
        if p.dirty && !p.anon {
            p.reclaim = true;
            return Fate::Activated;
        }
        if p.dirty {
            if held {
                return Fate::Kept;
            }
            p.dirty = false;
            if !self.fast_swap {
                (p.reclaim, p.writeback) = (true, true);
                return Fate::Kept;
            }
        }
        if held {
            return Fate::Kept;
        }
        let kind = p.kind();
        let e = Evicted {
            min: self.groups[g].min[kind],
            low: p.refs.saturating_sub(1),
            workingset: p.workingset,
        };
        let group = &mut self.groups[g];
        group.tiers[kind][p.tier()].total += 1;
        group.counts.stolen[kind] += 1;
        if p.anon {
            self.swapped.insert(name);
        }
        self.gone.insert(name, e);
        self.remove(name);
        self.victims.push(name);
        Fate::Freed
    }
}

enum Fate {
    Freed,
    Kept,
    Activated,
}
