//! Loads and stores through mappings: the touch of a resident page, and the fault.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::page_in::Purpose;
use crate::io::read_ahead::Window;
use crate::machine::Machine;
use crate::mem::{MappingFlags, MappingId, Pte, Slot};
use crate::sim::TimeClass;
use crate::vm::held::FolioRef;
use crate::vm::tmpfs::Use;
use crate::world::World;
use coldset_engine::{Counter, Flags, FolioId, ObjectId};

impl World {
    /// A load or store that needs no fault.
    #[inline]
    pub fn touch(&mut self, mapping: MappingId, entry: u32, write: bool) -> bool {
        self.touch_hits(mapping, std::iter::once(entry), write) == 1
    }

    /// Loads or stores one after the other, up to the first that needs a fault. Returns how many did not. The hot path: a
    /// look-up in the tables and a bit.
    #[inline]
    pub fn touch_hits(
        &mut self,
        mapping: MappingId,
        entries: impl Iterator<Item = u32>,
        write: bool,
    ) -> usize {
        let m = &mut self.mappings[mapping.0 as usize];
        let object = &mut self.objects[m.object.idx()];
        let mut hits = 0;
        for entry in entries {
            if !m.touch(entry, write) {
                break;
            }
            match write {
                true => object.store(m.start + entry),
                false => object.load(m.start + entry),
            }
            hits += 1;
        }
        hits
    }

    /// Loads from `count` consecutive pages from `entry` on, up to the first that needs a fault.
    /// Returns how many did not.
    pub fn load_run(&mut self, mapping: MappingId, entry: u32, count: u32) -> u32 {
        let m = &mut self.mappings[mapping.0 as usize];
        let done = m.touch_run(entry, count);
        let object = &self.objects[m.object.idx()];
        if object.contents.is_some() {
            for page in m.start + entry..m.start + entry + done {
                object.load(page);
            }
        }
        done
    }

    /// Maps a folio of the object at an entry, young. Returns leaf tables created.
    pub(super) fn map_folio(
        &mut self,
        mapping: MappingId,
        entry: u32,
        folio: FolioId,
        bits: Pte,
    ) -> u64 {
        let first = self.mappings[mapping.0 as usize].set(entry, bits | Pte::YOUNG);
        self.show_folio(mapping, folio);
        self.note_mapped(mapping, 1, first)
    }

    /// An entry shows a folio from now on.
    #[inline]
    fn show_folio(&mut self, mapping: MappingId, folio: FolioId) {
        self.engine.folio_map(folio);
        let flags = self.mappings[mapping.0 as usize].flags;
        if flags.contains(MappingFlags::EXEC) {
            self.engine.folio_set(folio, Flags::EXEC);
        }
    }

    /// Entries of one leaf table have been set, the first ones in it if `first`. Returns leaf tables created.
    #[inline]
    fn note_mapped(&mut self, mapping: MappingId, entries: u32, first: bool) -> u64 {
        let new_table = first && self.enters_table(mapping);
        let m = &self.mappings[mapping.0 as usize];
        let mm = &mut self.mms[m.mm.idx()];
        match self.objects[m.object.idx()].is_anon() {
            true => mm.anon += u64::from(entries),
            false => mm.file += u64::from(entries),
        }
        mm.tables += u64::from(new_table);
        u64::from(new_table)
    }

    /// What a fault begins with.
    #[inline]
    pub(super) fn begin_fault(&mut self, ctx: &Ctx, mapping: MappingId) {
        self.engine.set_now(ctx.now());
        let mm = self.mappings[mapping.0 as usize].mm;
        self.engine.count(ctx.memcg, Counter::Pgfault, 1);
        // An inline task, and one that uses another's memory, has not been switched to.
        let ns = self.load_mm(ctx.cpu(), mm);
        ctx.charge(TimeClass::Fault, ns);
    }

    /// Maps a page of a file that a fault has found or read, if it is still there. Returns leaf tables created, and
    /// whether the page was clean and is dirty.
    #[inline]
    pub(super) fn map_found(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        id: FolioId,
        write: bool,
    ) -> (u64, bool) {
        let m = &mut self.mappings[mapping.0 as usize];
        let word = self.objects[m.object.idx()].word(m.start + entry);
        let still = word.folio() == Some(id);
        if !still || !m.alive || !self.engine.folio(id).has(Flags::UPTODATE) {
            return (0, false);
        }
        let bits = if write { Pte::WRITABLE } else { Pte::empty() };
        let mut tables = 0;
        if !m.ptes.is_present(entry) {
            tables = self.map_folio(mapping, entry, id, bits);
        } else if write {
            m.ptes.add(entry, Pte::WRITABLE);
        }
        let dirtied = write && self.engine.set_dirty(id);
        if write {
            self.note_dirty(ctx);
        }
        (tables, dirtied)
    }

