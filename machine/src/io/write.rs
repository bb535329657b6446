//! Buffered writes, and throttling those who dirty too much.

use super::page_in::Purpose;
use super::read_ahead::Window;
use crate::config::OpError;
use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::mem::Backing;
use crate::record::Deed;
use crate::sim::TimeClass;
use crate::vm::held::FolioRef;
use crate::vm::tmpfs::Use;
use crate::world::World;
use coldset_engine::writeback::limits::headroom;
use coldset_engine::writeback::{BalanceInput, DeviceId, FlushInput, GlobalFigures, MemcgFigures};
use coldset_engine::zone::totalreserve;
use coldset_engine::{Counter, Flags, FolioId, MemcgId, ObjectId, WbId};

impl World {
    /// Connects folios that the engine has found dirty with their inodes and write contexts
    /// (`docs/rules/writeback.md`).
    pub(crate) fn note_dirty(&mut self, ctx: &Ctx) {
        if !self.engine.has_newly_dirty() {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        self.engine.take_newly_dirty(&mut buffer);
        let now = ctx.now();
        for &id in &buffer {
            let pages = self.tag_folio(id, now);
            ctx.newly_dirtied.set(ctx.newly_dirtied.get() + pages);
        }
        self.buffer = buffer;
        self.arm_flusher_timer(now);
    }

    /// The write context that the inode of a file is attached to, once it has been dirtied by `memcg`
    /// (`docs/rules/writeback.md#owners`).
    pub(crate) fn wb_of(&mut self, object: ObjectId, memcg: MemcgId) -> WbId {
        let memcg = self.writing_memcg(memcg);
        let device = self.device_of(object);
        self.objects[object.idx()].writer.get_or_insert(memcg);
        let wb = self.wb.attach(object, device, memcg);
        self.ensure_flusher(wb);
        wb
    }

    /// The write context whose limits hold for tasks of `memcg` that dirty a file, whoever owns the inode.
    fn wb_of_dirtier(&mut self, object: ObjectId, memcg: MemcgId) -> WbId {
        let memcg = self.writing_memcg(memcg);
        let wb = self.wb.wb_for(self.device_of(object), memcg);
        self.ensure_flusher(wb);
        wb
    }

    /// The inode of a file has been dirtied by somebody in no memcg before.
    pub fn owned_by_root(&mut self, object: ObjectId) {
        let device = self.device_of(object);
        let wb = self.wb.attach(object, device, MemcgId::ROOT);
        self.ensure_flusher(wb);
    }

    /// A round of writing of a file is over.
    pub(crate) fn round_over(&mut self, object: ObjectId) {
        if let Some(to) = self.wb.round_over(object) {
            self.ensure_flusher(to);
        }
    }

    /// The memcg in whose write context a memcg writes: the root's, unless memcgs have their own.
    pub(super) fn writing_memcg(&self, memcg: MemcgId) -> MemcgId {
        match self.memcg_writeback {
            true => self.engine.memcgs.nearest_online(memcg),
            false => MemcgId::ROOT,
        }
    }

    fn device_of(&self, object: ObjectId) -> DeviceId {
        let Backing::File { device, .. } = self.objects[object.idx()].backing else {
            unreachable!("dirty file folio of an anonymous object");
        };
        DeviceId(device as u32)
    }

    /// A store into a cached page through a descriptor.
    pub(super) fn write_cached(&mut self, ctx: &Ctx, object: ObjectId, page: u32, id: FolioId) {
        self.objects[object.idx()].store(page);
        if self.file_system.write_takes_mark() {
            self.engine.folio_clear(id, Flags::RECLAIM);
        }
        self.engine.set_dirty(id);
        self.note_dirty(ctx);
        ctx.charge(TimeClass::Fault, self.params.buffered_io_page_ns);
    }

    /// A cached page has been written: true if the file system needs kernel memory for that
    /// (`docs/rules/machine.md#memory-of-the-kernel`).
    pub(crate) fn attach_buffer(&mut self, object: ObjectId, page: u32) -> bool {
        let counted = self.kernel.is_some() && self.file_system.has_buffers();
        let object = &mut self.objects[object.idx()];
        counted && object.is_file() && object.attach_buffer(page)
    }

    /// Figures of the machine for the dirty limits.
    pub(crate) fn global_figures(&self) -> GlobalFigures {
        let root = MemcgId::ROOT;
        let stat = |c| self.engine.memcgs.live(root, c).max(0) as u64;
        let free = if self.engine.zones.is_empty() {
            // RAM without a limit: the machine's own threshold is never met.
            u64::MAX / (1 << 20)
        } else {
            self.engine.zones.all().iter().map(|z| z.free).sum()
        };
        GlobalFigures {
            free,
            totalreserve: totalreserve(self.engine.zones.all()),
            inactive_file: stat(Counter::InactiveFile),
            active_file: stat(Counter::ActiveFile),
            file_dirty: stat(Counter::FileDirty),
            writeback: stat(Counter::Writeback),
        }
    }

    /// Figures of a memcg for the dirty limits. They lag as its statistics do.
    pub(crate) fn memcg_figures(&self, memcg: MemcgId) -> Option<MemcgFigures> {
        if memcg == MemcgId::ROOT {
            return None;
        }
        let t = &self.engine.memcgs;
        let path = t.ancestors(memcg).filter(|&m| m != MemcgId::ROOT).map(|m| {
            let c = t[m].memory();
            (c.usage(), c.high(), c.max())
        });
        let stat = |c| t.folded(memcg, c).max(0) as u64;
        Some(MemcgFigures {
            file: stat(Counter::FilePages),
            headroom: headroom(path),
            file_dirty: stat(Counter::FileDirty),
            writeback: stat(Counter::Writeback),
        })
    }

    /// Figures for a flusher's decisions.
    pub(crate) fn flush_input(&self, wb: WbId) -> FlushInput {
        FlushInput {
            global: self.global_figures(),
            memcg: self.memcg_figures(self.wb.wb(wb).memcg()),
        }
    }
}

impl Machine {
    /// Writes into `pages` pages of a file from `page` on. `whole`: whole pages, which need not be
    /// read first.
    ///
    /// # Errors
    /// Out of memory, or the device failed to read.
    pub async fn write(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        pages: u32,
        whole: bool,
    ) -> Result<(), OpError> {
        self.w.borrow_mut().record(
            ctx,
            Deed::Write {
                object,
                page,
                pages,
                whole,
            },
        );
        let (mut at, end) = (page, page + pages);
        while at < end {
            if whole && self.w.borrow().order_of_write(object, at..end) > 0 {
                let written = Box::pin(self.write_large(ctx, object, at..end)).await?;
                if written > 0 {
                    at += written;
                    continue;
                }
            }
            self.write_page(ctx, object, at, whole).await?;
            at += 1;
        }
        self.balance_dirty(ctx, object).await;
        self.return_to_user(ctx).await;
        ctx.maybe_settle().await;
        Ok(())
    }

