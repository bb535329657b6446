//! Read-ahead of a file: which window a read or a fault starts, asked of the state of the open file
//! or mapping ([`crate::io::read_ahead`]), and what is missing of it.

use crate::ctx::Ctx;
use crate::io::large::aligned_order;
use crate::io::page_in::{Miss, MissStep, Purpose};
use crate::io::read::OpenFile;
use crate::io::read_ahead::{counted, Advice, Limits, ReadAhead, Window};
use crate::machine::Machine;
use crate::mem::folio::pages_of;
use crate::mem::{Backing, MappingId};
use crate::vm::held::FolioRef;
use crate::world::World;
use coldset_engine::{Counter, Flags, ObjectId};
use std::ops::Range;

impl World {
    /// The pages that a miss of the first of `wanted` reads: those that are wanted, and what is read
    /// ahead without an open file.
    #[inline]
    pub(crate) fn miss_window(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        wanted: Range<u32>,
    ) -> Window {
        self.engine.set_now(ctx.now());
        let more = match self.read_ahead_of(object) {
            Some(ReadAhead::Fixed(pages)) => pages,
            _ => 0,
        };
        let pages = wanted.start..wanted.end.saturating_add(more);
        Window::needed(pages).within(self.objects[object.idx()].pages())
    }

    /// As [`Self::miss_window`], for a read of an open file: a page that is missing, or that is on its
    /// way.
    #[inline]
    pub(crate) fn read_window(&mut self, ctx: &Ctx, file: &OpenFile, wanted: Range<u32>) -> Window {
        let Some(limits) = self.window_limits(file.object) else {
            return self.miss_window(ctx, file.object, wanted);
        };
        self.engine.set_now(ctx.now());
        let object = &self.objects[file.object.idx()];
        let (at, pages) = (wanted.start, wanted.len() as u32);
        if object.word(at).folio().is_some() {
            return Window::needed(at..at + 1);
        }
        let before = |most| self.cached_before(file.object, at, most);
        let window = file.update_window(|w| w.miss(limits, at, pages, before));
        window.within(object.pages())
    }

    /// True if the next read of a page starts a window: it is cached, and marked.
    #[inline]
    pub(crate) fn is_marked(&self, object: ObjectId, page: u32) -> bool {
        self.has_mark(object, page, Flags::UPTODATE | Flags::RECLAIM)
    }

    #[inline]
    fn has_mark(&self, object: ObjectId, page: u32, flags: Flags) -> bool {
        let marked = |id| self.engine.folio(id).has(flags);
        !self.stops_at(object).is_empty()
            && self.objects[object.idx()]
                .word(page)
                .folio()
                .is_some_and(marked)
    }

    /// Takes the mark of the first of `wanted`, and says which window it starts.
    pub(crate) fn marked_window(
        &mut self,
        ctx: &Ctx,
        file: &OpenFile,
        wanted: Range<u32>,
    ) -> Option<Window> {
        self.take_mark(ctx, file.object, wanted.start, |w, limits, folio| {
            let pages = wanted.end - folio.start;
            let missing = |most| w.missing_behind(file.object, &folio, most);
            file.update_window(|window| window.marked(limits, &folio, pages, missing))
        })
    }

    /// Faults on a mapping read as far as the descriptor is advised that it was made with: twice as far if reads are
    /// expected to be sequential. Other advice on a descriptor does not concern them.
    pub fn follow_advice(&mut self, mapping: MappingId, file: &OpenFile) {
        self.mappings[mapping.0 as usize]
            .faults
            .follow(file.advice());
    }

