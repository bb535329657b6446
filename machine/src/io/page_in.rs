//! The one way a page of a file gets into the page cache, for reads, faults and writes.
//!
//! | step | where |
//! |---|---|
//! | which pages a miss reads: the window | [`World::miss_window`], [`World::read_window`], [`World::fault_window`] |
//! | a read or a fault meets the mark of a window: the next one | [`World::marked_window`], [`World::fault_hit`] |
//! | where the pages are on the device, if that is not known | [`World::unread_block`] |
//! | charge, allocate, insert (locked), refault, one request for the run | [`World::step_miss`] |
//! | wait for memory or for the device | [`Machine::finish_miss`] |
//! | the device has finished: up to date, unlocked | [`World::read_done`] |

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::device::{DeviceError, Request};
use crate::io::read_ahead::Window;
use crate::machine::Machine;
use crate::mem::{Backing, Slot};
use crate::sim::TimeClass;
use crate::vm::alloc::Shortage;
use crate::vm::held::{FolioRef, NewPages};
use crate::vm::wanted::Wanted;
use crate::world::World;
use coldset_engine::ids::PAGE_SIZE;
use coldset_engine::workingset::refault::RefaultSite;
use coldset_engine::{Counter, Engine, Flags, FolioId, MemcgId, ObjectId};
use std::ops::Range;

/// Why a page is brought into the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A read through a descriptor.
    Read,
    /// A page fault.
    Fault,
    /// A write, to a page that is not overwritten as a whole: not a refault.
    Write,
}

impl Purpose {
    /// So many pages for it.
    fn wants(self, memcg: MemcgId, pages: u64) -> Wanted {
        Wanted {
            memcg,
            pages,
            to_write: self == Self::Write,
        }
    }
}

/// A miss on its way: the pages it has inserted so far. [`World::step_miss`] takes it as far as nothing
/// has to be waited for; [`Machine::finish_miss`] waits.
pub(crate) struct Miss<'a> {
    new: NewPages<'a>,
    /// The page after the last one to be read with the first.
    pub(super) end: u32,
    window: Window,
    purpose: Purpose,
    /// Memory ran short before the end of the window.
    pub(super) short: bool,
}

impl<'a> Miss<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        object: ObjectId,
        window: Window,
        purpose: Purpose,
    ) -> Self {
        Self {
            new: NewPages::new(machine, object, window.pages.start),
            end: window.pages.end,
            window,
            purpose,
            short: false,
        }
    }

    /// The next page is not needed yet.
    fn is_ahead(&self) -> bool {
        self.new.next() >= self.window.needed
    }

    /// What is still to be read of the window once the first request is on its way: behind a page that
    /// was cached, only what nobody waits for.
    pub(crate) fn rest(&self) -> Option<Window> {
        let mut rest = self.window.clone();
        rest.pages.start = self.end.max(rest.needed);
        (!self.short && !rest.pages.is_empty()).then_some(rest)
    }

    /// A folio of so many pages has been inserted.
    #[inline]
    fn push(&mut self, engine: &mut Engine, id: FolioId, pages: u32) {
        let next = self.new.next();
        if self
            .window
            .mark
            .is_some_and(|mark| mark.wrapping_sub(next) < pages)
        {
            engine.folio_set(id, Flags::RECLAIM);
        }
        self.new.push(id, pages);
    }
}

/// What a miss waits for.
pub(crate) enum MissStep {
    /// Memory for its next page.
    Memory(Lack),
    /// A block of the file system that has the place of its pages.
    Block(u32),
    /// Nothing of its own: the first page is cached by now.
    Cached(FolioId),
    /// The device.
    Device(Reading),
}

/// A read that has been submitted.
pub(crate) struct Reading {
    /// Its first folio, with a reference.
    pub(super) first: FolioId,
    /// When the device has finished, ns.
    until: u64,
    result: Result<(), DeviceError>,
}

/// What a new folio still lacks.
pub(crate) struct Lack {
    /// Its order.
    order: u8,
    /// Index nodes to be charged.
    nodes: u64,
    /// Why there is no memory for the page itself, if there is none.
    pages: Option<Shortage>,
}

impl World {
    /// Charges and inserts one locked page, if nothing has to be waited for. `None` if it is cached
    /// already.
    #[inline]
    fn try_new_page(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
    ) -> Result<Option<FolioId>, Lack> {
        let nodes = self.new_index_nodes(object, page);
        let wanted = purpose.wants(ctx.memcg, 1);
        let pages = self.try_get_pages(ctx, wanted).err();
        if pages.is_some() || !self.try_owe_nodes(ctx.memcg, nodes) {
            return Err(Lack {
                order: 0,
                nodes,
                pages,
            });
        }
        let inserted = self.insert_page(ctx, ctx.memcg, object, page, purpose);
        if inserted.is_none() {
            self.give_pages(ctx.memcg, ctx.reach(), 1, 1);
        }
        Ok(inserted)
    }

