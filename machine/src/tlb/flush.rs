//! Flushes and what they cost (`docs/rules/tlb.md`).

use super::call::CallCost;
use super::{Tlb, PENDING_MAX};
use crate::ctx::Ctx;
use crate::mem::MappingId;
use crate::params::Params;
use crate::sim::{ContextSwitch, CpuMask, TimeClass};
use crate::world::World;
use coldset_engine::{Counter, FolioId, MemcgId, MmId};

/// Bits of CPUs that have left an address space are cleared at most this often, ns.
const TRIM_NS: u64 = 1_000_000_000;

/// What is to be flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Everything, whatever address space the CPU uses.
    All,
    /// This many pages of one address space.
    Pages(MmId, u64),
}

impl Tlb {
    /// What a full flush loses: translations that must be walked for again.
    fn refill_ns(&self, cpu: u16, p: &Params) -> u64 {
        let live = self.cpus[usize::from(cpu)].live;
        live.min(p.tlb_capacity_pages) * p.tlb_walk_ns
    }

    /// A flush reaches a CPU, its own included. Returns its cost beyond interrupt and handler,
    /// whether it flushed everything, and pages it flushed singly. If it did either, the caller drops
    /// what was stale there.
    fn flush_on(&mut self, cpu: u16, what: What, p: &Params) -> (u64, bool, u64) {
        let c = &mut self.cpus[usize::from(cpu)];
        let Some(loaded) = c.loaded else {
            return (0, false, 0);
        };
        if let What::Pages(mm, _) = what {
            if loaded != mm {
                return (0, false, 0);
            }
        }
        let gen = self.mms[loaded.idx()].gen;
        let at = c.caught_up(loaded).map_or(gen, |at| *at);
        if at >= gen {
            return (0, false, 0);
        }
        let singly = match what {
            // Only if this is all that it has missed.
            What::Pages(_, n) if n <= p.tlb_single_flush_max_pages && at + 1 == gen => n,
            _ => 0,
        };
        let refill = match singly {
            0 => self.refill_ns(cpu, p),
            n => n * p.tlb_local_flush_ns,
        };
        let c = &mut self.cpus[usize::from(cpu)];
        let live = c.live;
        c.flushed(gen);
        if singly > 0 {
            c.live = live.saturating_sub(singly);
        }
        (refill, singly == 0, singly)
    }
}

impl World {
    /// A CPU switches. Returns what that takes beyond the switch itself, ns.
    pub(crate) fn context_switch(&mut self, switch: ContextSwitch) -> u64 {
        // Tasks have their address space as tag, plus 1: 0 is a kernel thread.
        let tag = switch.next.map_or(0, |(_, tag)| tag);
        self.switches.note(tag);
        if tag == 0 {
            self.tlb.go_lazy(switch.cpu);
            return 0;
        }
        self.load_mm(switch.cpu, MmId(tag - 1))
    }

    /// The CPU uses the address space from now on. Returns the cost, ns.
    pub(crate) fn load_mm(&mut self, cpu: u16, mm: MmId) -> u64 {
        if self.tlb.runs(cpu, mm) || !self.tlb.load(cpu, mm) {
            return 0;
        }
        let memcg = self.mms[mm.idx()].memcg;
        self.engine.count(memcg, Counter::TlbLocalFlushAll, 1);
        self.params.tlb_local_flush_ns
    }

    /// An entry has been removed by reclaim. True if its flush is deferred, else it has happened.
    pub(crate) fn defer_flush(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        folio: FolioId,
        dirty: bool,
    ) -> bool {
        let mm = self.mappings[mapping.0 as usize].mm;
        let memcg = self.mms[mm.idx()].memcg;
        let state = &mut self.tlb.mms[mm.idx()];
        let cpus = state.cpus;
        if !cpus.has_other(ctx.cpu()) {
            ctx.charge(TimeClass::AllocStall, self.params.tlb_local_flush_ns);
            let c = Counter::TlbLocalFlushOne;
            self.engine.count(memcg, c, 1);
            return false;
        }
        state.gen += 1;
        state.pending += 1;
        if state.pending > PENDING_MAX {
            (state.pending, state.flushed) = (1, 0);
        }
        self.tlb.add_stale(mm, mapping, entry, folio, dirty);
        let mut batch = ctx.tlb.borrow_mut();
        batch.cpus = batch.cpus.or(&cpus);
        batch.required = true;
        batch.writable |= dirty;
        self.engine.count(memcg, Counter::UnmapPending, 1);
        true
    }

    /// Flushes what the task has deferred, on every CPU that may hold any of it. For a write only if
    /// some of it may be written through.
    pub(crate) fn flush_deferred(&mut self, ctx: &Ctx, for_write: bool) {
        let batch = {
            let mut b = ctx.tlb.borrow_mut();
            if !b.required || (for_write && !b.writable) {
                return;
            }
            std::mem::take(&mut *b)
        };
        let ns = self.flush_cpus(Some(ctx.cpu()), ctx.now(), ctx.memcg, batch.cpus, What::All);
        ctx.charge(TimeClass::AllocStall, ns);
    }

    /// Another operation on an address space removes or restricts entries: what reclaim has deferred
    /// there is flushed first, for the operation's own decisions assume that nothing is stale. Then
    /// its own `pages` entries are. Returns the cost, ns.
    pub(crate) fn flush_mm(&mut self, cpu: Option<u16>, now: u64, mm: MmId, pages: u64) -> u64 {
        let mut ns = self.flush_pending(cpu, now, mm);
        let state = &self.tlb.mms[mm.idx()];
        if pages > 0 && !state.cpus.is_empty() {
            ns += self.flush_own(cpu, now + ns, mm, pages);
        }
        ns
    }

