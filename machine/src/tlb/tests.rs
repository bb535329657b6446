//! Worked examples of `docs/rules/tlb.md` that need CPUs, and the rules of masks.

use super::flush::What;
use crate::config::{MachineConfig, SwapConfig};
use crate::ctx::{Ctx, InlineClock};
use crate::device::DeviceKind;
use crate::machine::MachineRun;
use crate::mem::{MappingFlags, MappingId, Pte};
use crate::sim::{Affinity, CpuMask};
use coldset_engine::presets::preset;
use coldset_engine::{Counter, FolioId, MemcgId, MmId};

struct Fixture {
    run: MachineRun,
    mm: MmId,
    map: MappingId,
    ctx: Ctx,
}

/// A process with 64 pages of memory, on CPU 0.
fn fixture(cpus: u16) -> Fixture {
    let mut cfg = MachineConfig::new(preset("base").unwrap());
    cfg.cpus = cpus;
    cfg.swap = SwapConfig::Disk {
        pages: 1024,
        device: DeviceKind::Nvme,
    };
    let run = MachineRun::new(&cfg).unwrap();
    let memcg = run
        .machine
        .world_mut()
        .engine
        .memcg_create(MemcgId::ROOT)
        .unwrap();
    let mm = run.machine.create_mm(memcg);
    let object = run.machine.create_anon(64);
    let map = run.machine.mmap(mm, object, 0, 64, MappingFlags::empty());
    let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
    Fixture { run, mm, map, ctx }
}

impl Fixture {
    /// Loads or stores on CPU 0.
    fn access(&mut self, page: u32, write: bool) {
        let m = self.run.machine.clone();
        self.run
            .run_inline(&self.ctx, m.access(&self.ctx, self.map, page, write))
            .unwrap();
    }

    fn folio(&self, page: u32) -> FolioId {
        let w = self.run.machine.world();
        let object = w.mappings[self.map.0 as usize].object;
        w.object(object).word(page).folio().unwrap()
    }

    /// Unmaps pages for reclaim: (deferred, writable).
    fn unmap(&self, page: u32) -> (bool, bool) {
        let folio = self.folio(page);
        self.run.machine.world_mut().unmap_folio(&self.ctx, folio)
    }

    fn load_on(&self, cpus: impl IntoIterator<Item = u16>) {
        for cpu in cpus {
            self.run.machine.world_mut().load_mm(cpu, self.mm);
        }
    }

    /// Flushes what is deferred. Returns the sender's time, ns.
    fn flush(&self, for_write: bool) -> u64 {
        let before = self.ctx.now();
        self.run
            .machine
            .world_mut()
            .flush_deferred(&self.ctx, for_write);
        self.ctx.now() - before
    }

    fn count(&self, c: Counter) -> i64 {
        self.run.machine.world().engine.vmstat().get(c)
    }

    fn remote(&self) -> (i64, i64, i64) {
        (
            self.count(Counter::TlbRemoteFlush),
            self.count(Counter::TlbRemoteFlushReceived),
            self.count(Counter::TlbLocalFlushAll),
        )
    }
}

#[test]
fn t1_one_dirty_page_and_a_lazy_cpu() {
    let mut f = fixture(8);
    f.access(0, true);
    f.load_on(1..4);
    f.run.machine.world_mut().tlb.go_lazy(3);
    // What is lost is walked for again: here the walk costs nothing, to see the flush alone.
    f.run.machine.world_mut().params.tlb_walk_ns = 0;
    assert_eq!(f.unmap(0), (true, true));
    assert_eq!(f.flush(true), 1_400);
    // Local flushes: on CPU 0, and on each of the two that were interrupted.
    assert_eq!(f.remote(), (1, 2, 3));
    assert_eq!(f.count(Counter::TlbLazySkipped), 1);
    assert_eq!(f.count(Counter::CallIpis), 2);
    // CPU 3 flushes when it runs the address space again, once.
    f.load_on([3, 3]);
    f.run.machine.world_mut().tlb.go_lazy(3);
    f.load_on([3]);
    assert_eq!(f.remote(), (1, 2, 4));
}

