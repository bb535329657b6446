//! Requests for pages of a limit, and the loop over one memcg (`docs/rules/reclaim-loop.md`).

use super::aging::types;
use super::model::{At, Counts, Model};
use super::rules::Form;
use crate::protection::part;

/// Who asks for pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Who {
    Task,
    /// On behalf of user space.
    Proactive,
    Kswapd,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) who: Who,
    /// The memcg whose limit it is; 0: the machine.
    pub(super) target: usize,
    pub(super) want: u64,
    /// The node whose kswapd asks, or of the task.
    pub(super) node: usize,
    pub(super) freed: u64,
    pub(super) scanned: u64,
    pub(super) priority: u32,
    /// In place of the swappiness of the memcgs.
    pub(super) swappiness: Option<u64>,
    pub(super) may_swap: bool,
    /// It may promote what it finds around a victim.
    pub(super) context: bool,
    pub(super) full: bool,
    pub(super) low: bool,
    pub(super) low_skipped: bool,
}

impl Request {
    pub(super) fn new(who: Who, target: usize, want: u64) -> Self {
        Request {
            who,
            target,
            want,
            node: 0,
            freed: 0,
            scanned: 0,
            priority: 12,
            swappiness: None,
            may_swap: true,
            context: who != Who::Task,
            full: false,
            low: false,
            low_skipped: false,
        }
    }

    pub(super) fn root(&self) -> bool {
        self.target == 0
    }
}

