//! TLB state: which CPUs may hold translations of which address space, what is deferred, who is
//! interrupted (`docs/rules/tlb.md`).
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | CPUs and address spaces: loading, lazy mode, generations, masks |
//! | `call.rs` | the queue of function calls of a CPU: which call needs an interrupt of its own |
//! | `stale.rs` | translations whose flush is deferred |
//! | `access.rs` | accesses through them |
//! | `flush.rs` | the flushes of reclaim and of other operations, and their cost |

mod access;
pub(crate) mod call;
mod flush;
mod stale;

#[cfg(test)]
mod tests;

use crate::sim::CpuMask;
use call::CallQueue;
use coldset_engine::MmId;
use stale::Stale;

/// Address spaces whose translations a CPU can keep at the same time (6 on x86).
const ASIDS: usize = 6;
/// `pending` starts again at 0 when it gets above this.
const PENDING_MAX: u16 = 16_383;

/// Flushes that a reclaiming task has deferred.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlbBatch {
    /// CPUs that may hold one of the translations.
    pub(crate) cpus: CpuMask,
    /// Something is deferred.
    pub(crate) required: bool,
    /// One of the translations may be written through.
    pub(crate) writable: bool,
}

/// An address space.
#[derive(Debug, Default)]
pub(crate) struct MmTlb {
    /// CPUs that may hold its translations.
    pub(crate) cpus: CpuMask,
    /// CPUs that run it now.
    running: CpuMask,
    /// Grows by one with every flush, asked for or deferred.
    gen: u64,
    /// Unmaps deferred by reclaim.
    pending: u16,
    /// The value of `pending` that the last other operation has flushed.
    flushed: u16,
    /// Bits of CPUs that have left it are cleared by a flush at or after this time, ns.
    trim_at: u64,
}

/// A CPU.
#[derive(Debug, Default)]
struct CpuTlb {
    /// The address space whose tables it uses.
    loaded: Option<MmId>,
    /// It runs nothing of that address space: idle, or a kernel thread.
    lazy: bool,
    /// Address spaces it may hold translations of, with the generation it has caught up to.
    asids: [Option<(MmId, u64)>; ASIDS],
    next_asid: usize,
    /// Translations used since the last full flush, at most.
    live: u64,
    queue: CallQueue,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Tlb {
    cpus: Vec<CpuTlb>,
    mms: Vec<MmTlb>,
    stale: Vec<Stale>,
    /// CPUs leave masks lazily (6.14 and later), not when they load another address space.
    lazy_mask: bool,
    /// What flushes have cost that were asked for outside of a task, ns.
    pub(crate) owed_ns: u64,
}

impl CpuTlb {
    fn caught_up(&mut self, mm: MmId) -> Option<&mut u64> {
        let found = self.asids.iter_mut().flatten().find(|a| a.0 == mm);
        found.map(|a| &mut a.1)
    }

    /// The CPU has flushed everything of the address space that it uses.
    fn flushed(&mut self, gen: u64) {
        self.live = 0;
        if let Some(mm) = self.loaded {
            if let Some(at) = self.caught_up(mm) {
                *at = gen;
            }
        }
    }
}

impl Tlb {
    pub(crate) fn new(cpus: u16, lazy_mask: bool) -> Self {
        Self {
            cpus: (0..cpus).map(|_| CpuTlb::default()).collect(),
            lazy_mask,
            ..Self::default()
        }
    }

    pub(crate) fn add_mm(&mut self) {
        self.mms.push(MmTlb::default());
    }

    /// CPUs that may hold translations of an address space.
    pub(crate) fn mask(&self, mm: MmId) -> CpuMask {
        self.mms[mm.idx()].cpus
    }

    /// The CPU has used a translation.
    #[inline]
    pub(crate) fn used(&mut self, cpu: u16) {
        if let Some(c) = self.cpus.get_mut(usize::from(cpu)) {
            c.live += 1;
        }
    }

    /// The CPU has interrupts off from `from` to `to`, ns.
    #[inline]
    pub(crate) fn interrupts_off(&mut self, cpu: u16, from: u64, to: u64) {
        self.cpus[usize::from(cpu)].queue.interrupts_off(from, to);
    }

    /// True if the CPU runs the address space.
    #[inline]
    pub(crate) fn runs(&self, cpu: u16, mm: MmId) -> bool {
        let c = &self.cpus[usize::from(cpu)];
        c.loaded == Some(mm) && !c.lazy
    }

    /// The CPU turns to something without user memory; the tables stay loaded.
    pub(crate) fn go_lazy(&mut self, cpu: u16) {
        let c = &mut self.cpus[usize::from(cpu)];
        if let Some(mm) = c.loaded.filter(|_| !c.lazy) {
            c.lazy = true;
            self.mms[mm.idx()].running.remove(cpu);
            self.drop_stale_of(&CpuMask::single(cpu));
        }
    }

    /// The CPU turns to a thread of the address space. True if it had fallen behind and flushed.
    pub(crate) fn load(&mut self, cpu: u16, mm: MmId) -> bool {
        let gen = self.mms[mm.idx()].gen;
        let c = &mut self.cpus[usize::from(cpu)];
        let lazy = std::mem::take(&mut c.lazy);
        if c.loaded == Some(mm) {
            if !lazy {
                return false;
            }
        } else {
            let left = c.loaded.replace(mm);
            c.live = 0;
            if let Some(left) = left {
                let left = &mut self.mms[left.idx()];
                left.running.remove(cpu);
                if !self.lazy_mask {
                    left.cpus.remove(cpu);
                }
            }
            self.mms[mm.idx()].cpus.insert(cpu);
        }
        self.mms[mm.idx()].running.insert(cpu);
        self.drop_stale_of(&CpuMask::single(cpu));
        let c = &mut self.cpus[usize::from(cpu)];
        match c.caught_up(mm) {
            Some(at) => {
                let behind = *at < gen;
                if behind {
                    c.flushed(gen);
                }
                behind
            }
            None => {
                // Whatever had the number before is forgotten with it.
                let n = c.next_asid;
                c.asids[n] = Some((mm, gen));
                c.next_asid = (n + 1) % ASIDS;
                false
            }
        }
    }

    /// The address space is gone: no CPU needs to hear of it again.
    pub(crate) fn exit(&mut self, mm: MmId) {
        self.mms[mm.idx()] = MmTlb::default();
        for c in &mut self.cpus {
            if c.loaded == Some(mm) {
                c.loaded = None;
                c.lazy = false;
            }
            for a in &mut c.asids {
                *a = a.filter(|a| a.0 != mm);
            }
        }
        self.drop_stale_of_mm(mm);
    }
}
