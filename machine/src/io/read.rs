//! Buffered reads through a descriptor.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::page_in::{Miss, MissStep, Purpose};
use crate::machine::{Machine, MachineRun};
use crate::mem::Object;
use crate::sim::TimeClass;
use crate::vm::tmpfs::Use;
use crate::world::World;
use coldset_engine::{Flags, FolioId, ObjectId};
use std::cell::Cell;

/// An open file. It remembers which page its last read ended in: continuing in the same page is not
/// another access (`docs/rules/generations.md#references`).
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

impl World {
    /// Reads pages one after the other as long as they are cached and up to date. Returns how many
    /// were. The hot path.
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

    /// How many accesses [`Self::warm`] is best given at a time: as many as a CPU can have in flight.
    pub const WARM: usize = 32;

    /// Prefetches what the next accesses will look at into the CPU's cache, all at once, where one
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
        let (mut at, end) = (page, page + pages);
        loop {
            let window = {
                let w = &mut *self.w.borrow_mut();
                let hits = w.read_hits(ctx.cpu(), file, at..end) as u32;
                let ns = u64::from(hits) * w.params.buffered_io_page_ns;
                ctx.charge(TimeClass::Fault, ns);
                at += hits;
                if at == end {
                    break;
                }
                let on_device = w.objects[object.idx()].is_file();
                on_device.then(|| w.miss_window(ctx, object, at..end))
            };
            let Some(window) = window else {
                at += Box::pin(self.read_tmpfs(ctx, object, at)).await?;
                continue;
            };
            let mut miss = Miss::new(self, object, window, Purpose::Read);
            let step = self.w.borrow_mut().step_miss(ctx, &mut miss);
            drop(match step {
                MissStep::Device(reading) => self.finish_read(ctx, reading).await?,
                // Rarer and larger.
                step => Box::pin(self.finish_miss(ctx, &mut miss, step)).await?,
            });
        }
        // Others catch up with an inline task before its next operation.
        if ctx.task().is_some() {
            ctx.maybe_settle().await;
        }
        Ok(())
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
        if w.objects[object.idx()].is_file() {
            let window = w.miss_window(ctx, object, page..page + 1);
            let mut miss = Miss::new(machine, object, window, Purpose::Read);
            match w.step_miss(ctx, &mut miss) {
                MissStep::Device(reading) => w.skip_read(ctx, reading)?,
                step => {
                    drop(w);
                    let read = machine.finish_miss(ctx, &mut miss, step);
                    drop(machine.run_inline(executor, ctx, read)?);
                    w = machine.w.borrow_mut();
                }
            }
            if w.read_hits(ctx.cpu(), file, std::iter::once(page)) == 1 {
                ctx.charge(TimeClass::Fault, w.params.buffered_io_page_ns);
                return Ok(());
            }
        }
        drop(w);
        machine.run_inline(executor, ctx, machine.read(ctx, file, page, 1))
    }
}
