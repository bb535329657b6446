//! Shared and private walks.

use super::*;

/// root R{A{A1,A2},B} below the tree's root.
fn example() -> (MemcgTree, [MemcgId; 5]) {
    let mut t = tree();
    let r = t.create(ROOT).unwrap();
    let a = t.create(r).unwrap();
    let b = t.create(r).unwrap();
    let a1 = t.create(a).unwrap();
    let a2 = t.create(a).unwrap();
    (t, [r, a, a1, a2, b])
}

fn partial(root: MemcgId) -> WalkCursor {
    WalkCursor::new(WalkMode::Partial, root, NODE0)
}

#[test]
fn m6_iteration() {
    let (mut t, [r, a, a1, a2, b]) = example();
    let (mut x, mut y) = (partial(r), partial(r));
    assert_eq!(t.iter_next(&mut x), Some(r));
    assert_eq!(t.iter_next(&mut y), Some(a));
    assert_eq!(t.iter_next(&mut x), Some(a1));
    assert_eq!(t.iter_next(&mut y), Some(a2));
    assert_eq!(t.iter_next(&mut x), Some(b));
    // Z arrives while the position is B: it starts the next cycle.
    let mut t2 = t.clone();
    let mut z = partial(r);
    assert_eq!(t2.iter_next(&mut z), Some(r));
    assert_eq!(t2.iter_next(&mut z), Some(a));
    assert_eq!(t.iter_next(&mut y), None);
    assert_eq!(t.iter_next(&mut x), None);
    assert_eq!(t.iter_next(&mut x), None);
    assert!([r, a, a1, a2, b].iter().all(|&id| t[id].pins == 0));
}

#[test]
fn full_walks_are_private_and_see_everything_in_order() {
    let (mut t, ids) = example();
    let mut p = partial(ids[0]);
    t.iter_next(&mut p);
    for _ in 0..2 {
        let mut f = WalkCursor::new(WalkMode::Full, ids[0], NODE0);
        let seen: Vec<_> = std::iter::from_fn(|| t.iter_next(&mut f)).collect();
        assert_eq!(seen, ids);
    }
    assert_eq!(t.iter_next(&mut p), Some(ids[1]));
}

#[test]
fn a_broken_walk_is_continued_by_the_next_one_per_root_and_node() {
    let mut t = MemcgTree::new(MemcgConfig {
        nr_nodes: 2,
        ..MemcgConfig::default()
    })
    .unwrap();
    let a = t.create(ROOT).unwrap();
    let b = t.create(a).unwrap();
    let mut x = partial(ROOT);
    assert_eq!(t.iter_next(&mut x), Some(ROOT));
    t.iter_break(&mut x);
    assert_eq!(t.iter_next(&mut x), None);
    assert_eq!(t.iter_next(&mut partial(ROOT)), Some(a));
    assert_eq!(t.iter_next(&mut partial(a)), Some(a));
    let mut other = WalkCursor::new(WalkMode::Partial, ROOT, NodeId(1));
    assert_eq!(t.iter_next(&mut other), Some(ROOT));
    let mut x = partial(ROOT);
    assert_eq!(t.iter_next(&mut x), Some(b));
}

#[test]
fn releasing_a_memcg_resets_the_walks_that_stand_on_it() {
    let (mut t, [r, a, a1, ..]) = example();
    let mut x = partial(r);
    for want in [r, a, a1] {
        assert_eq!(t.iter_next(&mut x), Some(want));
    }
    t.offline(a1).unwrap();
    let held = t.release(a1).unwrap_err();
    assert!(held.to_string().contains("walk"), "{held}");
    t.iter_break(&mut x);
    assert_eq!(t.next_releasable(), Some(a1));
    t.release(a1).unwrap();
    assert_eq!(t.iter_next(&mut partial(r)), Some(r));
}

#[test]
fn zombies_stay_in_the_walks() {
    let (mut t, [r, a, a1, a2, b]) = example();
    fill(&mut t, a2, 1);
    t.offline(a2).unwrap();
    let mut f = WalkCursor::new(WalkMode::Full, r, NODE0);
    let seen: Vec<_> = std::iter::from_fn(|| t.iter_next(&mut f)).collect();
    assert_eq!(seen, [r, a, a1, a2, b]);
}
