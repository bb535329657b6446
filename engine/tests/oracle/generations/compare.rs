//! Everything that can be seen of the engine is as it is in the model.

use super::model::{At, Counts, Tier};
use super::pair::Pair;
use coldset_engine::lruvec::{LruList, LruvecView};
use coldset_engine::{Counter, Flags, NodeId};

impl Pair {
    pub(super) fn compare(&self) {
        let (eng, what) = (&self.h.eng, &self.what);
        for (name, p) in &self.m.pages {
            let f = eng.folio(self.h.folios[name]);
            let flags = [
                (Flags::ACTIVE, p.active),
                (Flags::REFERENCED, p.refs > 0),
                (Flags::WORKINGSET, p.workingset),
                (Flags::RECLAIM, p.reclaim),
                (Flags::DIRTY, p.dirty),
                (Flags::WRITEBACK, p.writeback),
                (Flags::SWAPCACHE, p.slot),
                (Flags::MLOCKED, p.locked),
                (Flags::UNEVICTABLE, p.unevictable),
                (Flags::LRU, p.on.is_some() || p.unevictable),
            ];
            for (flag, set) in flags {
                assert_eq!(f.has(flag), set, "{what}: {name:?} {flag:?}: {p:?}");
            }
            let uses = if p.refs > 0 { p.refs - 1 } else { p.hidden };
            let field = f.word().refs();
            assert_eq!(u64::from(field), uses, "{what}: {name:?} {p:?}");
            let gen = p.on.map(|on| (on.gen % 4) as usize);
            assert_eq!(f.word().gen(), gen, "{what}: {name:?} {p:?}");
            let young = self.h.table.get(name).map(|e| e.young);
            let want = p.mapped.then_some(p.young);
            assert_eq!(young, want, "{what}: {name:?} {p:?}");
        }
        assert_eq!(eng.nr_folios(), self.m.pages.len());
        assert_eq!(self.machine(), self.m.machine, "{what}: the machine");
        for (g, group) in self.m.groups.iter().enumerate() {
            let id = self.h.ids[g];
            assert_eq!(self.counts(g), group.counts, "{what}: counters of {g}");
            (0..self.m.nodes()).for_each(|node| self.compare_lruvec(At { g, node }));
            if g > 0 {
                let m = eng.memcgs.get(id).unwrap();
                let usage = [m.memory().usage(), m.swap().usage()];
                assert_eq!(usage, [self.m.usage(g), group.swap_used], "{what}: {g}");
            }
            let walked = eng.memcgs.local(id).get(Counter::WalkPtes);
            let nodes = 0..self.m.nodes();
            let looked_at = nodes.map(|node| self.m.lruvec(At { g, node }).walker.looked_at);
            assert_eq!(walked, looked_at.sum::<i64>(), "{what}: walks of {g}");
        }
    }

    fn compare_lruvec(&self, v: At) {
        let (eng, what) = (&self.h.eng, &self.what);
        let (id, node, l) = (self.h.ids[v.g], NodeId(v.node as u32), self.m.lruvec(v));
        let Some(LruvecView::MultiGen { gens, tiers }) = eng.lruvec_view(id, node) else {
            panic!("{what}: generations of {v:?}");
        };
        let first = l.min[0].min(l.min[1]);
        let sizes = self.m.sizes(v);
        let size = |kind: usize, seq| {
            let size = sizes.get(&(kind, seq)).copied().unwrap_or(0);
            (seq >= l.min[kind]).then_some(size)
        };
        let want: Vec<_> = (first..=l.max)
            .map(|seq| (seq, self.m.now - l.born[&seq], size(0, seq), size(1, seq)))
            .collect();
        let got: Vec<_> = gens
            .iter()
            .map(|g| (g.seq, g.age, g.anon, g.file))
            .collect();
        assert_eq!(got, want, "{what}: generations of {v:?}, {:?}", l.min);
        let got = tiers.map(|of| {
            of.map(|t| Tier {
                refaulted: t.refaulted,
                total: t.evicted + t.protected,
                old_refaulted: t.avg_refaulted,
                old_total: t.avg_total,
            })
        });
        assert_eq!(got, l.tiers, "{what}: tiers of {v:?}");
        let lruvec = eng.lruvec(eng.lruvec_id(id, node));
        for (kind, lists) in [
            [LruList::InactiveAnon, LruList::ActiveAnon],
            [LruList::InactiveFile, LruList::ActiveFile],
        ]
        .into_iter()
        .enumerate()
        {
            let want = self.m.lists(v, kind);
            let got = lists.map(|l| lruvec.size_all(l));
            assert_eq!(got, want, "{what}: lists of {v:?}");
        }
        let locked = lruvec.size_all(LruList::Unevictable);
        assert_eq!(locked, self.m.unevictable(v), "{what}: locked in {v:?}");
    }

    /// Counts of the machine: scanned and freed by who asked, and sorted.
    fn machine(&self) -> ([[i64; 2]; 3], i64) {
        let vm = self.h.eng.vmstat();
        let by_who = [
            [Counter::PgscanDirect, Counter::PgstealDirect],
            [Counter::PgscanProactive, Counter::PgstealProactive],
            [Counter::PgscanKswapd, Counter::PgstealKswapd],
        ];
        let by_who = by_who.map(|of| of.map(|c| vm.get(c)));
        (by_who, vm.get(Counter::Pgrefill))
    }

    fn counts(&self, g: usize) -> Counts {
        let stat = self.h.eng.memcgs.local(self.h.ids[g]);
        let two = |a, b| [stat.get(a), stat.get(b)];
        Counts {
            refaults: two(Counter::RefaultAnon, Counter::RefaultFile),
            activated_refaults: two(Counter::ActivateAnon, Counter::ActivateFile),
            restored: two(Counter::RestoreAnon, Counter::RestoreFile),
            scanned: two(Counter::PgscanAnon, Counter::PgscanFile),
            stolen: two(Counter::PgstealAnon, Counter::PgstealFile),
            sorted: stat.get(Counter::Pgrefill),
            activated: stat.get(Counter::Pgactivate),
            rotated: stat.get(Counter::Pgrotated),
            culled: stat.get(Counter::UnevictableCulled),
            rescued: stat.get(Counter::UnevictableRescued),
            low_events: stat.get(Counter::EventsLow),
        }
    }
}