    /// What a fault reads ahead of a page of a mapped file that is missing, the page among it; nothing
    /// if it reads that page alone.
    pub(crate) fn fault_window(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        object: ObjectId,
        page: u32,
    ) -> Option<Window> {
        let pages = self.objects[object.idx()].pages();
        let m = &self.mappings[mapping.0 as usize];
        if let Some(ReadAhead::Fixed(round @ 2..)) = self.read_ahead_of(object) {
            let from = page.saturating_sub(round / 2);
            let advised = m.flags.advice() != Advice::Normal;
            return (!advised)
                .then(|| Window::ahead(from..from.saturating_add(round)).within(pages));
        }
        let limits = self.window_limits(object)?;
        self.engine.set_now(ctx.now());
        let mut faults = m.faults;
        let before = |most| self.cached_before(object, page, most);
        let window = faults.miss(limits, page, m.flags.advice(), before);
        self.mappings[mapping.0 as usize].faults = faults;
        Some(window?.within(pages))
    }

    /// A fault has found its page cached, and `around` mapped neighbours: it counts as a hit, and the
    /// mark of the page is taken. Returns whether it had one, and the window that this starts.
    pub(crate) fn fault_hit(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        object: ObjectId,
        page: u32,
        around: u32,
    ) -> (bool, Option<Window>) {
        self.count_hits(mapping, 1, around);
        let m = &self.mappings[mapping.0 as usize];
        let marked = self.has_mark(object, page, Flags::RECLAIM);
        if !marked || m.flags.advice() == Advice::Random {
            return (false, None);
        }
        let mut faults = m.faults;
        let window = self.take_mark(ctx, object, page, |w, limits, folio| {
            let missing = |most| w.missing_behind(object, &folio, most);
            let window = faults.marked(limits, &folio, missing);
            w.mappings[mapping.0 as usize].faults = faults;
            window
        });
        (!self.has_mark(object, page, Flags::RECLAIM), window)
    }

    /// Counts pages that a fault has found cached: its own, and neighbours that it has mapped.
    pub(crate) fn count_hits(&mut self, mapping: MappingId, own: u32, around: u32) {
        let around = if self.neighbours_are_hits { around } else { 0 };
        self.mappings[mapping.0 as usize].faults.hit(own + around);
    }

    /// Takes the mark of a page. A mark on a folio under writeback means nothing but reclaim.
    fn take_mark(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        next: impl FnOnce(&mut Self, Limits, Range<u32>) -> Option<Window>,
    ) -> Option<Window> {
        let limits = self.window_limits(object)?;
        self.engine.set_now(ctx.now());
        let id = self.objects[object.idx()].word(page).folio()?;
        if self.engine.folio(id).has(Flags::WRITEBACK) {
            return None;
        }
        let folio = pages_of(self.engine.folio(id));
        let dirty = self.engine.folio(id).has(Flags::DIRTY);
        self.engine.folio_clear(id, Flags::RECLAIM);
        let window = next(self, limits, folio)?;
        self.engine.count(ctx.memcg, Counter::AsyncWindows, 1);
        if dirty {
            self.engine.count(ctx.memcg, Counter::AsyncWindowsDirty, 1);
        }
        Some(window.within(self.objects[object.idx()].pages()))
    }

    /// The flag at which a read of cached pages stops, to start the next window.
    #[inline]
    pub(crate) fn stops_at(&self, object: ObjectId) -> Flags {
        match self.read_ahead_of(object) {
            Some(ReadAhead::Windows { kb: 1.. }) => Flags::RECLAIM,
            _ => Flags::empty(),
        }
    }

    /// A fault of a page of this object that is missing reads nothing else.
    #[inline]
    pub(crate) fn faults_read_alone(&self, object: ObjectId) -> bool {
        matches!(self.read_ahead_of(object), Some(ReadAhead::Fixed(0..=1)))
    }

    /// Of the device of a file.
    #[inline]
    fn read_ahead_of(&self, object: ObjectId) -> Option<ReadAhead> {
        match self.objects[object.idx()].backing {
            Backing::File { device, .. } => Some(self.read_ahead[device]),
            _ => None,
        }
    }