#[test]
fn t3_a_list_of_32_on_16_cpus() {
    for (size, ns, shootdowns, flushes) in [(1, 128_000, 480, 32), (31, 8_000, 30, 2)] {
        let mut f = fixture(16);
        f.run.machine.world_mut().params.tlb_walk_ns = 0;
        (0..32).for_each(|page| f.access(page, true));
        f.load_on(1..16);
        let mut ns_all = 0;
        for page in 0..32 {
            f.unmap(page);
            if (page + 1) % size == 0 {
                ns_all += f.flush(true);
            }
        }
        ns_all += f.flush(true);
        assert_eq!(
            (ns_all, f.remote().1, f.remote().0),
            (ns, shootdowns, flushes)
        );
    }
}

#[test]
fn t5_a_process_on_the_reclaimers_cpu_only() {
    let mut f = fixture(4);
    (0..32).for_each(|page| f.access(page, true));
    for page in 0..32 {
        assert_eq!(f.unmap(page), (false, false));
    }
    assert_eq!(f.flush(false), 0);
    assert_eq!(f.remote(), (0, 0, 0));
    assert_eq!(f.count(Counter::TlbLocalFlushOne), 32);
    assert_eq!(f.count(Counter::CallIpis), 0);
}

#[test]
fn t7_requests_share_an_interrupt() {
    let mut f = fixture(8);
    f.access(0, true);
    f.access(1, true);
    f.load_on([5]);
    let machine = f.run.machine.clone();
    // CPU 0 counts as a bystander: reclaimers are on 1 and 2.
    machine.world_mut().tlb.go_lazy(0);
    for cpu in [1, 2] {
        f.unmap(u32::from(cpu) - 1);
        let mut w = machine.world_mut();
        let mask = CpuMask::single(5);
        w.flush_cpus(Some(cpu), 10_000, f.ctx.memcg, mask, What::All);
    }
    assert_eq!(f.remote().1, 2);
    assert_eq!(f.count(Counter::CallIpis), 1);
}

#[test]
fn t8_munmap_before_the_reclaimer_flushes() {
    let mut f = fixture(4);
    (0..3).for_each(|page| f.access(page, true));
    f.load_on([1]);
    (0..3).for_each(|page| assert!(f.unmap(page).0));
    {
        let mut w = f.run.machine.world_mut();
        let state = &w.tlb.mms[f.mm.idx()];
        assert_eq!((state.pending, state.flushed), (3, 0));
        w.flush_mm(Some(0), 0, f.mm, 0);
        let state = &w.tlb.mms[f.mm.idx()];
        assert_eq!((state.pending, state.flushed), (3, 3));
    }
    assert_eq!(f.count(Counter::UnmapFlushMm), 1);
    assert_eq!(f.remote(), (1, 1, 2));
    // The task does not know; the receiver finds its generation current.
    f.flush(true);
    assert_eq!(f.remote(), (2, 2, 3), "the third is the sender's own");
    // Nothing new is pending: the next operation finds nothing to do.
    f.run.machine.world_mut().flush_mm(Some(0), 0, f.mm, 0);
    assert_eq!(f.count(Counter::UnmapFlushMm), 1);
}

#[test]
fn pending_starts_again() {
    let mut f = fixture(2);
    f.access(0, true);
    f.load_on([1]);
    let state = |f: &Fixture| {
        let w = f.run.machine.world();
        let s = &w.tlb.mms[f.mm.idx()];
        (s.pending, s.flushed)
    };
    {
        let mut w = f.run.machine.world_mut();
        let s = &mut w.tlb.mms[f.mm.idx()];
        (s.pending, s.flushed) = (16_383, 16_383);
    }
    f.unmap(0);
    assert_eq!(state(&f), (1, 0));
}

