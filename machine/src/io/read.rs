//! Buffered reads through a descriptor.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::page_in::{Miss, MissStep, Purpose};
use crate::io::read_ahead::{Advice, FileWindow, Window};
use crate::machine::{Machine, MachineRun};
use crate::sim::TimeClass;
use crate::vm::tmpfs::Use;
use crate::world::World;
use coldset_engine::{Flags, ObjectId};
use std::cell::Cell;
use std::ops::Range;

/// An open file. It remembers which folio its last read ended in: continuing in the same one is not
/// another access (`docs/rules/generations.md#references`); and what has been read ahead for it
/// (`docs/rules/read-ahead.md`).
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub object: ObjectId,
    prev: Cell<u32>,
    window: Cell<FileWindow>,
}

impl OpenFile {
    /// Opens a file.
    pub fn new(object: ObjectId) -> Self {
        Self {
            object,
            prev: Cell::new(u32::MAX),
            window: Cell::new(FileWindow::NEW),
        }
    }

    /// How it will be read.
    pub fn advise(&self, advice: Advice) {
        self.window.set(self.window.get().advise(advice));
    }

    /// The advice given.
    pub fn advice(&self) -> Advice {
        self.window.get().advice()
    }

    /// A read has ended before `page`.
    #[inline]
    fn ended(&self, page: u32) {
        self.window.set(self.window.get().ended(page));
    }

    pub(crate) fn update_window<T>(&self, update: impl FnOnce(&mut FileWindow) -> T) -> T {
        let mut window = self.window.get();
        let result = update(&mut window);
        self.window.set(window);
        result
    }
}

/// What a read does when it cannot just copy its next page.
enum Next {
    /// Reads it, and the window.
    Miss(Window),
    /// Starts the next window, and copies it.
    Marked,
    /// Gets it from where tmpfs has it.
    Tmpfs,
}

impl World {
    /// Reads pages, each in a read of its own, as long as they are cached and up to date and start no
    /// window. Returns how many were.
    #[inline]
    pub fn read_hits(
        &mut self,
        cpu: u16,
        file: &OpenFile,
        pages: impl Iterator<Item = u32>,
    ) -> usize {
        let stop = self.stops_at(file.object);
        let (hits, last) = self.copy(cpu, file, pages, stop);
        if hits > 0 {
            file.ended(last + 1);
        }
        hits
    }

    /// Reads pages one after the other as long as they are cached, up to date, and without the flag
    /// `stop`. Returns how many were, and the last of them. The hot path.
    #[inline]
    fn copy(
        &mut self,
        cpu: u16,
        file: &OpenFile,
        pages: impl Iterator<Item = u32>,
        stop: Flags,
    ) -> (usize, u32) {
        let object = &self.objects[file.object.idx()];
        let (mut hits, mut last) = (0, 0);
        for page in pages {
            let Some(id) = object.word(page).folio() else {
                break;
            };
            let f = self.engine.folio(id);
            if !f.has(Flags::UPTODATE) || f.any(stop) {
                break;
            }
            object.load(page);
            let (_, first) = f.owner();
            if file.prev.replace(first) != first {
                self.engine.mark_accessed(cpu, id);
            }
            (hits, last) = (hits + 1, page);
        }
        (hits, last)
    }

    /// As [`Self::copy`], which takes time.
    #[inline]
    fn copy_timed(&mut self, ctx: &Ctx, file: &OpenFile, pages: Range<u32>, stop: Flags) -> u32 {
        let (hits, _) = self.copy(ctx.cpu(), file, pages, stop);
        let hits = hits as u32;
        let ns = u64::from(hits) * self.params.buffered_io_page_ns;
        ctx.charge(TimeClass::Fault, ns);
        hits
    }
}

