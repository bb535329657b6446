//! Root reclaim: the order of memcgs, and kswapd (`docs/rules/memcg-lru.md`, `zones.md`).
//!
//! Which bin a memcg comes to is random, so the lists themselves are the engine's; they have a model of their own. What
//! becomes of a memcg after each visit is this model's.

use super::model::{At, Model};
use super::request::{Request, Who};
use super::rules::KILL;
use coldset_engine::memcg::{LruOp, MemcgLru};
use coldset_engine::MemcgId;

pub(super) struct Order {
    lists: MemcgLru,
    /// Memcgs that were put off at their last move.
    put_off: Vec<bool>,
    /// Pages of the node's only zone, and its high mark.
    pub(super) managed: u64,
    pub(super) high: u64,
    /// Runs of kswapd in a row that freed nothing.
    pub(super) failures: u32,
}

impl Order {
    pub(super) fn new(seed: u64, groups: usize) -> Self {
        let mut lists = MemcgLru::new(seed);
        (0..groups).for_each(|g| lists.online(MemcgId(g as u32)));
        Order {
            lists,
            put_off: vec![false; groups],
            managed: u64::MAX,
            high: 0,
            failures: 0,
        }
    }

    fn note(&mut self, g: usize, op: LruOp) {
        self.put_off[g] = op == LruOp::Tail;
    }

    pub(super) fn offline(&mut self, g: usize) {
        self.put_off[g] = false;
        self.lists.offline(MemcgId(g as u32));
    }

    /// Limit reclaim rotates a memcg as root reclaim does.
    pub(super) fn rotate(&mut self, g: usize) {
        self.note(g, LruOp::Young);
        self.lists.apply(MemcgId(g as u32), LruOp::Young);
    }
}

impl Model {
    /// One round of root reclaim.
    pub(super) fn shrink_root(&mut self, q: &mut Request, node: usize) {
        self.drain_cpu(0);
        self.begin_lower(q, node);
        let mut walk = self.orders[node].lists.walk_begin();
        while let Some(id) = self.orders[node].lists.walk_next(&mut walk) {
            let g = id.0 as usize;
            let skipped = self.skips(q, At { g, node });
            let op = match skipped {
                Some(op) => Some(op),
                None => self.visit_in_turn(q, At { g, node }),
            };
            if let Some(op) = op {
                self.orders[node].note(g, op);
            }
            walk.set_result(op);
            // Another node may have brought enough: it is noticed behind a memcg that something was to be taken from.
            if skipped.is_none() && self.has_enough(q) {
                self.saw("walk ended at the target");
                break;
            }
        }
        self.orders[node].lists.walk_stop(&mut walk);
        if q.freed > 0 {
            self.progress(q, node);
        }
    }

    /// What becomes of a memcg that is protected.
    fn skips(&mut self, q: &Request, v: At) -> Option<LruOp> {
        let g = v.g;
        let [below_min, below_low] = self.below(q, g);
        if below_min {
            return Some(LruOp::Young);
        }
        if below_low {
            if !self.orders[v.node].put_off[g] {
                return Some(LruOp::Tail);
            }
            self.groups[g].counts.low_events += 1;
            self.saw("below low");
        }
        None
    }

    fn visit_in_turn(&mut self, q: &mut Request, v: At) -> Option<LruOp> {
        let g = v.g;
        let put_off = self.orders[v.node].put_off[g];
        let rotate = self.shrink_memcg(q, v);
        let size = self.evictable(v, self.swappiness(q, g));
        let offline = self.groups[g].offline;
        let sizable = if offline {
            size > 0
        } else {
            size >> q.priority > 0
        };
        match (rotate, sizable) {
            (true, _) if !offline => Some(LruOp::Young),
            (false, true) => None,
            _ if !put_off => Some(LruOp::Tail),
            _ => Some(LruOp::Young),
        }
    }

    /// A large request begins where the share of what is there is about what it wants.
    fn begin_lower(&mut self, q: &mut Request, node: usize) {
        if q.priority < 12 || q.want < 64 {
            return;
        }
        let swap = self.swap[0] > 0 && q.may_swap;
        let kinds = if swap { 0..2 } else { 1..2 };
        let pages: u64 = kinds
            .flat_map(|kind| (0..self.groups.len()).map(move |g| (g, kind)))
            .map(|(g, kind)| self.lists(At { g, node }, kind)[0])
            .sum();
        let bits = |n: u64| i64::from(64 - n.leading_zeros());
        let priority = bits(pages) - 1 - bits(q.want - 1);
        q.priority = priority.clamp(6, 12) as u32;
        if q.priority < 12 {
            self.saw("begins lower");
        }
    }

    fn free(&self, node: usize) -> u64 {
        let here = self.pages.values().filter(|p| p.node == node);
        self.orders[node].managed - here.map(|p| p.size()).sum::<u64>()
    }

    pub(super) fn free_above_high(&self, node: usize) -> bool {
        self.free(node) > self.orders[node].high + 64
    }

    fn balanced(&self, node: usize) -> bool {
        self.free(node) > self.orders[node].high
    }

    /// Something was freed on a node: kswapd has not given up, unless a task frees it because the node is short (7.2).
    pub(super) fn progress(&mut self, q: &Request, node: usize) {
        if q.who == Who::Kswapd || !self.rules.since_72 || self.balanced(node) {
            self.orders[node].failures = 0;
        } else if self.orders[node].failures > 0 {
            self.saw("a task's progress that does not count");
        }
    }

    /// A run of kswapd. Pages freed.
    pub(super) fn kswapd(&mut self, node: usize) -> u64 {
        let mut q = Request::new(Who::Kswapd, 0, self.orders[node].high.max(32));
        q.node = node;
        self.saw("kswapd");
        let mut freed = 0;
        while q.priority >= 1 && !self.balanced(node) {
            (q.scanned, q.freed) = (0, 0);
            if self.in_danger(&q) {
                self.saw("a working set is in danger");
                self.victims.push(KILL);
            }
            self.shrink_root(&mut q, node);
            freed += q.freed;
            if q.scanned == q.want && q.freed > 0 && !self.balanced(node) {
                self.saw("scanned just enough");
            }
            if q.scanned.max(q.freed) < q.want || q.freed == 0 {
                q.priority -= 1;
            }
        }
        if freed == 0 && q.priority < 1 {
            self.orders[node].failures += 1;
            self.saw("kswapd without progress");
        }
        freed
    }
}