    async fn write_page(
        &self,
        ctx: &Ctx,
        object: ObjectId,
        page: u32,
        whole: bool,
    ) -> Result<(), OpError> {
        {
            let mut w = self.w.borrow_mut();
            w.engine.set_now(ctx.now());
            w.objects[object.idx()].grow(page + 1);
        }
        let mut fresh = false;
        loop {
            let cached = self.w.borrow().objects[object.idx()].word(page).folio();
            let held = match cached {
                // Stable pages are not required: only a read in flight holds the lock.
                Some(id) => self.get_unlocked(ctx, id).await,
                None if self.w.borrow().objects[object.idx()].is_tmpfs() => {
                    match self.tmpfs_page(ctx, object, page, Use::Write).await? {
                        Some(held) => held,
                        None => continue,
                    }
                }
                None if whole => match self.new_page(ctx, object, page, Purpose::Write).await? {
                    Some(id) => {
                        let held = FolioRef::get(self, id);
                        let mut w = self.w.borrow_mut();
                        w.engine.folio_set(id, Flags::UPTODATE);
                        w.unlock_folio(id);
                        held
                    }
                    None => continue,
                },
                None => {
                    let window = Window::needed(page..page + 1);
                    self.page_in(ctx, object, window, Purpose::Write).await?
                }
            };
            let id = held.id;
            let mut w = self.w.borrow_mut();
            let still = w.objects[object.idx()].word(page).folio() == Some(id);
            let ready = still && w.engine.folio(id).has(Flags::UPTODATE);
            if ready {
                w.write_cached(ctx, object, page, id);
                fresh = w.attach_buffer(object, page);
            }
            drop(w);
            drop(held);
            self.w.borrow_mut().pay(ctx);
            if ready {
                break;
            }
        }
        if fresh {
            self.charge_kernel(ctx, ctx.memcg, 0, 0, 1).await?;
        }
        Ok(())
    }

