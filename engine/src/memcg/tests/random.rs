//! Random operations on a whole tree against a flat model.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What must hold between a memcg and its children, whatever happened.
fn check(t: &MemcgTree, own: &BTreeMap<MemcgId, u64>) {
    for id in t.preorder(ROOT) {
        let m = t[id].memory();
        let stocked: u64 = (0..t.config().nr_cpus as usize)
            .flat_map(|cpu| t.stock(cpu))
            .filter(|s| s.0 == id)
            .map(|s| s.1)
            .sum();
        let below: u64 = t.children(id).map(|c| usage(t, c)).sum();
        let own = own.get(&id).copied().unwrap_or(0);
        assert_eq!(m.usage(), own + stocked + below, "memcg {}", id.0);
        let sum =
            |f: fn(&PageCounter) -> u64| t.children(id).map(|c| f(t[c].memory())).sum::<u64>();
        assert_eq!(m.children_low_usage(), sum(PageCounter::low_usage));
        assert_eq!(m.children_min_usage(), sum(PageCounter::min_usage));
        if id != ROOT {
            assert_eq!(m.low_usage(), m.usage().min(m.low()));
            assert_eq!(m.min_usage(), m.usage().min(m.min()));
        }
        assert!(m.watermark() >= m.usage());
        assert!(t.children(id).all(|c| t[c].parent() == Some(id)));
    }
}