    /// Maps the cached pages around a file fault, but those whose use starts a window. Returns tables
    /// created, and how many of them are mapped now.
    fn fault_around(&mut self, ctx: &Ctx, mapping: MappingId, entry: u32) -> (u64, u32) {
        let window = self.fault_around;
        if window <= 1 {
            return (0, 0);
        }
        let m = &self.mappings[mapping.0 as usize];
        let table = entry / crate::mem::mapping::TABLE;
        let range = m.table_range(table);
        let (object, start) = (m.object, m.start);
        let stop = self.stops_at(object) | Flags::LOCKED;
        let from = (entry & !(window - 1)).max(range.start);
        let to = (from + window).min(range.end);
        let (mut tables, mut present, mut mapped) = (0, 0, 0);
        for from in (from..to).step_by(64) {
            let around = from..to.min(from + 64);
            let mut others = !0 >> (64 - around.len());
            if around.contains(&entry) {
                others &= !(1 << (entry - from));
            }
            let there = self.mappings[mapping.0 as usize].ptes.present(around) & others;
            present += there.count_ones();
            let mut folios = [FolioId::NONE; 64];
            let mut left = others & !there;
            self.find_folios(object, start + from, left, &mut folios);
            let mut found = 0u64;
            while left != 0 {
                let f = folios[left.trailing_zeros() as usize];
                let bit = left & left.wrapping_neg();
                left ^= bit;
                if f == FolioId::NONE {
                    continue;
                }
                let folio = self.engine.folio(f);
                if folio.has(Flags::UPTODATE) && !folio.any(stop) {
                    self.show_folio(mapping, f);
                    found |= bit;
                }
            }
            if found != 0 {
                let m = &mut self.mappings[mapping.0 as usize];
                let first = m.set_some(from, found, Pte::YOUNG);
                tables += self.note_mapped(mapping, found.count_ones(), first);
                mapped += found.count_ones();
            }
        }
        let ns = u64::from(mapped) * self.params.fault_around_pte_ns;
        ctx.charge(TimeClass::Fault, ns);
        (tables, present + mapped)
    }

    /// All that a load fault does if its page is one of a file that has been read, and starts no window: nothing has to be
    /// waited for. Returns leaf tables created; none: it has done nothing.
    fn map_cached(&mut self, ctx: &Ctx, mapping: MappingId, entry: u32) -> Option<u64> {
        let m = &self.mappings[mapping.0 as usize];
        let (object, page) = (m.object, m.start + entry);
        if !m.alive || !self.objects[object.idx()].is_file() {
            return None;
        }
        let id = self.objects[object.idx()].word(page).folio()?;
        let f = self.engine.folio(id);
        if !f.has(Flags::UPTODATE) || f.any(self.stops_at(object) | Flags::LOCKED) {
            return None;
        }
        ctx.charge(TimeClass::Fault, self.params.minor_fault_file_ns);
        let (around, hits) = self.fault_around(ctx, mapping, entry);
        self.count_hits(mapping, 1, hits);
        let (own, _) = self.map_found(ctx, mapping, entry, id, false);
        self.pay(ctx);
        Some(around + own)
    }

    /// What a fault does once it has read ahead, as it is tried again: maps what has arrived. Returns
    /// tables created.
    fn fault_again(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        write: bool,
        missed: bool,
    ) -> u64 {
        let m = &self.mappings[mapping.0 as usize];
        if self.stops_at(m.object).is_empty() || !m.alive {
            return 0;
        }
        let maps = !write && self.fault_around > 1;
        let (tables, around) = match maps {
            true => self.fault_around(ctx, mapping, entry),
            false => (0, 0),
        };
        match missed {
            true => self.count_hits(mapping, 0, around + u32::from(maps)),
            false => self.count_hits(mapping, 1, around),
        }
        tables
    }
}

impl Machine {
    /// A load or store of one page of a mapping, faulting if need be.
    ///
    /// # Errors
    /// Out of memory (the task has been killed or its memcg cannot take it), the device failed, or
    /// the mapping is gone.
    #[inline]
    pub async fn access(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        write: bool,
    ) -> Result<(), OpError> {
        {
            let mut w = self.w.borrow_mut();
            w.record_touch(ctx, mapping, entry, 1, write);
            if w.touch(mapping, entry, write) || w.touch_stale(ctx, mapping, entry, write) {
                w.tlb.used(ctx.cpu());
                return Ok(());
            }
        }
        self.fault(ctx, mapping, entry, write).await
    }

