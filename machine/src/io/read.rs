//! Buffered reads: the hit path, the miss, read-ahead.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::device::{DeviceError, Request};
use crate::machine::Machine;
use crate::mem::{Backing, Object, Slot};
use crate::sim::TimeClass;
use crate::vm::alloc::Refused;
use crate::vm::held::{FolioRef, NewPages};
use crate::vm::tmpfs::Use;
use crate::world::World;
use coldset_engine::ids::PAGE_SIZE;
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::{Counter, Flags, FolioId, MemcgId, NewFolio, ObjectId};
use std::cell::Cell;

/// An open file: remembers where its last read ended, because a read that goes on in the same page
/// is no new access (`mglru.md` 3).
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub object: ObjectId,
    prev: Cell<u32>,
}

impl OpenFile {
    /// Opens a file.
    pub fn new(object: ObjectId) -> Self {
        Self {
            object,
            prev: Cell::new(u32::MAX),
        }
    }
}

/// What became of [`Machine::read_inline`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inline {
    /// The read is over.
    Done(Result<(), OpError>),
    /// It must wait: go on with [`Machine::read_refused`].
    Waits(Option<Refused>),
}

/// Why a page is brought into the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A read through a descriptor.
    Read,
    /// A page fault.
    Fault,
    /// Read round a page that has faulted: given up where memory is short.
    Around,
    /// A write that must read the block first: no refault.
    Write,
}

impl World {
    /// A read of one page that is cached and up to date.
    #[inline]
    pub fn read_hit(&mut self, cpu: u16, file: &OpenFile, page: u32) -> bool {
        self.read_hits(cpu, file, std::iter::once(page)) == 1
    }

    /// Reads of pages one after the other, as long as they are cached and up to date. Returns how
    /// many were. The hot path.
    #[inline]
    pub fn read_hits(
        &mut self,
        cpu: u16,
        file: &OpenFile,
        pages: impl Iterator<Item = u32>,
    ) -> usize {
        let object = &self.objects[file.object.idx()];
        let mut hits = 0;
        for page in pages {
            let Some(id) = object.word(page).folio() else {
                break;
            };
            if !self.engine.folio(id).has(Flags::UPTODATE) {
                break;
            }
            object.load(page);
            if file.prev.replace(page) != page {
                self.engine.mark_accessed(cpu, id);
            }
            hits += 1;
        }
        hits
    }

    /// Accesses that [`Self::warm`] is best given at once: as many as a CPU can have on their way.
    pub const WARM: usize = 32;

    /// Brings what the next accesses will look at into the CPU's cache, all of it at once where one
    /// access after the other would wait for memory twice. Changes nothing.
    #[inline]
    pub fn warm(&self, accesses: impl Iterator<Item = (ObjectId, u32)>) {
        let mut ids = [FolioId(0); Self::WARM];
        let mut last: Option<(ObjectId, &Object)> = None;
        for (id, (object, page)) in ids.iter_mut().zip(accesses) {
            let o = match last {
                Some((same, o)) if same == object => o,
                _ => &self.objects[object.idx()],
            };
            last = Some((object, o));
            *id = o.word(page).folio_or_zero();
        }
        let seen = ids.iter().fold(0, |seen, &id| seen ^ self.engine.peek(id));
        std::hint::black_box(seen);
    }