    /// Inserts a new, locked folio that has been charged. The slot holds its only reference, and
    /// the lock keeps it there. `None` if another task was faster.
    fn insert_page(
        &mut self,
        ctx: &Ctx,
        memcg: MemcgId,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
    ) -> Option<FolioId> {
        let slot = self.objects[object.idx()].slot(page);
        if matches!(slot, Slot::Folio(_)) {
            return None;
        }
        let flags = Flags::LOCKED | Flags::OWNED;
        let id = self.insert_folio(memcg, ctx.reach(), object, page, flags);
        if self.objects[object.idx()].metadata {
            self.engine.mark_accessed(ctx.cpu(), id);
        }
        self.enter(ctx, id, slot, purpose);
        Some(id)
    }

    /// A new folio enters the lists. `slot`: what was in its place. Inlined: it is on the way of every miss.
    #[inline(always)]
    pub(super) fn enter(&mut self, ctx: &Ctx, id: FolioId, slot: Slot, purpose: Purpose) {
        let faulted = purpose == Purpose::Fault;
        if let (Slot::Shadow(shadow), true) = (slot, purpose != Purpose::Write) {
            let site = match faulted {
                true => RefaultSite::Fault,
                false => RefaultSite::Read,
            };
            self.engine.refault(id, shadow, site);
        }
        self.engine.lru_add(ctx.cpu(), id, faulted);
    }

    /// Submits the read of new folios as one request, or as several around holes. Returns when it ends, and how. A
    /// completion unlocks them then; after an error they have left the cache already.
    #[inline]
    fn submit_read(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        pages: &Range<u32>,
    ) -> (u64, Result<(), DeviceError>) {
        match self.objects[object.idx()].was_cut() {
            true => self.read_around_holes(ctx, object, pages),
            false => self.submit_run(ctx, object, pages),
        }
    }

    /// Asks the device for new folios, as one request.
    pub(super) fn submit_run(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        pages: &Range<u32>,
    ) -> (u64, Result<(), DeviceError>) {
        let Backing::File { device, start } = self.objects[object.idx()].backing else {
            unreachable!("read of an anonymous object");
        };
        let bytes = pages.len() as u64 * PAGE_SIZE;
        let request = Request::read((start + u64::from(pages.start)) * PAGE_SIZE, bytes);
        let done = self.devices[device].submit(ctx.now(), request);
        ctx.charge(TimeClass::Fault, done.cpu_ns);
        self.engine
            .count(ctx.memcg, Counter::Pgpgin, (bytes / 1024) as i64);
        if done.result.is_err() {
            // Only the reader hears of it: fsync reports writes. A later read tries again.
            self.fail_read(object, pages);
            return (done.end, done.result);
        }
        let end = done.end.max(ctx.now());
        if ctx.task().is_none() || end <= self.sim.now() {
            self.read_done(object, pages);
        } else {
            self.complete_read_at(end, object, pages.clone());
        }
        (end, Ok(()))
    }

    /// The folio of a page whose read has not ended: it is locked, so it is still in its slot.
    #[inline]
    pub(crate) fn folio_in_flight(&self, object: ObjectId, page: u32) -> FolioId {
        let folio = self.objects[object.idx()].word(page).folio();
        folio.expect("a locked folio stays in its slot")
    }

    /// The contents have arrived.
    #[inline]
    pub(crate) fn read_done(&mut self, object: ObjectId, pages: &Range<u32>) {
        for page in pages.clone() {
            let id = self.folio_in_flight(object, page);
            if let Some(c) = &mut self.objects[object.idx()].contents {
                c.memory[page as usize] = c.disk[page as usize];
            }
            self.engine.folio_set(id, Flags::UPTODATE);
            self.unlock_folio(id);
        }
    }

    /// Folios that got no contents leave the cache.
    pub(crate) fn fail_read(&mut self, object: ObjectId, pages: &Range<u32>) {
        for page in pages.clone() {
            let id = self.folio_in_flight(object, page);
            self.objects[object.idx()].set_slot(page, Slot::Empty);
            self.engine.folio_clear(id, Flags::OWNED);
            self.unlock_folio(id);
            self.engine.folio_put(id, 1);
        }
    }
}

