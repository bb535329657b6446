//! Creation, offlining, release, ids, swap, OOM groups.

use super::*;

#[test]
fn configuration_errors_name_the_field() {
    for (cfg, field) in [
        (
            MemcgConfig {
                nr_nodes: 0,
                ..Default::default()
            },
            "nr_nodes",
        ),
        (
            MemcgConfig {
                nr_nodes: 65,
                ..Default::default()
            },
            "nr_nodes",
        ),
        (
            MemcgConfig {
                nr_cpus: 0,
                ..Default::default()
            },
            "nr_cpus",
        ),
        (
            MemcgConfig {
                fold_interval: 0,
                ..Default::default()
            },
            "fold_interval",
        ),
    ] {
        let e = MemcgTree::new(cfg).unwrap_err().to_string();
        assert!(e.contains(field), "{e}");
    }
}

#[test]
fn a_zombie_lives_until_its_last_page_and_its_slot_is_reused_after_release() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    t.set_low(a, 50).unwrap();
    let mut tm = TaskMemcg::default();
    t.try_charge_fast(a, 1, 1, &mut tm).unwrap();
    assert_eq!(t[ROOT].memory().children_low_usage(), 50);
    t.offline(a).unwrap();
    assert_eq!(usage(&t, a), 1); // stock drained
    assert_eq!(t[ROOT].memory().children_low_usage(), 0);
    assert_eq!(t.next_releasable(), None);
    assert!(t.release(a).is_err());
    let b = t.create(ROOT).unwrap();
    assert_ne!(a, b);
    t.uncharge(a, 1);
    assert_eq!(t.next_releasable(), Some(a));
    t.release(a).unwrap();
    assert!(!t.exists(a) && t.get(a).is_none());
    assert_eq!(t.offline(a), Err(MemcgError::Unknown(a)));
    assert_eq!(t.create(b).unwrap(), a);
    assert_eq!(t.nr_memcgs(), 3);
    assert_eq!(t.preorder(ROOT).collect::<Vec<_>>(), [ROOT, b, a]);
}

#[test]
fn a_family_is_released_from_the_leaves_up() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let kids: Vec<_> = (0..3).map(|_| t.create(p).unwrap()).collect();
    assert_eq!(t.offline(p), Err(MemcgError::HasChildren(p)));
    assert_eq!(t.offline(ROOT), Err(MemcgError::Root("taken offline")));
    for &k in &kids {
        t.offline(k).unwrap();
        assert_eq!(t.offline(k), Err(MemcgError::Offline(k)));
    }
    t.offline(p).unwrap();
    assert_eq!(t.create(p), Err(MemcgError::Offline(p)));
    let mut order = Vec::new();
    while let Some(id) = t.next_releasable() {
        t.release(id).unwrap();
        order.push(id);
    }
    assert_eq!((order.len(), order.last()), (4, Some(&p)));
    assert_eq!(t.nr_memcgs(), 1);
    assert_eq!(t.preorder(ROOT).count(), 1);
}

#[test]
fn css_ids_are_given_back_on_offline_unless_swap_slots_name_them() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    let b = t.create(p).unwrap();
    let (css_a, css_b) = (t[a].css_id(), t[b].css_id());
    assert_eq!(
        (t[ROOT].css_id(), t[p].css_id(), css_a, css_b),
        (1, 2, 3, 4)
    );
    fill(&mut t, a, 1);
    assert_eq!(t.charge_swap(b, 2), Ok(b));
    t.offline(a).unwrap();
    t.offline(b).unwrap();
    assert_eq!((t.by_css_id(css_a), t.by_css_id(css_b)), (None, Some(b)));
    // Recycled while the zombie lives: an old shadow now names somebody else.
    let c = t.create(p).unwrap();
    assert_eq!((t[c].css_id(), t.by_css_id(css_a)), (css_a, Some(c)));
    assert_eq!(t.swapin_memcg(css_b, c), c);
    assert_eq!(t.swapin_memcg(css_a, p), c);
    // New slots of an offline memcg's folios are charged further up.
    assert_eq!(t.charge_swap(a, 1), Ok(p));
    assert_eq!((t[p].swap().usage(), t[b].swap().usage()), (3, 2));
    assert_eq!(t.next_releasable(), None);
    t.uncharge_swap(b, 2).unwrap();
    assert_eq!(t.by_css_id(css_b), None);
    assert_eq!(t.next_releasable(), Some(b));
}