proptest! {
    #[test]
    fn charges_and_uncharges_leave_no_residue(
        ops in prop::collection::vec((0u8..9, 0usize..12, 0u64..200, 0usize..3), 1..200),
    ) {
        let mut t = MemcgTree::new(MemcgConfig { nr_cpus: 3, ..MemcgConfig::default() }).unwrap();
        let mut ids = vec![t.create(ROOT).unwrap()];
        let mut own: BTreeMap<MemcgId, u64> = BTreeMap::new();
        let mut tm = TaskMemcg::default();
        for (op, pick, n, cpu) in ops {
            let id = ids[pick % ids.len()];
            match op {
                0 => if let Ok(child) = t.create(if n % 3 == 0 { ROOT } else { id }) {
                    ids.push(child);
                },
                1 | 2 => if t.try_charge_fast(id, n, cpu, &mut tm).is_ok() {
                    *own.entry(id).or_default() += n;
                    // A success never leaves a counter above its limit by this charge: limits are
                    // only lowered to the usage or above below.
                    for k in t.ancestors(id) {
                        prop_assert!(t[k].memory().usage() <= t[k].memory().max());
                    }
                },
                3 => {
                    let k = own.get(&id).copied().unwrap_or(0).min(n);
                    t.uncharge(id, k);
                    if k > 0 { *own.get_mut(&id).unwrap() -= k; }
                }
                4 => if t.get(id).is_some_and(|m| m.memory().usage() <= n * 5) {
                    let _ = t.set_max(id, CounterKind::Memory, n * 5);
                }
                5 => { t.set_low(id, n).unwrap_or(()); }
                6 => { t.set_min(id, n).unwrap_or(()); }
                7 => t.drain_stocks(id),
                _ => {
                    let _ = t.offline(id);
                    while let Some(dead) = t.next_releasable() {
                        t.release(dead).unwrap();
                        ids.retain(|&i| i != dead);
                    }
                    if ids.is_empty() { ids.push(t.create(ROOT).unwrap()); }
                }
            }
            check(&t, &own);
        }
        t.drain_stocks(ROOT);
        for (&id, &n) in own.iter().filter(|(_, &n)| n > 0) {
            t.uncharge(id, n);
        }
        for id in t.preorder(ROOT) {
            prop_assert_eq!(usage(&t, id), 0);
            prop_assert_eq!(t[id].memory().low_usage(), 0);
            prop_assert_eq!(t[id].memory().children_low_usage(), 0);
        }
    }

    /// Folding gives the same sums as adding up the subtree, and every walk order agrees.
    #[test]
    fn folds_equal_live_sums(
        shape in prop::collection::vec(any::<u16>(), 1..40),
        counts in prop::collection::vec((any::<u16>(), -50i64..50), 0..100),
    ) {
        let mut t = tree();
        let mut ids = vec![ROOT];
        for s in shape {
            ids.push(t.create(ids[s as usize % ids.len()]).unwrap());
        }
        for (who, n) in counts {
            t.count(ids[who as usize % ids.len()], Counter::FileDirty, n);
        }
        t.fold();
        for &id in &ids {
            prop_assert_eq!(t.folded(id, Counter::FileDirty), t.live(id, Counter::FileDirty));
            let mut w = WalkCursor::new(WalkMode::Full, id, NODE0);
            let walked: Vec<_> = std::iter::from_fn(|| t.iter_next(&mut w)).collect();
            let order: Vec<_> = t.preorder(id).collect();
            prop_assert!(order.iter().all(|&k| t.is_within(k, id)));
            prop_assert_eq!(walked, order);
        }
    }

    /// What is on a node is counted there and in the memcg, and stays with the parent of a released one: as a sum of all
    /// that was counted below, kept outside.
    #[test]
    fn counts_of_nodes_are_those_of_their_memcgs(
        steps in prop::collection::vec((0u8..10, any::<u16>(), 0u32..3, -50i64..50), 1..200),
    ) {
        let c = Counter::ActiveFile;
        let cfg = MemcgConfig { nr_nodes: 3, ..MemcgConfig::default() };
        let mut t = MemcgTree::new(cfg).unwrap();
        let mut ids = vec![ROOT];
        // By memcg, and released ones in their parent: what each node has.
        let mut model: std::collections::HashMap<MemcgId, [i64; 3]> = [(ROOT, [0; 3])].into();
        for (step, who, node, n) in steps {
            let id = ids[who as usize % ids.len()];
            match step {
                0 | 1 => {
                    let new = t.create(id).unwrap();
                    ids.push(new);
                    model.insert(new, [0; 3]);
                }
                2 if id != ROOT && t.preorder(id).count() == 1 => {
                    let parent = t[id].parent().unwrap();
                    t.offline(id).unwrap();
                    t.release(id).unwrap();
                    ids.retain(|&k| k != id);
                    let counts = model.remove(&id).unwrap();
                    (0..3).for_each(|i| model.get_mut(&parent).unwrap()[i] += counts[i]);
                }
                _ => {
                    t.count_on(id, NodeId(node), c, n);
                    model.get_mut(&id).unwrap()[node as usize] += n;
                }
            }
        }
        t.fold();
        for &id in &ids {
            for node in 0..3 {
                let below = t.preorder(id).map(|k| model[&k][node as usize]);
                let below: i64 = below.sum();
                prop_assert_eq!(t.live_on(id, NodeId(node), c), below);
                prop_assert_eq!(t.folded_on(id, NodeId(node), c), below);
            }
            let all = (0..3).map(|node| t.folded_on(id, NodeId(node), c)).sum::<i64>();
            prop_assert_eq!(all, t.folded(id, c));
        }
    }

    /// Siblings never get more protection together than the parent has to give.
    #[test]
    fn effective_protection_is_bounded(
        parent_low in 0u64..5000,
        kids in prop::collection::vec((1u64..3000, 0u64..3000), 1..6),
    ) {
        let mut t = tree();
        let p = t.create(ROOT).unwrap();
        t.set_low(p, parent_low).unwrap();
        let kids: Vec<_> = kids.into_iter().map(|(u, low)| {
            let id = t.create(p).unwrap();
            t.set_low(id, low).unwrap();
            fill(&mut t, id, u);
            id
        }).collect();
        t.calculate_protection(ROOT, p);
        let mut sum = 0;
        for &k in &kids {
            t.calculate_protection(ROOT, k);
            sum += t[k].memory().elow().min(usage(&t, k));
        }
        prop_assert!(sum <= parent_low);
    }
}