    /// Inserts a new, locked folio that has been charged. `None` if another got there first.
    pub(crate) fn insert_page(
        &mut self,
        ctx: &Ctx,
        memcg: MemcgId,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
    ) -> Option<FolioId> {
        let o = &mut self.objects[object.idx()];
        let slot = o.slot(page);
        if matches!(slot, Slot::Folio(_)) {
            return None;
        }
        let lruvec = self.engine.lruvec_id(memcg, ctx.node);
        let id = self.engine.folio_alloc(NewFolio {
            lruvec,
            object,
            index: page,
            order: 0,
            zone: 0,
            flags: Flags::LOCKED | Flags::OWNED,
        });
        self.objects[object.idx()].set_slot(page, Slot::Folio(id));
        // One reference for the slot, one for the caller.
        self.engine.folio_get(id, 1);
        if let Slot::Shadow(shadow) = slot {
            match purpose {
                Purpose::Read => self.engine.refault(id, shadow, RefaultSite::Read),
                Purpose::Fault | Purpose::Around => {
                    self.engine.refault(id, shadow, RefaultSite::Fault);
                }
                Purpose::Write => {}
            }
        }
        self.engine.lru_add(
            ctx.cpu(),
            id,
            matches!(purpose, Purpose::Fault | Purpose::Around),
        );
        Some(id)
    }

    /// Submits the read of consecutive locked folios from `page` on. Returns when it ends, and how;
    /// a completion unlocks them then. After an error they are in the cache no more.
    pub(crate) fn submit_read(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        folios: &[FolioId],
    ) -> (u64, Result<(), DeviceError>) {
        let Backing::File { device, start } = self.objects[object.idx()].backing else {
            unreachable!("read of an anonymous object");
        };
        let bytes = folios.len() as u64 * PAGE_SIZE;
        let request = Request::read((start + u64::from(page)) * PAGE_SIZE, bytes);
        let done = self.devices[device].submit(ctx.now(), request);
        ctx.charge(TimeClass::Fault, done.cpu_ns);
        let memcg = ctx.memcg;
        self.engine
            .count_host(memcg, Counter::Pgpgin, (bytes / 1024) as i64);
        if done.result.is_err() {
            // The error is the reader's alone: fsync reports writes. The folios stay out of date: drop them so that a later read tries again.
            for &id in folios {
                self.fail_read(object, id);
            }
            return (done.end, done.result);
        }
        let end = done.end.max(ctx.now());
        if ctx.task().is_none() || end <= self.sim.now() {
            for &id in folios {
                self.read_done(object, id);
            }
        } else {
            self.complete_read_at(end, object, folios.to_vec());
        }
        (end, Ok(()))
    }

    /// The contents have arrived.
    pub(crate) fn read_done(&mut self, object: ObjectId, id: FolioId) {
        let (_, page) = self.engine.folio(id).owner();
        if let Some(c) = &mut self.objects[object.idx()].contents {
            c.memory[page as usize] = c.disk[page as usize];
        }
        self.engine.folio_set(id, Flags::UPTODATE);
        self.unlock_folio(id);
    }

    /// Unlocks a folio and wakes who waits for it.
    pub(crate) fn unlock_folio(&mut self, id: FolioId) {
        self.engine.folio_clear(id, Flags::LOCKED);
        self.wake_folio(id);
    }

    /// A folio that got no contents leaves the cache.
    pub(crate) fn fail_read(&mut self, object: ObjectId, id: FolioId) {
        let (_, page) = self.engine.folio(id).owner();
        self.objects[object.idx()].set_slot(page, Slot::Empty);
        self.engine.folio_clear(id, Flags::OWNED);
        self.unlock_folio(id);
        self.engine.folio_put(id, 1);
    }
}

impl World {
    /// The rest of an inline read of one page once there is memory for it. `None`: somebody else
    /// has brought the page in meanwhile, and the memory is not used.
    fn read_charged(
        &mut self,
        ctx: &Ctx,
        file: &OpenFile,
        page: u32,
    ) -> Option<Result<(), OpError>> {
        let object = file.object;
        let id = self.insert_page(ctx, ctx.memcg, object, page, Purpose::Read)?;
        let (until, result) = self.submit_read(ctx, object, page, &[id]);
        self.pay(ctx);
        ctx.io_done(until);
        self.engine.folio_put(id, 1);
        if let Err(e) = result {
            return Some(Err(OpError::Device(e)));
        }
        let hit = self.read_hit(ctx.cpu(), file, page);
        debug_assert!(hit, "just read");
        ctx.charge(TimeClass::Fault, self.params.buffered_io_page_ns);
        Some(Ok(()))
    }
}