    /// Flushes what reclaim has deferred in an address space. Returns the cost, ns.
    pub(crate) fn flush_pending(&mut self, cpu: Option<u16>, now: u64, mm: MmId) -> u64 {
        let state = &mut self.tlb.mms[mm.idx()];
        if state.pending == state.flushed {
            return 0;
        }
        state.flushed = state.pending;
        let memcg = self.mms[mm.idx()].memcg;
        self.engine.count(memcg, Counter::UnmapFlushMm, 1);
        self.flush_own(cpu, now, mm, u64::MAX)
    }

    /// Flushes an address space for the sake of a deferred flush in it. Returns the cost, ns.
    pub(crate) fn flush_pending_or_own(&mut self, cpu: Option<u16>, now: u64, mm: MmId) -> u64 {
        match self.flush_pending(cpu, now, mm) {
            // Flushed by an operation before, and deferred again: the counters have met.
            0 => self.flush_own(cpu, now, mm, u64::MAX),
            ns => ns,
        }
    }

    fn flush_own(&mut self, cpu: Option<u16>, now: u64, mm: MmId, pages: u64) -> u64 {
        let lazy_mask = self.tlb.lazy_mask;
        let state = &mut self.tlb.mms[mm.idx()];
        state.gen += 1;
        let trim = lazy_mask && now >= state.trim_at;
        if trim {
            state.trim_at = now + TRIM_NS;
        }
        let mask = state.cpus;
        // A CPU that runs another address space compares generations when it comes back.
        let targets: CpuMask = mask
            .iter()
            .filter(|&c| trim || self.tlb.cpus[usize::from(c)].loaded == Some(mm))
            .collect();
        let memcg = self.mms[mm.idx()].memcg;
        let ns = self.flush_cpus(cpu, now, memcg, targets, What::Pages(mm, pages));
        if trim {
            for c in mask.iter() {
                if self.tlb.cpus[usize::from(c)].loaded != Some(mm) {
                    self.tlb.mms[mm.idx()].cpus.remove(c);
                }
            }
        }
        ns
    }

    /// Interrupts the CPUs that run something and waits for them. Returns the sender's time, ns.
    pub(super) fn flush_cpus(
        &mut self,
        cpu: Option<u16>,
        now: u64,
        memcg: MemcgId,
        mask: CpuMask,
        what: What,
    ) -> u64 {
        let here = cpu.map_or(CpuMask::EMPTY, CpuMask::single);
        let remote = mask.without(&here);
        let p = &self.params;
        let config = *self.sim.config();
        let socket = cpu.map(|c| config.node_of(c));
        let (mut all, mut one, mut skipped, mut received, mut interrupts) = (0, 0, 0, 0i64, 0);
        let mut end = now + p.tlb_local_flush_ns;
        let mut flushed = CpuMask::EMPTY;
        for target in remote.iter() {
            if self.tlb.cpus[usize::from(target)].lazy {
                skipped += 1;
                continue;
            }
            received += 1;
            // The delivery to a CPU of the same socket overlaps with the sending.
            let sent = now + p.tlb_base_ns + p.tlb_target_ns * received as u64;
            let (own, flushed_all, singly) = self.tlb.flush_on(target, what, p);
            let idle = !flushed_all && singly == 0;
            if !idle {
                flushed.insert(target);
            }
            let cost = CallCost {
                deliver: if socket.is_none_or(|s| s == config.node_of(target)) {
                    p.tlb_deliver_ns
                } else {
                    p.tlb_deliver_ns * p.tlb_cross_socket_permille / 1000
                },
                irq: p.tlb_irq_ns,
                handler: if idle { 0 } else { p.tlb_handler_ns },
            };
            let queue = &mut self.tlb.cpus[usize::from(target)].queue;
            let called = queue.request(sent.saturating_sub(p.tlb_deliver_ns).max(now), cost);
            end = end.max(sent + p.tlb_handler_ns).max(called.done);
            all += i64::from(flushed_all);
            one += singly as i64;
            interrupts += i64::from(called.interrupt);
            self.sim.steal(target, called.stolen + own);
        }
        let mut ns = end - now;
        if cpu.is_some_and(|c| mask.contains(c)) {
            let own = here.lowest().unwrap_or(0);
            let (refill, flushed_all, singly) = self.tlb.flush_on(own, what, p);
            if flushed_all || singly > 0 {
                flushed.insert(own);
            }
            ns += refill;
            // A batch flushes here whether or not it must.
            all += i64::from(flushed_all || what == What::All);
            one += singly as i64;
        }
        self.tlb.drop_stale_of(&flushed);
        let mut count = |c, n: i64| {
            if n > 0 {
                self.engine.count(memcg, c, n);
            }
        };
        count(Counter::TlbRemoteFlush, i64::from(!remote.is_empty()));
        count(Counter::TlbRemoteFlushReceived, received);
        count(Counter::CallIpis, interrupts);
        count(Counter::TlbLazySkipped, skipped);
        count(Counter::TlbLocalFlushAll, all);
        count(Counter::TlbLocalFlushOne, one);
        ns
    }

    /// What flushes have cost that were asked for outside of a task.
    pub(crate) fn take_flush_debt(&mut self) -> u64 {
        std::mem::take(&mut self.tlb.owed_ns)
    }
}
