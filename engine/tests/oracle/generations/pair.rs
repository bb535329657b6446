//! The engine with its host, and the model beside it.

use super::aging::ANON;
use super::host::{Host, Machine};
use super::model::{At, Model};
use super::request::{Request, Who};
use super::rules::Page;
use crate::host::{Name, CPUS};
use crate::Rng;

use coldset_engine::memcg::CounterKind;
use coldset_engine::reclaim::{DebugCommand, ReclaimKind, ReclaimTask, ScanControl};
use coldset_engine::{Config, NodeId};

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

pub(super) struct Pair {
    pub(super) what: String,
    pub(super) h: Host,
    pub(super) m: Model,
    pub(super) victims: u64,
}

impl Pair {
    pub(super) fn new(machine: &Machine, seed: u64, r: &mut Rng) -> Self {
        let slow = machine.swap > 0 && r.one_in(2);
        let (h, made) = Host::new(machine, r, slow);
        let mut m = Model::new(machine.preset, made, Config::default().seed, machine.nodes);
        m.span = machine.span;
        m.min_ttl = machine.min_ttl_ms * MS;
        (m.swap, m.fast_swap) = ([machine.swap; 2], !slow);
        let what = format!("{}, seed {seed}", machine.preset);
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
        for node in 0..self.m.nodes() {
            let w = &mut self.m.lruvec_mut(At { g, node }).walker;
            (w.space, w.ran, w.fresh) = (true, true, true);
        }
    }

    pub(super) fn offline(&mut self, g: usize) {
        self.h.eng.memcg_offline(self.h.ids[g]).unwrap();
        let group = &mut self.m.groups[g];
        (group.offline, group.made.min, group.made.low) = (true, 0, 0);
        let orders = &mut self.m.orders;
        orders.iter_mut().for_each(|o| o.offline(g));
    }

    pub(super) fn set_zones(&mut self, managed: u64, low: u64, high: u64) {
        self.h.set_zones(managed, low, high);
        for o in &mut self.m.orders {
            (o.managed, o.high) = (managed, high);
        }
    }

    pub(super) fn pass_time(&mut self, ns: u64) {
        self.m.now += ns;
        self.h.eng.set_now(self.m.now);
    }

    // ------------------------------------------------------------ what programs do

    /// One `read()` of a page of a file, or of a folio.
    pub(super) fn read(&mut self, cpu: usize, name: Name, new: Page) {
        if !self.m.pages.contains_key(&name) {
            self.h.bring_in(cpu, name, &new);
            self.m.bring_in(cpu, name, new);
        }
        self.h.eng.mark_accessed(cpu as u16, self.h.folios[&name]);
        let p = self.m.pages.get_mut(&name).unwrap();
        // What is on no list that is reclaimed has no use for them.
        if !p.unevictable {
            p.use_once();
        }
    }

    /// A load from a mapped page or from anonymous memory.
    pub(super) fn touch(&mut self, cpu: usize, name: Name, exec: bool, new: Page) {
        let anon = name.1 >= ANON;
        if let Some((&mm, _)) = self.h.spaces.iter().find(|s| *s.1 == name.0) {
            self.h.eng.mm_ran(mm);
            for node in 0..self.m.nodes() {
                let v = At { g: name.0, node };
                self.m.lruvec_mut(v).walker.ran = true;
            }
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
                    ..new
                };
                self.h.bring_in(cpu, name, &page);
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

    /// A page of a file has been evicted, and the next one to read it belongs to another memcg, if nobody does it before.
    pub(super) fn take_over(&mut self, from: Name, g: usize) {
        let to = (g, from.1);
        if from != to && !self.m.pages.contains_key(&to) {
            if let Some(e) = self.m.gone.remove(&from) {
                self.m.gone.insert(to, e);
                self.h.take_over(from, to);
            }
        }
    }

    pub(super) fn drop_page(&mut self, name: Name) {
        if self.m.pages.get(&name).is_some_and(|p| p.writeback) {
            return;
        }
        self.h.drop_page(name);
        (0..CPUS).for_each(|cpu| self.m.drain_cpu(cpu));
        if self.m.pages.get(&name).is_some_and(|p| p.locked) {
            self.m.unlock(0, name);
            (0..CPUS).for_each(|cpu| self.m.drain_cpu(cpu));
        }
        let had_slot = self.m.remove(name).is_some_and(|p| p.slot);
        if self.m.swapped.remove(&name) || had_slot {
            self.m.give_slot_back(name.0);
        }
        self.m.gone.remove(&name);
    }

    pub(super) fn lock(&mut self, cpu: usize, name: Name) {
        if self.m.pages.get(&name).is_some_and(|p| !p.locked) {
            self.h.eng.mlock(cpu as u16, self.h.folios[&name]);
            self.m.lock(cpu, name);
        }
    }

    pub(super) fn unlock(&mut self, cpu: usize, name: Name) {
        if self.m.pages.get(&name).is_some_and(|p| p.locked) {
            self.h.eng.munlock(cpu as u16, self.h.folios[&name]);
            self.m.unlock(cpu, name);
        }
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
        let (victims, task) = self
            .h
            .run(ReclaimTask::try_to_free(sc, 0, NodeId(q.node as u32)));
        self.m.victims.clear();
        let counted = self.m.reclaim(&mut q);
        assert_eq!(victims, self.m.victims, "{}: {q:?}", self.what);
        assert_eq!(task.outcome().reclaimed, counted, "{}", self.what);
        self.victims += victims.len() as u64;
    }

    /// A command opens a generation.
    pub(super) fn age_by_hand(&mut self, v: At, force: bool) {
        let (memcg, node) = (self.h.ids[v.g], NodeId(v.node as u32));
        let seq = self.m.lruvec(v).max;
        let command = DebugCommand::Age { seq, force };
        let task = ReclaimTask::debug(&self.h.eng, memcg, node, command, None, 0);
        self.m.age_by_hand(v, force);
        let (victims, _) = self.h.run(task.unwrap());
        assert_eq!(victims, [], "{}: {v:?}", self.what);
    }

    pub(super) fn kswapd(&mut self, node: usize) {
        let id = NodeId(node as u32);
        let task = ReclaimTask::kswapd(&mut self.h.eng, id, 0, 0, 0);
        let (victims, _) = self.h.run(task);
        self.m.victims.clear();
        self.m.kswapd(node);
        assert_eq!(victims, self.m.victims, "{}: kswapd", self.what);
        let failures = self.h.eng.nodes[node].kswapd_failures();
        assert_eq!(failures, self.m.orders[node].failures, "{}", self.what);
        self.victims += victims.len() as u64;
    }
}
