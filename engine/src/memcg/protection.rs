//! Effective protection and what it does to scan sizes (`docs/rules/memcg.md#effective-protection`).

use super::tree::MemcgTree;
use super::SWAP_CLUSTER_MAX;
use crate::ids::{MemcgId, Pages};

/// `a * b / c` without overflow.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    (u128::from(a) * u128::from(b) / u128::from(c)) as u64
}

/// A child's share of its parent's effective protection. All pages: `usage` and `parent_usage`,
/// `setting` the child's min or low, `parent_effective` what the parent has to give, and
/// `siblings_protected` the protected usage of all the parent's children.
pub fn effective_protection(
    usage: Pages,
    parent_usage: Pages,
    setting: Pages,
    parent_effective: Pages,
    siblings_protected: Pages,
    recursive: bool,
) -> Pages {
    let protected = usage.min(setting);
    if siblings_protected > parent_effective {
        // Overcommitted: share by the protection in use.
        return mul_div(protected, parent_effective, siblings_protected);
    }
    if recursive
        && parent_effective > siblings_protected
        && parent_usage > siblings_protected
        && usage > protected
    {
        // What no child claims is shared by unprotected usage.
        return protected
            + mul_div(
                parent_effective - siblings_protected,
                usage - protected,
                parent_usage - siblings_protected,
            );
    }
    protected
}

/// A list size after protection, before the priority shift, and whether memory.low did it (then the
/// caller has something left to try with low reclaim). Classic form and the form of multi-gen before
/// the shift are the same.
pub fn scale_by_protection(
    size: Pages,
    usage: Pages,
    emin: Pages,
    elow: Pages,
    low_reclaim: bool,
) -> (Pages, bool) {
    if emin == 0 && elow == 0 {
        return (size, false);
    }
    let by_low = !low_reclaim && elow > emin;
    let protection = if by_low { elow } else { emin };
    let usage = usage.max(protection);
    let scan = size - mul_div(size, protection, usage + 1);
    (scan.max(SWAP_CLUSTER_MAX), by_low)
}

impl MemcgTree {
    /// Computes the effective protection of `id` for reclaim of `root`. It reads the parent's last result, which is of
    /// this reclaim if the walk has come by the parent. A shared walk goes on where the last one has stopped, and the
    /// memcg LRU is no tree: there a memcg may be judged by what its parent had at an earlier visit, for whatever root.
    pub fn calculate_protection(&mut self, root: MemcgId, id: MemcgId) {
        if id == root || id == MemcgId::ROOT {
            return;
        }
        let m = &self[id];
        let c = &m.memory;
        if c.usage == 0 {
            return;
        }
        let (emin, elow) = if m.parent == root {
            (c.min, c.low)
        } else {
            let p = &self[m.parent].memory;
            let r = self.cfg.recursive_protection;
            (
                effective_protection(c.usage, p.usage, c.min, p.emin, p.children_min_usage, r),
                effective_protection(c.usage, p.usage, c.low, p.elow, p.children_low_usage, r),
            )
        };
        let c = &mut self.nodes[id.idx()].memory;
        (c.emin, c.elow) = (emin, elow);
    }

    /// Usage is within the effective memory.min. Never true for the target or the root; true for an
    /// unused memcg.
    #[inline]
    pub fn below_min(&self, target: MemcgId, id: MemcgId) -> bool {
        let c = &self[id].memory;
        id != MemcgId::ROOT && id != target && c.emin >= c.usage
    }

    /// Usage is within the effective memory.low; same exceptions.
    #[inline]
    pub fn below_low(&self, target: MemcgId, id: MemcgId) -> bool {
        let c = &self[id].memory;
        id != MemcgId::ROOT && id != target && c.elow >= c.usage
    }

    /// [`scale_by_protection`] for a list of `id` in reclaim of `target`, which ignores its own
    /// protection.
    pub fn scan_scaled(
        &self,
        size: Pages,
        id: MemcgId,
        target: MemcgId,
        low_reclaim: bool,
    ) -> (Pages, bool) {
        if id == target || id == MemcgId::ROOT {
            return (size, false);
        }
        let c = &self[id].memory;
        scale_by_protection(size, c.usage, c.emin, c.elow, low_reclaim)
    }
}
