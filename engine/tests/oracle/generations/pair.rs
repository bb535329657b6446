//! The engine with its host, and the model beside it.

use super::aging::ANON;
use super::host::Host;
use super::model::{Counts, Model};
use super::request::{Request, Who};
use super::rules::Page;
use crate::host::{Name, CPUS};
use crate::Rng;
use coldset_engine::lruvec::LruList;
use coldset_engine::memcg::CounterKind;
use coldset_engine::reclaim::{ReclaimKind, ReclaimTask, ScanControl};
use coldset_engine::{Config, Counter, Flags, NodeId};

pub(super) struct Pair {
    pub(super) what: String,
    pub(super) h: Host,
    pub(super) m: Model,
    pub(super) victims: u64,
}

impl Pair {
    /// `span`: pages of each type that a memcg has. `swap`: pages.
    pub(super) fn new(preset: &str, seed: u64, r: &mut Rng, span: u32, swap: u64) -> Self {
        let slow = swap > 0 && r.one_in(2);
        let (mut h, made) = Host::new(preset, r, swap, slow);
        let mut m = Model::new(preset, made, Config::default().seed);
        (m.span, h.span) = (span, span);
        (m.swap, m.fast_swap) = ([swap; 2], !slow);
        let what = format!("{preset}, seed {seed}");
        let victims = 0;
        Pair {
            what,
            h,
            m,
            victims,
        }
    }

    pub(super) fn set_swappiness(&mut self, g: usize, value: u64) {
        let tree = &mut self.h.eng.memcgs;
        tree.set_swappiness(self.h.ids[g], Some(value as u8))
            .unwrap();
        self.m.groups[g].swappiness = value;
    }

    pub(super) fn set_swap_max(&mut self, g: usize, pages: u64) {
        let tree = &mut self.h.eng.memcgs;
        tree.set_max(self.h.ids[g], CounterKind::Swap, pages)
            .unwrap();
        self.m.groups[g].swap_max = pages;
    }

    pub(super) fn set_min(&mut self, g: usize, pages: u64) {
        let tree = &mut self.h.eng.memcgs;
        tree.set_min(self.h.ids[g], pages).unwrap();
        self.m.groups[g].made.min = pages;
    }

    /// The programs of the memcg have an address space that is walked.
    pub(super) fn add_space(&mut self, g: usize) {
        let mm = self.h.eng.mm_create(self.h.ids[g]);
        self.h.spaces.insert(mm, g);
        let w = &mut self.m.groups[g].walker;
        (w.space, w.ran, w.fresh) = (true, true, true);
    }

    pub(super) fn offline(&mut self, g: usize) {
        self.h.eng.memcg_offline(self.h.ids[g]).unwrap();
        let group = &mut self.m.groups[g];
        (group.offline, group.made.min, group.made.low) = (true, 0, 0);
        self.m.order.offline(g);
    }

    pub(super) fn set_zone(&mut self, managed: u64, low: u64, high: u64) {
        self.h.set_zone(managed, low, high);
        (self.m.order.managed, self.m.order.high) = (managed, high);
    }

    // ------------------------------------------------------------ what programs do

    /// One `read()` of a page of a file.
    pub(super) fn read(&mut self, cpu: usize, name: Name) {
        if !self.m.pages.contains_key(&name) {
            self.h.bring_in(cpu, name, false, false);
            self.m.bring_in(cpu, name, Page::default());
        }
        self.h.eng.mark_accessed(cpu as u16, self.h.folios[&name]);
        self.m.pages.get_mut(&name).unwrap().use_once();
    }

    /// A load from a mapped page or from anonymous memory.
    pub(super) fn touch(&mut self, cpu: usize, name: Name, exec: bool) {
        let anon = name.1 >= ANON;
        if let Some((&mm, _)) = self.h.spaces.iter().find(|s| *s.1 == name.0) {
            self.h.eng.mm_ran(mm, 0);
            self.m.groups[name.0].walker.ran = true;
        }
        match self.m.pages.get_mut(&name) {
            Some(p) if p.mapped => {
                p.young = true;
                self.h.table.get_mut(&name).unwrap().young = true;
            }
            Some(p) => {
                (p.mapped, p.young, p.exec) = (true, true, exec);
                self.h.map(name, exec);
            }
            None => {
                let page = Page {
                    anon,
                    exec,
                    mapped: true,
                    young: true,
                    ..Page::default()
                };
                self.h.bring_in(cpu, name, true, exec);
                self.m.bring_in(cpu, name, page);
            }
        }
    }

    pub(super) fn dirty(&mut self, name: Name) {
        if let Some(page) = self.m.pages.get_mut(&name) {
            page.dirty = true;
            self.h.eng.set_dirty(self.h.folios[&name]);
        }
    }