#[test]
fn ids_run_out_with_a_clear_error() {
    let mut t = tree();
    for _ in 1..MAX_CSS_IDS {
        t.create(ROOT).unwrap();
    }
    assert_eq!(t.create(ROOT), Err(MemcgError::CssIdsExhausted));
    let victim = MemcgId(40_000);
    t.offline(victim).unwrap();
    let id = t.create(ROOT).unwrap();
    assert_eq!(t[id].css_id(), 40_001);
    assert_eq!(t.create(ROOT), Err(MemcgError::CssIdsExhausted));
    let mut w = WalkCursor::new(WalkMode::Full, ROOT, NODE0);
    assert_eq!(
        std::iter::from_fn(|| t.iter_next(&mut w)).count(),
        t.nr_memcgs()
    );
}

#[test]
fn swap_limits_refuse_and_count() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let a = t.create(p).unwrap();
    t.set_max(p, CounterKind::Swap, 10).unwrap();
    assert!(!t.swap_full(a, 50, 100));
    assert!(t.swap_full(a, 49, 100));
    assert_eq!(t.charge_swap(a, 5), Ok(a));
    assert!(t.swap_full(a, 50, 100));
    assert_eq!(t.charge_swap(a, 6), Err(p));
    assert_eq!((t[a].swap().usage(), t[a].css_pins()), (5, 5));
    assert_eq!(t.local(a)[Counter::EventsSwapMax], 1);
    assert_eq!(t.local(a)[Counter::EventsSwapFail], 1);
    assert_eq!(t.local(p)[Counter::EventsSwapMax], 0);
    assert_eq!(t.charge_swap(ROOT, 100), Ok(ROOT));
}

#[test]
fn oom_groups_reach_up_to_the_memcg_that_is_out_of_memory() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    let q = t.create(p).unwrap();
    let r = t.create(q).unwrap();
    assert_eq!(t.oom_group(r, p), None);
    t.set_oom_group(r, true).unwrap();
    t.set_oom_group(p, true).unwrap();
    assert_eq!(t.oom_group(r, q), Some(r));
    assert_eq!(t.oom_group(r, p), Some(p));
    assert_eq!(t.oom_group(q, q), None);
    t.set_oom_group(ROOT, true).unwrap();
    assert_eq!(t.oom_group(r, ROOT), Some(p));
}

#[test]
fn oom_looks_at_the_margin_again() {
    let mut t = tree();
    let a = t.create(ROOT).unwrap();
    set_max(&mut t, a, 100);
    t.set_max(a, CounterKind::Swap, 30).unwrap();
    fill(&mut t, a, 97);
    assert_eq!(t.oom_start(a, 4), OomStart::TooLarge);
    assert_eq!(t.oom_start(a, 2), OomStart::Kill);
    assert_eq!(t.oom_start(a, 1), OomStart::Room);
    assert_eq!(
        (t.oom_total_pages(a, 20), t.oom_total_pages(a, 50)),
        (120, 130)
    );
}

#[test]
fn knobs_are_checked_and_inherited() {
    let mut t = tree();
    let p = t.create(ROOT).unwrap();
    t.set_swappiness(p, Some(200)).unwrap();
    assert!(t.set_swappiness(p, Some(201)).is_err());
    let a = t.create(p).unwrap();
    assert_eq!(t[a].swappiness(), Some(200));
    fill(&mut t, a, 120);
    t.uncharge(a, 50);
    assert_eq!(t[a].memory().watermark(), 120);
}
