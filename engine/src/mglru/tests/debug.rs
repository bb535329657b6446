//! The debug commands (`docs/rules/aging.md#debug-commands`), and the dump.

use crate::ids::{LruType, MemcgId, NodeId};
use crate::lruvec::LruvecView;
use crate::reclaim::{DebugCommand, DebugError, ReclaimTask};
use crate::testing::{Host, Spec};

fn command(h: &mut Host, command: DebugCommand) -> Result<u64, DebugError> {
    let mut task = ReclaimTask::debug(&h.eng, h.memcg, NodeId(0), command, None, 0)?;
    let out = h.run(&mut task);
    h.eng.check();
    Ok(out.reclaimed)
}

fn age(seq: u64, force: bool) -> DebugCommand {
    DebugCommand::Age { seq, force }
}

#[test]
fn aging_takes_the_youngest_only_and_on_6_12_room() {
    for (p, needs_room) in [("v612", true), ("v618", false), ("v72", false)] {
        let mut h = Host::new(p);
        h.set_seqs(6, [4, 4]);
        h.fill(4, 3, Spec::file());
        let wrong = command(&mut h, age(5, false));
        assert_eq!(wrong, Err(DebugError::NotYoungest { seq: 5, max_seq: 6 }));
        assert_eq!(command(&mut h, age(6, false)), Ok(0), "{p}");
        assert_eq!((h.gens().max_seq, h.gens().min_seq), (7, [4, 4]));
        // Now there are four.
        if needs_room {
            let full = command(&mut h, age(7, false));
            assert_eq!(full, Err(DebugError::Full { min_seq: 4 }));
        }
        assert_eq!(command(&mut h, age(7, needs_room)), Ok(0));
        assert_eq!((h.gens().max_seq, h.gens().min_seq), (8, [5, 5]));
        assert_eq!(h.gen_pages(5, LruType::File), 3, "{p}: moved, not lost");
    }
}

#[test]
fn eviction_goes_up_to_a_generation_or_a_number() {
    for p in ["base", "v5", "merged"] {
        let mut h = Host::new(p);
        h.set_seqs(7, [4, 4]);
        h.fill(4, 10, Spec::file());
        h.fill(5, 100, Spec::file());
        h.fill(6, 5, Spec::file());
        let evict = |seq, nr| DebugCommand::Evict { seq, nr };
        for seq in [6, u64::MAX] {
            let young = command(&mut h, evict(seq, 1000));
            assert_eq!(young, Err(DebugError::TooYoung { seq, max_seq: 7 }));
        }
        assert_eq!(command(&mut h, evict(4, 1000)), Ok(10), "{p}: not beyond 4");
        assert_eq!(h.gen_pages(5, LruType::File), 100);
        assert_eq!(command(&mut h, evict(4, 1000)), Ok(0), "{p}: it is gone");
        let some = command(&mut h, evict(5, 30)).unwrap();
        assert!((30..=100).contains(&some), "{p}: {some}");
        let rest = command(&mut h, evict(5, 1000)).unwrap();
        assert_eq!(some + rest, 100, "{p}");
        assert_eq!(h.gen_pages(6, LruType::File), 5, "{p}");
    }
}

#[test]
fn eviction_ends_when_nothing_can_be_freed() {
    for p in ["base", "v5"] {
        let mut h = Host::new(p);
        h.set_seqs(7, [4, 4]);
        // Reclaim does not write file folios: they go up, and the generation is empty in the end.
        h.fill(4, 10, Spec::file().dirty());
        let gone = command(&mut h, DebugCommand::Evict { seq: 4, nr: 10 });
        assert_eq!(gone, Ok(0), "{p}");
        let left: u64 = (5..=7).map(|s| h.gen_pages(s, LruType::File)).sum();
        assert_eq!(left, 10, "{p}");
    }
}

#[test]
fn commands_need_generations() {
    let mut h = Host::new("classic");
    let refused = command(&mut h, age(3, false));
    assert_eq!(refused, Err(DebugError::NotMultiGen(h.memcg)));
    let none = MemcgId(77);
    let refused = ReclaimTask::debug(&h.eng, none, NodeId(0), age(3, false), None, 0);
    assert_eq!(refused.unwrap_err(), DebugError::NoLruvec(none, NodeId(0)));
    let refused = ReclaimTask::debug(&h.eng, h.memcg, NodeId(9), age(3, false), None, 0);
    assert_eq!(
        refused.unwrap_err(),
        DebugError::NoLruvec(h.memcg, NodeId(9))
    );
}

#[test]
fn the_dump_tells_generations_tiers_and_lists() {
    let mut h = Host::new("v5");
    h.set_seqs(7, [5, 4]);
    h.fill(4, 2, Spec::file());
    h.fill(5, 3, Spec::anon());
    let Some(LruvecView::MultiGen { gens, tiers }) = h.eng.lruvec_view(h.memcg, NodeId(0)) else {
        panic!("multi-gen")
    };
    let pages: Vec<_> = gens.iter().map(|g| (g.seq, g.anon, g.file)).collect();
    assert_eq!(
        pages,
        [
            (4, None, Some(2)),
            (5, Some(3), Some(0)),
            (6, Some(0), Some(0)),
            (7, Some(0), Some(0))
        ]
    );
    assert!(tiers.iter().flatten().all(|t| t.evicted == 0));
    assert_eq!(
        command(&mut h, DebugCommand::Evict { seq: 4, nr: 9 }),
        Ok(2)
    );
    let Some(LruvecView::MultiGen { tiers, .. }) = h.eng.lruvec_view(h.memcg, NodeId(0)) else {
        panic!("multi-gen")
    };
    let file = &tiers[1][0];
    assert_eq!(file.evicted + file.avg_total * 2, 2, "{file:?}");
    let mut h = Host::new("classic");
    h.add_many(4, Spec::file());
    let Some(LruvecView::Lists(lists)) = h.eng.lruvec_view(h.memcg, NodeId(0)) else {
        panic!("lists")
    };
    assert_eq!(
        lists.iter().map(|l| l.1).collect::<Vec<_>>(),
        [0, 0, 4, 0, 0]
    );
    assert_eq!(h.eng.lruvec_view(MemcgId(77), NodeId(0)), None);
}