impl World {
    /// Takes a miss as far as nothing has to be waited for: inserts new folios up to the end of the
    /// window or the first page that is cached, and submits their read as one request.
    #[inline]
    pub(crate) fn step_miss(&mut self, ctx: &Ctx, miss: &mut Miss<'_>) -> MissStep {
        let object = miss.new.object;
        if miss.new.is_empty() {
            let cached = self.objects[object.idx()].word(miss.new.next()).folio();
            if let Some(id) = cached {
                return MissStep::Cached(id);
            }
        }
        while miss.new.next() < miss.end {
            if miss.window.order > 0 {
                match self.try_large(ctx, miss) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(lack) => return MissStep::Memory(lack),
                }
            }
            match self.try_new_page(ctx, object, miss.new.next(), miss.purpose) {
                Ok(Some(id)) => miss.push(&mut self.engine, id, 1),
                Ok(None) => miss.end = miss.new.next(),
                Err(lack) => return MissStep::Memory(lack),
            }
        }
        if let Some(block) = self.unread_block(object, miss.new.pages()) {
            return MissStep::Block(block);
        }
        let (first, pages) = miss.new.submitted();
        self.engine.folio_get(first, 1);
        let (until, result) = self.submit_read(ctx, object, &pages);
        self.pay(ctx);
        MissStep::Device(Reading {
            first,
            until,
            result,
        })
    }

    /// As [`Self::try_new_page`] with the largest folio that the window wants at its next page. False if that
    /// is a single page.
    #[inline(never)]
    fn try_large(&mut self, ctx: &Ctx, miss: &mut Miss<'_>) -> Result<bool, Lack> {
        let (object, page) = (miss.new.object, miss.new.next());
        let order = self.order_within(object, page..miss.end, miss.window.order);
        if order == 0 {
            return Ok(false);
        }
        let nodes = self.new_index_nodes_of(object, page, order);
        let wanted = miss.purpose.wants(ctx.memcg, 1 << order);
        let pages = self.try_get_pages(ctx, wanted).err();
        if nodes > 0 || pages.is_some() {
            return Err(Lack {
                order,
                nodes,
                pages,
            });
        }
        let id = self.insert_large(ctx, object, page, order, miss.purpose);
        miss.push(&mut self.engine, id, 1 << order);
        Ok(true)
    }

    /// The end of a read by an inline task, which moves its clock and waits for nothing.
    #[inline]
    pub(crate) fn skip_read(&mut self, ctx: &Ctx, reading: Reading) -> Result<(), OpError> {
        self.end_read(ctx, reading, |_, _| ())
    }

    /// The same, and the first page is used before it is let go.
    ///
    /// # Errors
    /// The device has failed: it was not used.
    #[inline]
    pub(crate) fn end_read<T>(
        &mut self,
        ctx: &Ctx,
        reading: Reading,
        use_it: impl FnOnce(&mut Self, FolioId) -> T,
    ) -> Result<T, OpError> {
        ctx.reads_until(reading.until);
        ctx.io_done(reading.until);
        let result = reading.result.map_err(OpError::Device);
        let used = result.map(|()| use_it(self, reading.first));
        self.engine.folio_put(reading.first, 1);
        used
    }
}