    /// Loads of `pages` pages of a file mapping from `entry` on. Where one is not cached, what is
    /// missing of the rest is read with it in one request, as read-ahead of a sequential reader does.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub async fn access_run(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        pages: u32,
    ) -> Result<(), OpError> {
        self.w
            .borrow_mut()
            .record_touch(ctx, mapping, entry, pages, false);
        for e in entry..entry + pages {
            if self.w.borrow_mut().touch(mapping, e, false) {
                continue;
            }
            let missing = {
                let w = &mut *self.w.borrow_mut();
                let m = &w.mappings[mapping.0 as usize];
                let (object, first) = (m.object, m.start);
                let o = &w.objects[object.idx()];
                let missing = o.is_file() && o.word(first + e).folio().is_none();
                if missing && e + 1 < entry + pages {
                    w.engine.count(ctx.memcg, Counter::Pgmajfault, 1);
                    let wanted = first + e..first + entry + pages;
                    Some((object, w.miss_window(ctx, object, wanted)))
                } else {
                    None
                }
            };
            if let Some((object, window)) = missing {
                self.page_in(ctx, object, window, Purpose::Fault).await?;
            }
            self.fault(ctx, mapping, e, false).await?;
        }
        Ok(())
    }

    /// The fault path.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub async fn fault(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        write: bool,
    ) -> Result<(), OpError> {
        let mapped = {
            let mut w = self.w.borrow_mut();
            w.begin_fault(ctx, mapping);
            match write {
                true => None,
                false => w.map_cached(ctx, mapping, entry),
            }
        };
        match mapped {
            Some(tables) => self.load_mapped(ctx, mapping, entry, tables).await,
            None => self.fault_until_there(ctx, mapping, entry, write).await,
        }
    }

    /// A fault that has begun: tries until the entry is there.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub(super) async fn fault_until_there(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        write: bool,
    ) -> Result<(), OpError> {
        let (object, page, anon) = {
            let w = self.w.borrow();
            let m = &w.mappings[mapping.0 as usize];
            let anon = w.objects[m.object.idx()].is_anon();
            (m.object, m.start + entry, anon)
        };
        let mut dirtied = false;
        loop {
            // Another thread may have unmapped it, at any wait.
            if !self.w.borrow().mappings[mapping.0 as usize].alive {
                return Err(OpError::Unmapped);
            }
            let (tables, dirty) = if anon {
                let fault = self.anon_fault(ctx, mapping, entry, object, page, write);
                (fault.await?, false)
            } else {
                let fault = self.file_fault(ctx, mapping, entry, object, page, write);
                fault.await?
            };
            dirtied |= dirty;
            if self.w.borrow().kernel.is_some() {
                let fresh = dirty && self.w.borrow_mut().attach_buffer(object, page);
                let memcg = ctx.memcg;
                // Reclaim for a page's own buffer would take the page, which would then need another one, without end.
                let folio = self.w.borrow().objects[object.idx()].word(page).folio();
                let held = folio.filter(|_| fresh).map(|id| FolioRef::get(self, id));
                self.charge_kernel(ctx, memcg, 0, tables, fresh.into())
                    .await?;
                drop(held);
            }
            // The page may have gone again while kernel memory was charged.
            let mut w = self.w.borrow_mut();
            if w.touch(mapping, entry, write) {
                w.tlb.used(ctx.cpu());
                break;
            }
        }
        // The store has happened: a flusher that cleans the page during the pause does no harm.
        if dirtied {
            self.balance_dirty(ctx, object).await;
        }
        self.return_to_user(ctx).await;
        ctx.maybe_settle().await;
        Ok(())
    }

    /// Maps an anonymous page. Returns leaf tables created.
    async fn anon_fault(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        object: ObjectId,
        page: u32,
        write: bool,
    ) -> Result<u64, OpError> {
        let slot = {
            let w = self.w.borrow();
            ctx.charge(TimeClass::Fault, w.params.minor_fault_anon_ns);
            w.objects[object.idx()].slot(page)
        };
        let mut from_swap = false;
        let held = match slot {
            Slot::Folio(id) => {
                // In the swap cache, or shared and mapped by another.
                let held = self.get_unlocked(ctx, id).await;
                let mut w = self.w.borrow_mut();
                from_swap = w.engine.folio(id).has(Flags::SWAPCACHE);
                w.swap_ahead_hit(ctx, mapping, id);
                w.swap_cache_hit(ctx, id, write);
                drop(w);
                held
            }
            Slot::Swap(s) => {
                from_swap = true;
                self.w
                    .borrow_mut()
                    .engine
                    .count(ctx.memcg, Counter::Pgmajfault, 1);
                match self.swap_in(ctx, mapping, object, page, s).await? {
                    Some(held) => held,
                    None => return Ok(0),
                }
            }
            Slot::Empty | Slot::Shadow(_) => {
                let zeroes = match write {
                    true => None,
                    false => self.w.borrow_mut().map_zeroes(mapping, entry),
                };
                if let Some(tables) = zeroes {
                    return Ok(tables);
                }
                if let Some(tables) = self.huge_fault(ctx, mapping, entry).await {
                    self.w.borrow_mut().pay(ctx);
                    return Ok(tables);
                }
                let charge = self.get_pages(ctx, ctx.memcg, 1).await?;
                let mut w = self.w.borrow_mut();
                // Another thread may have been faster, or has unmapped it.
                let alive = w.mappings[mapping.0 as usize].alive;
                if !alive || w.objects[object.idx()].slot(page) != slot {
                    return Ok(0);
                }
                charge.keep();
                let flags = Flags::ANON | Flags::SWAPBACKED | Flags::UPTODATE;
                w.replace_zeroes(ctx, mapping, entry);
                let id = w.insert_folio(ctx.memcg, ctx.reach(), object, page, flags);
                w.engine.lru_add(ctx.cpu(), id, true);
                FolioRef::of(self, id)
            }
        };
        let mut tables = 0;
        {
            let mut w = self.w.borrow_mut();
            let w = &mut *w;
            let id = held.id;
            let m = &w.mappings[mapping.0 as usize];
            let still = m.alive && w.objects[object.idx()].word(page).folio() == Some(id);
            if still && !m.ptes.is_present(entry) {
                if from_swap {
                    let mm = &mut w.mms[m.mm.idx()];
                    mm.swapped = mm.swapped.saturating_sub(1);
                }
                tables = w.map_folio(mapping, entry, id, Pte::WRITABLE);
                if matches!(slot, Slot::Swap(_)) {
                    w.swapped_in(ctx, id, write);
                }
            } else if still && write {
                // Write-protected while its contents were written to swap.
                w.mappings[mapping.0 as usize]
                    .ptes
                    .add(entry, Pte::WRITABLE);
            }
        }
        drop(held);
        self.w.borrow_mut().pay(ctx);
        Ok(tables)
    }

    /// Maps a file page. Returns leaf tables created, and whether the page was clean and is dirty.
    async fn file_fault(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        object: ObjectId,
        page: u32,
        write: bool,
    ) -> Result<(u64, bool), OpError> {
        let (mut tables, around) = {
            let mut w = self.w.borrow_mut();
            ctx.charge(TimeClass::Fault, w.params.minor_fault_file_ns);
            if write {
                (0, 0)
            } else {
                w.fault_around(ctx, mapping, entry)
            }
        };
        let cached = self.w.borrow().objects[object.idx()].word(page).folio();
        let held = match cached {
            Some(id) => {
                let held = FolioRef::get(self, id);
                let (marked, window) = {
                    let mut w = self.w.borrow_mut();
                    w.fault_hit(ctx, mapping, object, page, around)
                };
                if let Some(window) = window {
                    self.read_ahead(ctx, object, window, Purpose::Fault).await;
                }
                if marked {
                    let mut w = self.w.borrow_mut();
                    tables += w.fault_again(ctx, mapping, entry, write, false);
                }
                self.wait_unlocked(ctx, id).await;
                if self.w.borrow().tmpfs_in_swap_cache(object, id) {
                    self.wait_folio(ctx, id).await;
                    self.w.borrow_mut().tmpfs_take_back(ctx, id);
                }
                held
            }
            None if self.w.borrow().objects[object.idx()].is_tmpfs() => {
                match self.tmpfs_page(ctx, object, page, Use::Fault).await? {
                    Some(held) => held,
                    None => return Ok((tables, false)),
                }
            }
            None => {
                let window = {
                    let mut w = self.w.borrow_mut();
                    w.engine.count(ctx.memcg, Counter::Pgmajfault, 1);
                    w.count_hits(mapping, 0, around);
                    w.fault_window(ctx, mapping, object, page)
                };
                if let Some(window) = window {
                    self.read_ahead(ctx, object, window, Purpose::Fault).await;
                }
                let window = Window::needed(page..page + 1);
                let held = self.page_in(ctx, object, window, Purpose::Fault).await?;
                let mut w = self.w.borrow_mut();
                tables += w.fault_again(ctx, mapping, entry, write, true);
                drop(w);
                held
            }
        };
        let (created, dirtied) = {
            let mut w = self.w.borrow_mut();
            w.map_found(ctx, mapping, entry, held.id, write)
        };
        tables += created;
        drop(held);
        self.w.borrow_mut().pay(ctx);
        Ok((tables, dirtied))
    }
}