    /// A page of a file is written, if it is dirty; or a write to swap ends.
    pub(super) fn write(&mut self, cpu: usize, name: Name) {
        let Some(p) = self.m.pages.get_mut(&name) else {
            return;
        };
        let id = self.h.folios[&name];
        if !p.anon && p.dirty && !p.writeback {
            (p.dirty, p.writeback) = (false, true);
            self.h.eng.clear_dirty(id);
            self.h.eng.writeback_start(id);
        }
        if p.writeback {
            self.h.eng.writeback_end(cpu as u16, id);
            self.m.written(cpu, name);
        }
    }

    /// A write to a file begins, and takes its time.
    pub(super) fn begin_write(&mut self, name: Name) {
        let Some(p) = self.m.pages.get_mut(&name) else {
            return;
        };
        if !p.anon && p.dirty && !p.writeback {
            let id = self.h.folios[&name];
            (p.dirty, p.writeback) = (false, true);
            self.h.eng.clear_dirty(id);
            self.h.eng.writeback_start(id);
        }
    }

    pub(super) fn drop_page(&mut self, name: Name) {
        if self.m.pages.get(&name).is_some_and(|p| p.writeback) {
            return;
        }
        self.h.drop_page(name);
        (0..CPUS).for_each(|cpu| self.m.drain_cpu(cpu));
        let had_slot = self.m.remove(name).is_some_and(|p| p.slot);
        if self.m.swapped.remove(&name) || had_slot {
            self.m.give_slot_back(name.0);
        }
        self.m.gone.remove(&name);
    }

    // ------------------------------------------------------------ reclaim

    pub(super) fn reclaim(&mut self, mut q: Request) {
        let target = (!q.root()).then(|| self.h.ids[q.target]);
        let mut sc = ScanControl::new(q.want, target);
        sc.swappiness = q.swappiness.map(|s| s as u16);
        sc.may_swap = q.may_swap;
        if q.who == Who::Proactive {
            sc.kind = ReclaimKind::Proactive;
        }
        let (victims, task) = self.h.run(ReclaimTask::try_to_free(sc, 0, NodeId(0)));
        self.m.victims.clear();
        let counted = self.m.reclaim(&mut q);
        assert_eq!(victims, self.m.victims, "{}: {q:?}", self.what);
        assert_eq!(task.outcome().reclaimed, counted, "{}", self.what);
        self.victims += victims.len() as u64;
    }

    pub(super) fn kswapd(&mut self) {
        let task = ReclaimTask::kswapd(&mut self.h.eng, NodeId(0), 0, 0, 0);
        let (victims, _) = self.h.run(task);
        self.m.victims.clear();
        self.m.kswapd();
        assert_eq!(victims, self.m.victims, "{}: kswapd", self.what);
        let failures = self.h.eng.nodes[0].kswapd_failures();
        assert_eq!(failures, self.m.order.failures, "{}", self.what);
        self.victims += victims.len() as u64;
    }

    // ------------------------------------------------------------ everything that can be seen

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
                (Flags::LRU, p.on.is_some()),
            ];
            for (flag, set) in flags {
                assert_eq!(f.has(flag), set, "{what}: {name:?} {flag:?}: {p:?}");
            }
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
            let first = group.min[0].min(group.min[1]);
            let sizes = |seq| [seq, self.m.size(g, 0, seq), self.m.size(g, 1, seq)];
            let want: Vec<_> = (first..=group.max).map(sizes).collect();
            assert_eq!(
                eng.generations(id),
                want,
                "{what}: generations of {g}, {:?}",
                group.min
            );
            assert_eq!(self.counts(g), group.counts, "{what}: counters of {g}");
            let lruvec = eng.lruvec(eng.lruvec_id(id, NodeId(0)));
            for (kind, lists) in [
                [LruList::InactiveAnon, LruList::ActiveAnon],
                [LruList::InactiveFile, LruList::ActiveFile],
            ]
            .into_iter()
            .enumerate()
            {
                let want = self.m.lists(g, kind);
                let got = lists.map(|l| lruvec.size_all(l));
                assert_eq!(got, want, "{what}: lists of {g}");
            }
            if g > 0 {
                let m = eng.memcgs.get(id).unwrap();
                let usage = [m.memory().usage(), m.swap().usage()];
                assert_eq!(usage, [self.m.usage(g), group.swap_used], "{what}: {g}");
            }
            let walked = eng.memcgs.local(id).get(Counter::WalkPtes);
            assert_eq!(walked, group.walker.looked_at, "{what}: walks of {g}");
        }
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
            low_events: stat.get(Counter::EventsLow),
        }
    }
}