    /// The largest windows of a file's device, if it has windows.
    fn window_limits(&self, object: ObjectId) -> Option<Limits> {
        let Backing::File { device, .. } = self.objects[object.idx()].backing else {
            return None;
        };
        let ReadAhead::Windows { kb } = self.read_ahead[device] else {
            return None;
        };
        let request = self.devices[device].spec().max_req_bytes;
        let order = self.large_folios[device];
        Some(Limits::new(kb, request, order, self.window_rules))
    }

    /// Cached pages directly before `page`, counting no further than `most`.
    fn cached_before(&self, object: ObjectId, page: u32, most: u32) -> u32 {
        let object = &self.objects[object.idx()];
        counted::before(page, most, |page| {
            let id = object.word(page).folio()?;
            Some(pages_of(self.engine.folio(id)))
        })
    }

    /// The first page behind that with which `folio` begins that is not cached, no more than `most` away.
    fn missing_behind(&self, object: ObjectId, folio: &Range<u32>, most: u32) -> Option<u32> {
        let object = &self.objects[object.idx()];
        let last = object.pages().saturating_sub(1);
        counted::missing_behind(folio, most, last, |page| {
            object.word(page).folio().is_some()
        })
    }

    /// The window as far as it can be read into folios as large as it asks for, and the rest, which is read into single pages: from the
    /// first folio on in whose place something is cached.
    fn parts(&self, object: ObjectId, window: Window) -> [Window; 2] {
        let pages = window.pages.clone();
        let mut at = pages.start;
        while window.order > 0 && at < pages.end {
            let folio = 1 << aligned_order(&(at..pages.end), window.order);
            if self.empty_from(object, at, folio) < folio {
                break;
            }
            at += folio;
        }
        let part = |pages, order| Window {
            pages,
            order,
            ..window
        };
        [part(pages.start..at, window.order), part(at..pages.end, 0)]
    }

    /// The first run of pages in `range` that are not cached.
    fn missing_run(&self, object: ObjectId, range: Range<u32>) -> Range<u32> {
        let cached = |page: &u32| self.objects[object.idx()].word(*page).folio().is_some();
        let mut pages = range.clone();
        let first = pages.find(|page| !cached(page)).unwrap_or(range.end);
        let end = pages.find(cached).unwrap_or(range.end);
        first..end
    }
}

impl Machine {
    /// Reads what is missing of a window, one request for each run, until a reclaim is fruitless.
    /// Nobody waits for it here.
    pub(crate) async fn read_ahead(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        window: Window,
        purpose: Purpose,
    ) {
        let [large, single] = self.w.borrow().parts(object, window);
        if self.read_runs(ctx, object, large, purpose).await {
            self.read_runs(ctx, object, single, purpose).await;
        }
    }

    /// The same for a part of a window. Returns whether there is memory for more.
    async fn read_runs(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        window: Window,
        purpose: Purpose,
    ) -> bool {
        let mut at = window.pages.start;
        loop {
            let run = self.w.borrow().missing_run(object, at..window.pages.end);
            if run.is_empty() {
                return true;
            }
            at = run.start;
            let run = Window {
                pages: run,
                ..window
            };
            let mut miss = Miss::new(self, object, run, purpose);
            loop {
                let step = self.w.borrow_mut().step_miss(ctx, &mut miss);
                match step {
                    MissStep::Memory(lack) => {
                        if self.supply(ctx, &mut miss, lack).await.is_err() {
                            return false;
                        }
                    }
                    MissStep::Block(block) => {
                        let read = self.read_block(ctx, object, block, purpose).await;
                        if read.is_err() {
                            return false;
                        }
                    }
                    MissStep::Cached(_) => {
                        at += 1;
                        break;
                    }
                    // A task that needs a page whose read has failed reads it again, and gets the
                    // error.
                    MissStep::Device(reading) => {
                        drop(FolioRef::of(self, reading.first));
                        at = miss.end;
                        break;
                    }
                }
            }
            if miss.short {
                return false;
            }
        }
    }
}