#[test]
fn ranged_flushes_go_page_by_page_up_to_33() {
    for (pages, one) in [(33, 33), (34, 0)] {
        let mut f = fixture(2);
        (0..pages).for_each(|page| f.access(page, true));
        f.load_on([1]);
        let m = f.run.machine.clone();
        m.munmap(&f.ctx, f.map);
        assert_eq!(f.count(Counter::TlbRemoteFlush), 1);
        // On both CPUs.
        assert_eq!(f.count(Counter::TlbLocalFlushOne), 2 * one);
        assert_eq!(
            f.count(Counter::TlbLocalFlushAll),
            if one == 0 { 2 } else { 0 }
        );
    }
}

#[test]
fn masks_are_left_eagerly_or_lazily() {
    for (lazy, left) in [(false, 1), (true, 2)] {
        let mut f = fixture(2);
        f.run.machine.world_mut().tlb.lazy_mask = lazy;
        f.access(0, true);
        f.load_on([1]);
        let other = f.run.machine.create_mm(f.ctx.memcg);
        let mut w = f.run.machine.world_mut();
        w.tlb.go_lazy(1);
        assert_eq!(
            w.cpumask(f.mm).count(),
            2,
            "kernel threads and idling leave no mask"
        );
        w.load_mm(1, other);
        assert_eq!(w.cpumask(f.mm).count(), left);
        // A flush trims what is left, once a second.
        w.flush_mm(Some(0), 0, f.mm, 1);
        assert_eq!(w.cpumask(f.mm).count(), 1);
        w.load_mm(1, f.mm);
        w.load_mm(1, other);
        w.flush_mm(Some(0), 999_999_999, f.mm, 1);
        assert_eq!(w.cpumask(f.mm).count(), left);
        w.flush_mm(Some(0), 1_000_000_000, f.mm, 1);
        assert_eq!(w.cpumask(f.mm).count(), 1);
    }
}

#[test]
fn stores_go_on_through_a_dirty_entry_until_the_flush() {
    let mut f = fixture(2);
    f.access(0, true);
    f.access(1, true);
    // Its contents have been written to swap since.
    f.run.machine.world_mut().mappings[f.map.0 as usize]
        .ptes
        .take(1, Pte::DIRTY);
    f.load_on([1]);
    for (page, writable) in [(0, true), (1, false)] {
        assert_eq!(f.unmap(page), (true, writable));
    }
    let folio = f.folio(0);
    let machine = f.run.machine.clone();
    let mut w = machine.world_mut();
    assert!(w.touch_stale(&f.ctx, f.map, 0, true));
    assert!(w.touch_stale(&f.ctx, f.map, 1, false));
    assert!(
        !w.touch_stale(&f.ctx, f.map, 1, true),
        "it must be marked dirty, and is gone"
    );
    assert_eq!(w.tlb.written_through(folio), Some(f.mm));
    // Idle CPUs cannot use what they hold, and compare generations before they can.
    w.tlb.go_lazy(0);
    assert!(!w.touch_stale(&f.ctx, f.map, 0, true));
    assert_eq!(
        w.tlb.written_through(folio),
        Some(f.mm),
        "the other CPU may"
    );
    w.flush_deferred(&f.ctx, true);
    assert_eq!(w.tlb.written_through(folio), None);
}

#[test]
fn what_is_lost_is_walked_for_again() {
    let mut f = fixture(2);
    (0..10).for_each(|page| f.access(page, true));
    f.load_on([1]);
    f.unmap(0);
    let walk = f.run.machine.world().params.tlb_walk_ns;
    let (first, second) = (f.flush(true), {
        f.unmap(1);
        f.flush(true)
    });
    assert_eq!(
        first - second,
        10 * walk,
        "nothing has been used since the first"
    );
}

#[test]
fn tasks_load_their_address_space_where_they_run() {
    let mut f = fixture(4);
    let (mm, map) = (f.mm, f.map);
    let on = |cpu| Affinity::Mask(CpuMask::single(cpu));
    f.run
        .machine
        .spawn("user", on(2), mm, move |m, ctx| async move {
            m.access(&ctx, map, 0, true).await.unwrap();
        });
    f.run.executor.run();
    let w = f.run.machine.world();
    assert!(w.cpumask(mm).contains(2));
    assert!(!w.tlb.runs(2, mm), "it has ended: the CPU is idle");
}