impl Model {
    /// Effective min and low of `g`. A shared walk may begin below its parent: what the parent was granted is then
    /// what it was when it was last visited, for whatever target.
    fn protect(&mut self, g: usize, target: usize) {
        let parent = self.groups[g].made.parent.unwrap();
        for x in 0..2 {
            let set = |k: usize| [self.groups[k].made.min, self.groups[k].made.low][x];
            let claim = |k: usize| self.usage(k).min(set(k));
            let siblings = |&k: &usize| self.groups[k].made.parent == Some(parent);
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

    /// Whether a memcg is below its min or low for this request.
    pub(super) fn below(&mut self, q: &Request, g: usize) -> [bool; 2] {
        if g == q.target {
            return [false; 2];
        }
        let usage = self.usage(g);
        if usage == 0 {
            return [true; 2];
        }
        self.protect(g, q.target);
        self.groups[g].granted.map(|n| usage <= n)
    }

    fn below_min(&self, q: &Request, g: usize) -> bool {
        g != q.target && self.usage(g) <= self.groups[g].granted[0]
    }

    /// Pages that are protected from the scan. None: there is no protection.
    fn guard(&self, q: &mut Request, g: usize) -> Option<u64> {
        if g == q.target {
            return None;
        }
        let [min, low] = self.groups[g].granted;
        q.low_skipped |= !q.low && low > min;
        let protected = if q.low { min } else { min.max(low) };
        (min.max(low) > 0).then_some(protected)
    }

    /// `root` and all below it: parents first, children in order of creation.
    fn order(&self, root: usize) -> Vec<usize> {
        let children = (0..self.groups.len()).filter(|&k| self.groups[k].made.parent == Some(root));
        std::iter::once(root)
            .chain(children.flat_map(|k| self.order(k)))
            .collect()
    }

    /// A request of a task, for a limit or for the machine.
    pub(super) fn reclaim(&mut self, q: &mut Request) -> u64 {
        loop {
            q.priority = 12;
            loop {
                q.scanned = 0;
                let nodes = self.nodes();
                for node in (q.node..nodes).chain(0..q.node) {
                    let before = q.freed;
                    if q.root() {
                        self.shrink_root(q, node);
                    } else {
                        self.round(q, node);
                    }
                    if q.freed > before {
                        self.progress(q, node);
                    }
                }
                if q.freed >= q.want || q.priority == 0 {
                    break;
                }
                q.priority -= 1;
            }
            if q.freed > 0 {
                return q.freed;
            }
            if !q.full {
                q.full = true;
            } else if q.low_skipped {
                (q.low, q.low_skipped) = (true, false);
            } else {
                return 0;
            }
        }
    }

    fn round(&mut self, q: &mut Request, node: usize) {
        let order = self.order(q.target);
        if q.full {
            for g in order {
                self.visit(q, At { g, node });
            }
            return;
        }
        // The walk goes on behind the one that the last request has stopped at. If that was the end, it begins anew.
        let root = At { g: q.target, node };
        let stands = self.lruvec(root).walk;
        let next = stands.map_or(0, |at| 1 + order.iter().position(|&g| g == at).unwrap());
        for &g in &order[next % order.len()..] {
            self.lruvec_mut(root).walk = Some(g);
            if self.visit(q, At { g, node }) && q.freed >= q.want {
                return;
            }
        }
        self.lruvec_mut(root).walk = None;
    }

    /// False: the memcg is protected.
    fn visit(&mut self, q: &mut Request, v: At) -> bool {
        let g = v.g;
        let [below_min, below_low] = self.below(q, g);
        if below_min {
            return false;
        }
        if below_low {
            if !q.low {
                q.low_skipped = true;
                return false;
            }
            self.groups[g].counts.low_events += 1;
            self.saw("below low");
        }
        if self.shrink_memcg(q, v) {
            self.orders[v.node].rotate(g);
        }
        true
    }

    // ------------------------------------------------------------ one memcg

    pub(super) fn swappiness(&self, q: &Request, g: usize) -> u64 {
        if self.rules.anon_only && q.swappiness == Some(201) {
            return 201;
        }
        if !self.can_swap(q, g) {
            return 0;
        }
        q.swappiness.unwrap_or(self.groups[g].swappiness)
    }

    fn can_swap(&self, q: &Request, g: usize) -> bool {
        q.may_swap && self.swap_left(g) >= 64
    }

    /// Pages of generations that may be evicted.
    pub(super) fn evictable(&self, v: At, swappiness: u64) -> u64 {
        let (of, max) = (types(swappiness), self.lruvec(v).max);
        let on = |p: &super::rules::Page| p.on.is_some_and(|on| on.gen <= max);
        let pages = self.own(v).filter(|(_, p)| of.contains(&p.kind()) && on(p));
        pages.map(|(_, p)| p.size()).sum()
    }

    /// Those that a memcg offers, after its protection: even none brings the floor, if it is because `low` is ignored.
    fn open(&self, q: &mut Request, v: At, swappiness: u64) -> u64 {
        let guard = self.guard(q, v.g);
        let (size, usage) = (self.evictable(v, swappiness), self.usage(v.g));
        let rest = |n: u64| (size - size * n / (usage.max(n) + 1)).max(32);
        guard.map_or(size, rest)
    }

    /// Takes from a memcg. True: it is to be rotated in root reclaim.
    pub(super) fn shrink_memcg(&mut self, q: &mut Request, v: At) -> bool {
        let g = v.g;
        self.drain_cpu(0);
        let swappiness = self.swappiness(q, g);
        if swappiness == 201 && self.rules.anon_only && !self.can_swap(q, g) {
            self.saw("anonymous memory only, and none can go");
            return false;
        }
        let had = q.context;
        let before = self.groups[g].counts;
        let rotate = if self.rules.old_loop() {
            self.rounds(q, v, swappiness)
        } else {
            self.budget(q, v, swappiness)
        };
        q.context = had;
        self.count_for_the_machine(q, before, self.groups[g].counts);
        rotate
    }

    fn count_for_the_machine(&mut self, q: &Request, before: Counts, after: Counts) {
        let new = |x: [i64; 2], y: [i64; 2]| y[0] + y[1] - x[0] - x[1];
        let (by_who, sorted) = &mut self.machine;
        if q.root() || self.rules.counts_limits() {
            let [scanned, stolen] = &mut by_who[q.who as usize];
            *scanned += new(before.scanned, after.scanned);
            *stolen += new(before.stolen, after.stolen);
        }
        if q.root() {
            *sorted += after.sorted - before.sorted;
        }
    }

    fn budget(&mut self, q: &mut Request, v: At, swappiness: u64) -> bool {
        let g = v.g;
        let v5 = self.rules.form == Form::V5;
        let offline = self.groups[g].offline;
        let mut budget = if offline {
            self.saw("offline");
            self.evictable(v, swappiness)
        } else {
            self.open(q, v, swappiness) >> q.priority
        };
        if budget == 0 && q.priority < 12 && v5 && !offline {
            budget = self.evictable(v, swappiness).min(32);
            self.saw("least budget");
        }
        let mut rotate = budget == 0 && v5;
        if rotate {
            self.saw("rotated without a budget");
        }
        while budget > 0 {
            if self.below_min(q, g) {
                return true;
            }
            let left = self.left(v, swappiness);
            let ages = left < 2 || (left == 2 && q.priority < 12);
            if ages {
                self.age(v, swappiness);
                q.context = true;
                rotate = true;
            }
            let scanned = self.evict(q, v, swappiness, budget.min(64));
            if scanned == 0 || self.has_enough(q) || (q.root() && ages) {
                break;
            }
            budget = budget.saturating_sub(scanned);
        }
        rotate
    }

    /// The loop before the series: a new budget in each round.
    fn rounds(&mut self, q: &mut Request, v: At, swappiness: u64) -> bool {
        let g = v.g;
        let mut total = 0;
        loop {
            if self.below_min(q, g) {
                return true;
            }
            let left = self.left(v, swappiness);
            // An offline memcg gives all it has, as long as it has something to give.
            let whole = match left < 2 || !self.groups[g].offline {
                true => 0,
                false => self.evictable(v, swappiness),
            };
            let open = match whole {
                0 => self.open(q, v, swappiness) >> q.priority,
                _ => whole,
            };
            if whole == 0 && left <= 2 && q.priority < 12 {
                self.age(v, swappiness);
                return true;
            }
            let budget = if left < 2 { 0 } else { open };
            if budget == 0 {
                return false;
            }
            let scanned = self.evict(q, v, swappiness, budget.min(4096));
            total += scanned;
            if scanned == 0 || total >= budget || self.has_enough(q) {
                return false;
            }
        }
    }

    /// The loop over a memcg ends.
    pub(super) fn has_enough(&self, q: &Request) -> bool {
        if !q.root() && self.rules.form != Form::Merged {
            return false;
        }
        q.freed >= q.want.max(2) || (q.who == Who::Kswapd && self.free_above_high(q.node))
    }
}