impl Machine {
    /// A read of one page that [`World::read_hit`] could not serve, by an inline task: without a
    /// future as long as nothing waits.
    #[inline]
    pub fn read_inline(&self, ctx: &Ctx, file: &OpenFile, page: u32) -> Inline {
        let w = &mut *self.w.borrow_mut();
        let o = &w.objects[file.object.idx()];
        let simple = ctx.task().is_none()
            && w.read_ahead == 0
            && o.word(page).folio().is_none()
            && (w.kernel.is_none() || o.has_nodes(page));
        if !simple {
            return Inline::Waits(None);
        }
        w.engine.set_now(ctx.now());
        if let Some(refused) = w.get_pages_now(ctx, ctx.memcg, 1) {
            return Inline::Waits(Some(refused));
        }
        let result = w.read_charged(ctx, file, page);
        Inline::Done(result.expect("nothing has run since the page was seen missing"))
    }

    /// Goes on where [`Self::read_inline`] could not.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_refused(
        &self,
        ctx: &Ctx,
        file: &OpenFile,
        page: u32,
        refused: Option<Refused>,
    ) -> Result<(), OpError> {
        if let Some(refused) = refused {
            let charge = self.get_pages_refused(ctx, ctx.memcg, 1, refused).await?;
            let read = self.w.borrow_mut().read_charged(ctx, file, page);
            if let Some(result) = read {
                charge.keep();
                return result;
            }
        }
        self.read(ctx, file, page, 1).await
    }

    /// Reads `pages` pages of a file from `page` on. Misses of one call are read together.
    ///
    /// # Errors
    /// Out of memory, or the device failed.
    pub async fn read(
        &self,
        ctx: &Ctx,
        file: &OpenFile,
        page: u32,
        pages: u32,
    ) -> Result<(), OpError> {
        let mut at = page;
        let end = page + pages;
        while at < end {
            let hit = {
                let mut w = self.w.borrow_mut();
                let hit = w.read_hit(ctx.cpu(), file, at);
                if hit {
                    ctx.charge(TimeClass::Fault, w.params.buffered_io_page_ns);
                }
                hit
            };
            if hit {
                at += 1;
                continue;
            }
            if self.w.borrow().objects[file.object.idx()].is_tmpfs() {
                let found = self.tmpfs_page(ctx, file.object, at, Use::Read).await?;
                let hole = found.is_none() && self.w.borrow().is_hole(file.object, at);
                if hole {
                    // Zeros, without a page.
                    ctx.charge(TimeClass::Fault, self.w.borrow().params.buffered_io_page_ns);
                    at += 1;
                }
                continue;
            }
            self.read_miss(ctx, file.object, at, end).await?;
        }
        ctx.maybe_settle().await;
        Ok(())
    }

    /// Makes `page` readable; reads the whole missing run up to `end` with it.
    pub async fn read_miss(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        end: u32,
    ) -> Result<(), OpError> {
        self.bring_in(ctx, object, page, end, Purpose::Read).await
    }

    /// [`Self::read_miss`] for another purpose than a read through a descriptor.
    pub(crate) async fn bring_in(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        end: u32,
        purpose: Purpose,
    ) -> Result<(), OpError> {
        let cached = {
            let mut w = self.w.borrow_mut();
            w.engine.set_now(ctx.now());
            w.objects[object.idx()].word(page).folio()
        };
        if let Some(id) = cached {
            let held = FolioRef::get(self, id);
            if self.w.borrow().engine.folio(id).has(Flags::LOCKED) {
                self.wait_folio(ctx, id).await;
            }
            drop(held);
            // If its read has failed it is in the cache no more, and the caller tries again.
            return Ok(());
        }
        let end = {
            let w = self.w.borrow();
            (end + w.read_ahead).min(w.objects[object.idx()].pages())
        };
        let mut new = NewPages::new(self, object, (end - page) as usize);
        let mut failed = None;
        for p in page..end {
            match self.new_page(ctx, object, p, purpose).await {
                Ok(Some(id)) => new.ids.push(id),
                Ok(None) => break,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        let Some(&first) = new.ids.first() else {
            return failed.map_or(Ok(()), Err);
        };
        let (until, result) = {
            let mut w = self.w.borrow_mut();
            let folios = std::mem::take(&mut new.ids);
            w.engine.folio_get(first, 1);
            let done = w.submit_read(ctx, object, page, &folios);
            for id in folios {
                w.engine.folio_put(id, 1);
            }
            w.pay(ctx);
            done
        };
        let held = FolioRef::of(self, first);
        ctx.io_until(until).await;
        result.map_err(OpError::Device)?;
        // Completion and our wake-up fall on the same instant, in either order.
        if self.w.borrow().engine.folio(first).has(Flags::LOCKED) {
            self.wait_folio(ctx, first).await;
        }
        drop(held);
        Ok(())
    }

    /// Charges and inserts one page. `None` if it is there already.
    #[inline]
    pub(crate) async fn new_page(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
    ) -> Result<Option<FolioId>, OpError> {
        let nodes = {
            let mut w = self.w.borrow_mut();
            if w.kernel.is_some() {
                w.objects[object.idx()].touch_nodes(page)
            } else {
                0
            }
        };
        let charge = if purpose == Purpose::Around {
            self.get_page_ahead(ctx, ctx.memcg).await?
        } else {
            self.get_pages(ctx, ctx.memcg, 1).await?
        };
        if nodes > 0 {
            self.charge_kernel(ctx, ctx.memcg, nodes, 0, 0).await?;
        }
        let id = self
            .w
            .borrow_mut()
            .insert_page(ctx, ctx.memcg, object, page, purpose);
        if id.is_some() {
            charge.keep();
        }
        Ok(id)
    }

    /// Reads what is missing of `pages`, a request for each run of them, as far as memory can be had
    /// without much ado. Nobody waits for it here.
    pub(crate) async fn read_around(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        pages: std::ops::Range<u32>,
    ) {
        let mut at = pages.start;
        while at < pages.end {
            let first = at;
            let mut new = NewPages::new(self, object, (pages.end - at) as usize);
            let mut short = false;
            while at < pages.end {
                let cached = self.w.borrow().objects[object.idx()].word(at).folio();
                if cached.is_some() {
                    break;
                }
                match self.new_page(ctx, object, at, Purpose::Around).await {
                    Ok(Some(id)) => new.ids.push(id),
                    Ok(None) => break,
                    Err(_) => {
                        short = true;
                        break;
                    }
                }
                at += 1;
            }
            if !new.ids.is_empty() {
                let mut w = self.w.borrow_mut();
                let folios = std::mem::take(&mut new.ids);
                // Whoever wants a page whose read has failed reads it again, and hears of it then.
                let _ = w.submit_read(ctx, object, first, &folios);
                for id in folios {
                    w.engine.folio_put(id, 1);
                }
                w.pay(ctx);
            }
            if short {
                return;
            }
            at += 1;
        }
    }

    /// Brings one page in and waits for it. It may be gone again, or its read may have failed for
    /// another reader: the caller looks whether it is cached and up to date.
    pub(crate) async fn read_page(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
    ) -> Result<FolioRef<'_>, OpError> {
        loop {
            if let Some(id) = self.new_page(ctx, object, page, purpose).await? {
                let held = FolioRef::of(self, id);
                let (until, result) = {
                    let mut w = self.w.borrow_mut();
                    let done = w.submit_read(ctx, object, page, &[id]);
                    w.pay(ctx);
                    done
                };
                ctx.io_until(until).await;
                result.map_err(OpError::Device)?;
                if self.w.borrow().engine.folio(id).has(Flags::LOCKED) {
                    self.wait_folio(ctx, id).await;
                }
                return Ok(held);
            }
            let found = self.w.borrow().objects[object.idx()].word(page).folio();
            if let Some(id) = found {
                let held = FolioRef::get(self, id);
                if self.w.borrow().engine.folio(id).has(Flags::LOCKED) {
                    self.wait_folio(ctx, id).await;
                }
                return Ok(held);
            }
        }
    }

    /// Waits until a folio is unlocked and not under writeback. The caller holds a reference.
    pub(crate) async fn wait_folio(&self, ctx: &Ctx, id: FolioId) {
        loop {
            let busy = self
                .w
                .borrow()
                .engine
                .folio(id)
                .any(Flags::LOCKED | Flags::WRITEBACK);
            if !busy {
                return;
            }
            if ctx.task().is_none() {
                // Inline: let the simulation reach the completion.
                let next = self.sim.now().max(ctx.now()) + self.sim.tick_ns();
                ctx.sleep_until(TimeClass::IoWait, next).await;
                continue;
            }
            let queue = {
                let mut w = self.w.borrow_mut();
                let sim = w.sim.clone();
                w.folio_waits
                    .entry(id.0)
                    .or_insert_with(|| crate::sim::WaitQueue::new(&sim))
                    .clone()
            };
            queue.wait_as(TimeClass::IoWait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::machine::MachineRun;
    use crate::mem::MappingFlags;
    use crate::sim::Affinity;
    use coldset_engine::memcg::CounterKind;
    use coldset_engine::switches::presets::preset;

    /// Pages of a file that are cached after a load of each of `pages` through a mapping, and major
    /// faults.
    fn cached(around: u32, flags: MappingFlags, limit: u64, pages: &[u32]) -> (Vec<u32>, i64) {
        let mut cfg = MachineConfig::new(preset("base").unwrap());
        cfg.read_around = around;
        cfg.check = true;
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = {
            let mut w = m.world_mut();
            let memcg = w.engine.memcg_create(MemcgId::ROOT).unwrap();
            let kind = CounterKind::Memory;
            w.engine.memcgs.set_max(memcg, kind, limit).unwrap();
            memcg
        };
        let file = m.create_file(0, 200);
        let mm = m.create_mm(memcg);
        let map = m.mmap(mm, file, 0, 200, flags);
        let pages = pages.to_vec();
        m.spawn("reader", Affinity::Any, mm, move |m, ctx| async move {
            for page in pages {
                m.access(&ctx, map, page, false).await.unwrap();
            }
        });
        run.executor.run();
        let w = m.world();
        assert!(w.ooms().is_empty());
        let cached = (0..200).filter(|&p| w.object(file).word(p).folio().is_some());
        let major = w.engine.memcgs.live(memcg, Counter::Pgmajfault);
        (cached.collect(), major)
    }

    #[test]
    fn a_fault_reads_round_itself() {
        let none = MappingFlags::empty();
        assert_eq!(cached(0, none, 1000, &[100]), (vec![100], 1));
        assert_eq!(cached(32, none, 1000, &[100]), ((84..116).collect(), 1));
        assert_eq!(cached(32, none, 1000, &[3]), ((0..32).collect(), 1));
        assert_eq!(cached(32, none, 1000, &[195]), ((179..200).collect(), 1));
        // What is there already is left alone.
        assert_eq!(
            cached(32, none, 1000, &[0, 32]),
            ((0..48).collect(), 2),
            "the second window begins in the first"
        );
        let advised = MappingFlags::NO_RECENCY;
        assert_eq!(cached(32, advised, 1000, &[100]), (vec![100], 1));
    }

    #[test]
    fn reading_round_gives_up_where_memory_is_short() {
        let pages: Vec<u32> = (0..200).collect();
        let (cached, _) = cached(32, MappingFlags::empty(), 8, &pages);
        assert!(!cached.is_empty() && cached.len() <= 8, "{cached:?}");
    }
}