impl Machine {
    /// Makes the first page of `window` readable. If it is missing, what else is missing of the
    /// window up to its first cached page is read with it; what is read ahead behind that, too. The page may be gone from the cache again
    /// when this returns, or its read may have failed for another reader: the caller looks again.
    pub(crate) async fn page_in(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        window: Window,
        purpose: Purpose,
    ) -> Result<FolioRef<'_>, OpError> {
        let mut miss = Miss::new(self, object, window, purpose);
        let step = self.w.borrow_mut().step_miss(ctx, &mut miss);
        self.finish_miss(ctx, &mut miss, step).await
    }

    /// Waits for what a miss needs until its first page has been read.
    pub(crate) async fn finish_miss(
        &self,
        ctx: &Ctx,
        miss: &mut Miss<'_>,
        mut step: MissStep,
    ) -> Result<FolioRef<'_>, OpError> {
        loop {
            match step {
                MissStep::Memory(lack) => self.supply(ctx, miss, lack).await?,
                MissStep::Block(block) => {
                    let (file, purpose) = (miss.new.object, miss.purpose);
                    self.read_block(ctx, file, block, purpose).await?;
                }
                MissStep::Cached(id) => return Ok(self.get_unlocked(ctx, id).await),
                MissStep::Device(reading) => {
                    // Given back as well if the task is killed while it reads ahead.
                    let first = FolioRef::of(self, reading.first);
                    if let Some(rest) = miss.rest() {
                        let object = miss.new.object;
                        self.read_ahead(ctx, object, rest, miss.purpose).await;
                    }
                    return self.await_read(ctx, first, reading).await;
                }
            }
            step = self.w.borrow_mut().step_miss(ctx, miss);
        }
    }

    /// Waits for the device. Returns the first folio that has been read.
    #[inline]
    pub(crate) async fn finish_read(
        &self,
        ctx: &Ctx,
        reading: Reading,
    ) -> Result<FolioRef<'_>, OpError> {
        let first = FolioRef::of(self, reading.first);
        self.await_read(ctx, first, reading).await
    }

    async fn await_read<'a>(
        &'a self,
        ctx: &Ctx,
        first: FolioRef<'a>,
        reading: Reading,
    ) -> Result<FolioRef<'a>, OpError> {
        ctx.reads_until(reading.until);
        ctx.io_until(reading.until).await;
        reading.result.map_err(OpError::Device)?;
        // Its completion and our wake-up fall on the same instant, in either order.
        self.wait_unlocked(ctx, first.id).await;
        Ok(first)
    }

    /// Gets memory for the next page of a miss, and inserts it. The window ends where memory is
    /// refused.
    ///
    /// # Errors
    /// Memory is refused for the first page.
    pub(super) async fn supply(
        &self,
        ctx: &Ctx,
        miss: &mut Miss<'_>,
        lack: Lack,
    ) -> Result<(), OpError> {
        let (object, page) = (miss.new.object, miss.new.next());
        let ahead = miss.is_ahead();
        let pages = 1 << lack.order;
        match self
            .new_page_slow(ctx, object, page, miss.purpose, lack, ahead)
            .await
        {
            Ok(Some(id)) => miss.push(&mut self.w.borrow_mut().engine, id, pages),
            // The first page is cached: the next step finds it, or tries again.
            Ok(None) if miss.new.is_empty() => {}
            Ok(None) => miss.end = page,
            Err(error) if miss.new.is_empty() => return Err(error),
            Err(_) => (miss.end, miss.short) = (page, true),
        }
        Ok(())
    }

    /// Charges and inserts one locked page. `None` if it is cached already.
    pub(crate) async fn new_page(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
    ) -> Result<Option<FolioId>, OpError> {
        let had = self.w.borrow_mut().try_new_page(ctx, object, page, purpose);
        match had {
            Ok(inserted) => Ok(inserted),
            Err(lack) => {
                self.new_page_slow(ctx, object, page, purpose, lack, false)
                    .await
            }
        }
    }

    /// Continues where [`World::try_new_page`] would have to wait.
    async fn new_page_slow(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        purpose: Purpose,
        lack: Lack,
        ahead: bool,
    ) -> Result<Option<FolioId>, OpError> {
        let n = 1 << lack.order;
        let charge = self
            .get_lacking(ctx, purpose.wants(ctx.memcg, n), lack.pages, ahead)
            .await?;
        self.charge_kernel(ctx, ctx.memcg, lack.nodes, 0, 0).await?;
        let mut w = self.w.borrow_mut();
        let id = match lack.order {
            0 => w.insert_page(ctx, ctx.memcg, object, page, purpose),
            // Another task may have brought a page in.
            order if w.order_within(object, page..page + n as u32, order) < order => None,
            order => Some(w.insert_large(ctx, object, page, order, purpose)),
        };
        drop(w);
        if id.is_some() {
            charge.keep();
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::io::read_ahead::ReadAhead;
    use crate::machine::MachineRun;
    use crate::mem::MappingFlags;
    use crate::sim::Affinity;
    use coldset_engine::switches::presets::preset;

    /// Pages of a file that are cached after a load of each of `pages` through a mapping, and major
    /// faults.
    fn cached(around: u32, flags: MappingFlags, limit: u64, pages: &[u32]) -> (Vec<u32>, i64) {
        let mut cfg = MachineConfig::new(preset("base").unwrap());
        cfg.read_ahead = ReadAhead::Windows { kb: 4 * around };
        cfg.check = true;
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(limit);
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
        let random = MappingFlags::NO_RECENCY;
        assert_eq!(cached(32, random, 1000, &[100]), (vec![100], 1));
        let sequential = random | MappingFlags::SEQUENTIAL;
        assert_eq!(
            cached(32, sequential, 1000, &[100]),
            ((100..132).collect(), 1)
        );
    }

    #[test]
    fn reading_round_gives_up_where_memory_is_short() {
        let pages: Vec<u32> = (0..200).collect();
        let (cached, _) = cached(32, MappingFlags::empty(), 8, &pages);
        assert!(!cached.is_empty() && cached.len() <= 8, "{cached:?}");
    }
}
