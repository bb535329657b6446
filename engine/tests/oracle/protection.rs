//! Effective `memory.min` and `memory.low` of random trees (`docs/rules/memcg.md#effective-protection`).
//!
//! The engine keeps running sums and works its way down with integers. Here usage and claims are added up from the
//! leaves each time, and a share is an exact fraction that is cut off at the end.

use crate::Rng;
use coldset_engine::memcg::{
    scale_by_protection, CounterKind, MemcgConfig, MemcgTree, WalkCursor, WalkMode,
};
use coldset_engine::{MemcgId, NodeId};

/// What a memcg that claims `own` has of what its parent was granted: the siblings claim `claims` between them, and what is left
/// goes by the usage of the parent and of the memcg beyond what is claimed. An exact fraction, cut off at the end.
pub(crate) fn part(granted: u64, claims: u64, own: u64, [parent, usage]: [u64; 2]) -> u64 {
    let fraction = |n: u64, of: u64, all: u64| {
        let whole = (u128::from(n) * u128::from(of)).checked_div(all.into());
        whole.unwrap_or(0) as u64
    };
    if claims > granted {
        return fraction(granted, own, claims);
    }
    own + fraction(granted - claims, usage - own, parent.saturating_sub(claims))
}

struct Group {
    id: MemcgId,
    parent: Option<usize>,
    own: u64,
    set: [u64; 2],
}

struct Tree(Vec<Group>);

impl Tree {
    fn children(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len()).filter(move |&g| self.0[g].parent == Some(of))
    }

    fn usage(&self, g: usize) -> u64 {
        self.0[g].own + self.children(g).map(|c| self.usage(c)).sum::<u64>()
    }

    /// What is used within the setting `x`: 0 for min, 1 for low.
    fn claimed(&self, g: usize, x: usize) -> u64 {
        self.usage(g).min(self.0[g].set[x])
    }

    /// Protection of `g` while memory of `target` is reclaimed. None: nothing is computed for it.
    fn effective(&self, g: usize, target: usize, x: usize, recursive: bool) -> Option<u64> {
        let usage = self.usage(g);
        if g == target || usage == 0 {
            return None;
        }
        let parent = self.0[g].parent?;
        if parent == target {
            return Some(self.0[g].set[x]);
        }
        let granted = self.effective(parent, target, x, recursive).unwrap_or(0);
        let claims: u64 = self.children(parent).map(|c| self.claimed(c, x)).sum();
        let own = self.claimed(g, x);
        let part = part(granted, claims, own, [self.usage(parent), usage]);
        // Without, nothing beyond what is claimed.
        Some(if recursive { part } else { part.min(own) })
    }
}

fn grow(r: &mut Rng, t: &mut MemcgTree) -> Tree {
    let mut tree = Tree(vec![Group {
        id: MemcgId::ROOT,
        parent: None,
        own: 0,
        set: [0; 2],
    }]);
    for depth in 1..=3 {
        for parent in 0..tree.0.len() {
            let level = std::iter::successors(Some(parent), |&g| tree.0[g].parent).count();
            if level != depth || (depth > 1 && r.one_in(4)) {
                continue;
            }
            for _ in 0..1 + r.below(3) {
                let id = t.create(tree.0[parent].id).unwrap();
                // Amounts of very different size, so that every case of the rule comes up.
                let mut pages = || r.of_bits(14);
                let (own, set) = (pages(), [pages(), pages()]);
                let (own, set) = match r.below(4) {
                    0 => (0, set),
                    1 => (own, [0, 0]),
                    _ => (own, set),
                };
                t.charge_forced(id, CounterKind::Memory, own);
                t.set_min(id, set[0]).unwrap();
                t.set_low(id, set[1]).unwrap();
                tree.0.push(Group {
                    id,
                    parent: Some(parent),
                    own,
                    set,
                });
            }
        }
    }
    tree
}