    /// Throttles a task that dirties pages (`docs/rules/writeback.md`).
    pub(crate) async fn balance_dirty(&self, ctx: &Ctx, object: ObjectId) {
        let pages = ctx.newly_dirtied.take();
        let due = {
            let mut w = self.w.borrow_mut();
            let w = &mut *w;
            if !w.dirty_balance || !w.objects[object.idx()].is_file() {
                return;
            }
            let wb = w.wb_of_dirtier(object, ctx.memcg);
            let mut task = ctx.dirty.borrow_mut();
            w.wb.needs_balance(&mut task, wb, ctx.cpu().into(), pages)
                .then_some(wb)
        };
        let Some(wb) = due else { return };
        loop {
            let pause = {
                let mut w = self.w.borrow_mut();
                let w = &mut *w;
                w.engine.set_now(ctx.now());
                let input = w.flush_input(wb);
                let mut task = ctx.dirty.borrow_mut();
                let b = w.wb.balance(BalanceInput {
                    now: ctx.now(),
                    task: &mut task,
                    wb,
                    global: input.global,
                    memcg: input.memcg,
                    task_memcg: ctx.memcg,
                    realtime: false,
                    killed: ctx.killed(),
                });
                drop(task);
                if b.start_background {
                    w.run_flushers(&[wb]);
                }
                w.run_flushers(&b.flush_foreign);
                b.pause
            };
            let Some(ticks) = pause else {
                return;
            };
            let hz = self.w.borrow().wb.params().hz;
            let ns = ticks * 1_000_000_000 / hz;
            ctx.sleep_until(TimeClass::ThrottleDirty, ctx.now() + ns.max(1))
                .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ctx, InlineClock, MachineConfig, MachineRun};
    use coldset_engine::memcg::CounterKind;
    use coldset_engine::presets::preset;
    use coldset_engine::writeback::FlushReason;
    use coldset_engine::{Counter, MemcgId};

    /// How often flushers were started for a foreign wb's sake and in the background, while a memcg wrote most of its limit.
    fn flushes(of_root: bool) -> (u64, u64) {
        let mut config = MachineConfig::new(preset("v618").unwrap());
        config.engine.cgroup_v2 = true;
        let mut run = MachineRun::new(&config).unwrap();
        let m = run.machine.clone();
        let memcg = m.world_mut().engine.memcg_create(MemcgId::ROOT).unwrap();
        let memcgs = |kind, pages| m.world_mut().engine.memcgs.set_max(memcg, kind, pages);
        memcgs(CounterKind::Memory, 1000).unwrap();
        let ctx = Ctx::inline(m.create_mm(memcg), memcg, InlineClock::Running);
        let file = m.create_file(0, 2000);
        if of_root {
            m.world_mut().owned_by_root(file);
        }
        for page in 0..900 {
            m.world_mut().engine.memcgs.fold();
            run.run_inline(&ctx, m.write(&ctx, file, page, 1, true))
                .unwrap();
        }
        m.world().check();
        let w = m.world();
        // Whoever limits them, pages that are written count for the memcg that they are charged to.
        let written = w.engine.vmstat().get(Counter::Pgpgout);
        assert!(written > 0);
        assert_eq!(w.engine.memcgs.live(memcg, Counter::Pgpgout), written);
        let of = |reason| w.wb.wakeups(reason);
        (of(FlushReason::ForeignFlush), of(FlushReason::Background))
    }

    #[test]
    fn a_file_of_the_roots_is_flushed_for_a_writer_at_its_limit() {
        let (foreign, background) = flushes(false);
        assert!(foreign == 0 && background > 0, "{foreign} {background}");
        let (foreign, _) = flushes(true);
        assert!(foreign > 0, "{foreign}");
    }

    /// Whoever paces a task may want its next write at once. What the last one meets takes its time all the same: writes
    /// under way end while it reclaims.
    #[test]
    fn the_machine_goes_on_while_a_paced_task_reclaims() {
        let mut config = MachineConfig::new(preset("v618").unwrap());
        config.engine.cgroup_v2 = true;
        let mut run = MachineRun::new(&config).unwrap();
        let m = run.machine.clone();
        let memcg = m.world_mut().engine.memcg_create(MemcgId::ROOT).unwrap();
        m.world_mut()
            .engine
            .memcgs
            .set_max(memcg, CounterKind::Memory, 500)
            .unwrap();
        let ctx = Ctx::inline(
            m.create_mm(memcg),
            memcg,
            InlineClock::Paced { reads: false },
        );
        let file = m.create_file(0, 4000);
        for page in 0..4000 {
            run.run_inline(&ctx, m.write(&ctx, file, page, 1, true))
                .unwrap();
        }
        let late = ctx.now();
        assert!(late > 0);
        // Once the time that it is told is later than it is late, that is its time.
        ctx.set_clock(10 * late);
        assert_eq!(ctx.now(), 10 * late);
        m.world().check();
    }
}