impl Machine {
    /// Reads `pages` pages of a file from `page` on. Adjacent misses of one call are read together.
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
        let object = file.object;
        self.w.borrow_mut().record_read(ctx, file, page, pages);
        let (mut at, end) = (page, page + pages);
        loop {
            let next = {
                let w = &mut *self.w.borrow_mut();
                let stop = w.stops_at(object);
                at += w.copy_timed(ctx, file, at..end, stop);
                if at == end {
                    break;
                }
                match w.objects[object.idx()].is_file() {
                    true if w.is_marked(object, at) => Next::Marked,
                    true => Next::Miss(w.read_window(ctx, file, at..end)),
                    false => Next::Tmpfs,
                }
            };
            let window = match next {
                Next::Miss(window) => window,
                Next::Marked => {
                    at += Box::pin(self.read_marked(ctx, file, at..end)).await;
                    continue;
                }
                Next::Tmpfs => {
                    at += Box::pin(self.read_tmpfs(ctx, object, at)).await?;
                    continue;
                }
            };
            let mut miss = Miss::new(self, object, window, Purpose::Read);
            let step = self.w.borrow_mut().step_miss(ctx, &mut miss);
            drop(match step {
                MissStep::Device(reading) if miss.rest().is_none() => {
                    self.finish_read(ctx, reading).await?
                }
                // Rarer and larger.
                step => Box::pin(self.finish_miss(ctx, &mut miss, step)).await?,
            });
        }
        file.ended(end);
        self.return_to_user(ctx).await;
        // Others catch up with an inline task before its next operation.
        if ctx.task().is_some() {
            ctx.maybe_settle().await;
        }
        Ok(())
    }

    /// Reads a page that is cached and marked: what its mark starts is read ahead first. Returns pages
    /// that have been read: 0 if it has left the cache meanwhile.
    async fn read_marked(&self, ctx: &Ctx, file: &OpenFile, wanted: Range<u32>) -> u32 {
        let page = wanted.start;
        let window = self.w.borrow_mut().marked_window(ctx, file, wanted);
        if let Some(window) = window {
            self.read_ahead(ctx, file.object, window, Purpose::Read)
                .await;
        }
        let w = &mut *self.w.borrow_mut();
        w.copy_timed(ctx, file, page..page + 1, Flags::empty())
    }

    /// Brings a page of a tmpfs file into memory. Returns pages that have been read: 1 for a hole,
    /// which reads as zeros and takes no memory.
    async fn read_tmpfs(&self, ctx: &Ctx, object: ObjectId, page: u32) -> Result<u32, OpError> {
        let found = self.tmpfs_page(ctx, object, page, Use::Read).await?;
        let w = self.w.borrow();
        if found.is_some() || !w.is_hole(object, page) {
            return Ok(0);
        }
        ctx.charge(TimeClass::Fault, w.params.buffered_io_page_ns);
        Ok(1)
    }
}

impl MachineRun {
    /// [`Machine::read`] of one page by an inline task, without a future as long as nothing but the
    /// device is waited for.
    ///
    /// # Errors
    /// As [`Machine::read`].
    pub fn read(&mut self, ctx: &Ctx, file: &OpenFile, page: u32) -> Result<(), OpError> {
        self.catch_up(ctx);
        let Self { executor, machine } = self;
        let object = file.object;
        let mut w = machine.w.borrow_mut();
        if w.objects[object.idx()].is_file() && !w.is_marked(object, page) {
            let window = w.read_window(ctx, file, page..page + 1);
            let mut miss = Miss::new(machine, object, window, Purpose::Read);
            match w.step_miss(ctx, &mut miss) {
                MissStep::Device(reading) if miss.rest().is_none() => w.skip_read(ctx, reading)?,
                step => {
                    drop(w);
                    let read = machine.finish_miss(ctx, &mut miss, step);
                    drop(machine.run_inline(executor, ctx, read)?);
                    w = machine.w.borrow_mut();
                }
            }
            if w.read_hits(ctx.cpu(), file, std::iter::once(page)) == 1 {
                ctx.charge(TimeClass::Fault, w.params.buffered_io_page_ns);
                if ctx.is_above_high() {
                    drop(w);
                    machine.go_on_inline(executor, ctx, machine.return_to_user(ctx));
                }
                return Ok(());
            }
        }
        drop(w);
        machine.run_inline(executor, ctx, machine.read(ctx, file, page, 1))
    }
}
