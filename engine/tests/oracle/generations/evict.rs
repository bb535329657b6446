//! Eviction: the controller, the scan, the shrink list and what survives it (`docs/rules/eviction.md`,
//! `shrink-list.md`).

use super::aging::types;
use super::batches::Wait;
use super::model::{At, Evicted, Model};
use super::request::Request;
use super::rules::Form;
use crate::host::Name;

/// What a scan of one type comes to.
#[derive(Default)]
struct Scan {
    /// Pages.
    scanned: u64,
    /// It has looked at as many folios as it may.
    used_up: bool,
    taken: Vec<Name>,
}

impl Model {
    /// Refaults and all that could have come back, of one tier or of all.
    fn rate(&self, v: At, kind: usize, tiers: std::ops::Range<usize>) -> [u128; 2] {
        self.lruvec(v).tiers[kind][tiers]
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
    fn tier_limit(&self, v: At, kind: usize) -> usize {
        let first = self.rate(v, kind, 0..1);
        let spared = |&t: &usize| Self::worse(first, self.rate(v, kind, t..t + 1), [2, 3]);
        (1..4).find(spared).unwrap_or(4) - 1
    }

    fn first_type(&mut self, v: At, swappiness: u64) -> usize {
        let [anon, file] = [0, 1].map(|kind| self.rate(v, kind, 0..4));
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
    pub(super) fn evict(&mut self, q: &mut Request, v: At, swappiness: u64, batch: u64) -> u64 {
        let old = self.rules.old_loop();
        if !old {
            self.drop_empty(v, swappiness);
        }
        let mut kind = self.first_type(v, swappiness);
        if kind == 0 && swappiness < 200 {
            self.saw("anonymous memory first");
        }
        let mut all = Scan::default();
        for _ in types(swappiness) {
            let scan = self.scan(v, kind, batch);
            let looked_at = scan.scanned;
            // Before the series a scan counts only if it took something or went to its end.
            all.scanned += if old && scan.taken.is_empty() && !scan.used_up {
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
        let dropped = (old || all.scanned > 0) && self.drop_empty(v, swappiness);
        if old {
            all.scanned += u64::from(dropped);
            if self.left(v, swappiness) < 2 {
                all.scanned = 0;
            }
        }
        let again = self.shrink(q, v, kind, all.taken, true);
        self.shrink(q, v, kind, again, false);
        all.scanned
    }

    /// Generations above the oldest one that may be evicted from.
    pub(super) fn left(&self, v: At, swappiness: u64) -> u64 {
        self.lruvec(v).max - self.oldest(v, swappiness)
    }

    /// The oldest generation of types that may be evicted.
    pub(super) fn oldest(&self, v: At, swappiness: u64) -> u64 {
        let min = self.lruvec(v).min;
        types(swappiness).map(|kind| min[kind]).min().unwrap()
    }

    fn scan(&mut self, v: At, kind: usize, batch: u64) -> Scan {
        let mut scan = Scan::default();
        let limit = self.tier_limit(v, kind);
        let (min, max) = (self.lruvec(v).min[kind], self.lruvec(v).max);
        if max - min < 2 {
            return scan;
        }
        let old = self.rules.old_loop();
        let (mut folios, mut taken) = (0, 0);
        for name in self.list(v, kind, min, batch as usize) {
            if taken >= 64 {
                break;
            }
            let p = self.pages.get_mut(&name).unwrap();
            let n = p.size();
            (folios, scan.scanned) = (folios + 1, scan.scanned + n);
            let (tier, promoted) = (p.tier(), p.lazily_promoted());
            let gen = p.on.unwrap().gen;
            let goes_on = p.locked && self.rules.isolates_locked();
            if p.locked && !goes_on {
                self.saw("locked, at the scan");
                self.cull(name);
            } else if gen != min && !goes_on {
                self.saw("walked");
                self.put(name, gen, true);
            } else if (tier > limit || promoted) && !goes_on {
                p.forget_uses();
                if promoted {
                    self.saw("lazily promoted");
                } else {
                    self.lruvec_mut(v).tiers[kind][tier].total += n;
                    let large = n > 1;
                    self.saw(if large { "large, spared" } else { "spared" });
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
                self.groups[v.g].counts.scanned[kind] += n as i64;
                taken += n;
                scan.taken.push(name);
                continue;
            }
            self.groups[v.g].counts.sorted += n as i64;
        }
        scan.used_up = folios == batch;
        scan
    }

    /// Frees what can be freed and puts back the rest, but for those that are to be tried once more.
    fn shrink(
        &mut self,
        q: &mut Request,
        v: At,
        kind: usize,
        taken: Vec<Name>,
        first: bool,
    ) -> Vec<Name> {
        let (mut back, mut again, mut locked) = (Vec::new(), Vec::new(), Vec::new());
        for name in taken {
            let n = self.pages[&name].size();
            q.scanned += n;
            match self.decide(q, name) {
                Fate::Freed => q.freed += n,
                Fate::Kept => back.push(name),
                Fate::Locked => {
                    if self.give_up_slot(name) {
                        self.saw("locked, without its slot");
                    }
                    locked.push(name);
                }
                Fate::Activated => {
                    self.groups[v.g].counts.activated += n as i64;
                    self.pages.get_mut(&name).unwrap().active = true;
                    if self.swap_is_full(v.g) && self.give_up_slot(name) {
                        self.saw("slot given back");
                    }
                    back.push(name);
                }
            }
        }
        for name in locked {
            self.queue(0, Wait::Add, name);
        }
        for name in back {
            let oldest = self.entry(name, false) == self.lruvec(v).min[kind];
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

    /// A page that stays in memory needs no place in swap, if nobody is writing to it and page tables refer to the page.
    fn give_up_slot(&mut self, name: Name) -> bool {
        let p = self.pages.get_mut(&name).unwrap();
        let gives = p.slot && p.mapped && !p.writeback;
        if gives {
            (p.slot, p.dirty) = (false, true);
            self.give_slot_back(name.0);
        }
        gives
    }

    /// What becomes of an isolated page.
    fn decide(&mut self, q: &Request, name: Name) -> Fate {
        let (g, v) = (name.0, self.of(name));
        let held = self.batches.iter().any(|b| b.2 == name);
        let p = self.pages.get_mut(&name).unwrap();
        if p.locked {
            self.saw("locked, and taken");
            return Fate::Locked;
        }
        if p.writeback {
            p.reclaim = true;
            return Fate::Activated;
        }
        if p.mapped && std::mem::take(&mut p.young) {
            p.workingset |= self.rules.exec_joins[0] && p.exec && !p.anon;
            let activate = p.found_used(&self.rules);
            if self.lruvec(v).walker.space {
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
        let page = p.clone();
        let (kind, tier, n) = (page.kind(), page.tier(), page.size());
        let e = Evicted {
            from: v,
            min: self.lruvec(v).min[kind],
            low: page.refs.saturating_sub(1),
            workingset: page.workingset,
        };
        self.lruvec_mut(v).tiers[kind][tier].total += n;
        self.groups[g].counts.stolen[kind] += n as i64;
        if n > 1 {
            self.saw("large, gone");
        }
        if page.anon {
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
    /// To the unevictable list.
    Locked,
}