#[test]
fn effective_protection_is_what_the_rule_says() {
    let (mut shared, mut cut, mut below) = (0, 0, 0);
    for seed in 0..1200 {
        let r = &mut Rng(seed);
        let recursive = !r.one_in(3);
        let mut t = MemcgTree::new(MemcgConfig {
            recursive_protection: recursive,
            ..MemcgConfig::default()
        })
        .unwrap();
        let mut tree = grow(r, &mut t);
        for _ in 0..6 {
            let target = r.below(tree.0.len() as u64) as usize;
            let mut walk = WalkCursor::new(WalkMode::Full, tree.0[target].id, NodeId(0));
            while let Some(id) = t.iter_next(&mut walk) {
                let g = tree.0.iter().position(|g| g.id == id).unwrap();
                assert_eq!(t.get(id).unwrap().memory().usage(), tree.usage(g));
                t.calculate_protection(tree.0[target].id, id);
                let [Some(min), Some(low)] =
                    [0, 1].map(|x| tree.effective(g, target, x, recursive))
                else {
                    let unused = g != target && g != 0;
                    assert_eq!(t.below_min(tree.0[target].id, id), unused);
                    assert_eq!(t.below_low(tree.0[target].id, id), unused);
                    continue;
                };
                let m = t.get(id).unwrap().memory();
                assert_eq!((m.emin(), m.elow()), (min, low), "seed {seed}, memcg {g}");
                let usage = tree.usage(g);
                assert_eq!(t.below_min(tree.0[target].id, id), usage <= min);
                assert_eq!(t.below_low(tree.0[target].id, id), usage <= low);
                shared += u64::from(low > tree.claimed(g, 1) && usage > low);
                cut += u64::from(low < tree.claimed(g, 1) && low > 0);
                below += u64::from(usage <= low && usage > min);
            }
            // Something changes before the next reclaim.
            let g = 1 + r.below(tree.0.len() as u64 - 1) as usize;
            let (id, n) = (tree.0[g].id, r.below(3000));
            match r.below(4) {
                0 => {
                    t.charge_forced(id, CounterKind::Memory, n);
                    tree.0[g].own += n;
                }
                1 => {
                    let n = n.min(tree.0[g].own);
                    t.uncharge(id, n);
                    tree.0[g].own -= n;
                }
                2 => {
                    t.set_min(id, n).unwrap();
                    tree.0[g].set[0] = n;
                }
                _ => {
                    t.set_low(id, n).unwrap();
                    tree.0[g].set[1] = n;
                }
            }
        }
    }
    // Each branch of the rule has been compared often.
    assert!(
        shared > 500 && cut > 500 && below > 500,
        "{shared} {cut} {below}"
    );
}

/// `docs/rules/memcg.md#scan-sizes`, as an inequality over fractions instead of a division.
#[test]
fn scan_sizes_leave_the_protected_share_alone() {
    let r = &mut Rng(1);
    for _ in 0..20_000 {
        let mut pages = || r.of_bits(30);
        let (size, usage, min, low) = (pages(), pages(), pages(), pages());
        let ignored = min % 3 == 0;
        let (scan, by_low) = scale_by_protection(size, usage, min, low, ignored);
        if min == 0 && low == 0 {
            assert_eq!((scan, by_low), (size, false));
            continue;
        }
        let protection = if ignored { min } else { min.max(low) };
        assert_eq!(by_low, !ignored && low > min);
        // scan - 1 < size - size * protection / (usage + 1) <= scan, but at least 32.
        let whole = u128::from(usage.max(protection)) + 1;
        let offered = u128::from(size) * (whole - u128::from(protection));
        if scan == 32 {
            assert!(offered <= 32 * whole, "{size} {usage} {min} {low}");
        } else {
            assert!(
                u128::from(scan) * whole >= offered,
                "{size} {usage} {min} {low}"
            );
            assert!(
                (u128::from(scan) - 1) * whole < offered,
                "{size} {usage} {min} {low}"
            );
        }
    }
}
