//! The machine: building one, giving it files, memory and tasks, and running it.

use crate::config::{MachineConfig, MachineError};
use crate::ctx::Ctx;
use crate::mem::mapping::TABLE;
use crate::mem::{Backing, Fill, Mapping, MappingFlags, MappingId, Object};
use crate::seat::Seat;
use crate::sim::{Executor, RunEnd, Sim, SimConfig};
use crate::world::{Mm, World};
use coldset_engine::{MemcgId, MmId, ObjectId};
use std::cell::{Ref, RefCell, RefMut};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A cheap handle on the machine, for tasks.
#[derive(Clone)]
pub struct Machine {
    pub(crate) w: Rc<RefCell<World>>,
    /// The simulation it lives in.
    pub sim: Sim,
    /// The CPU of inline tasks, if they have one.
    seat: Option<Seat>,
}

#[cfg(test)]
impl Machine {
    /// A new memcg with a limit, pages.
    pub(crate) fn limited_memcg(&self, limit: u64) -> MemcgId {
        let engine = &mut self.world_mut().engine;
        let memcg = engine.memcg_create(MemcgId::ROOT).unwrap();
        let kind = coldset_engine::memcg::CounterKind::Memory;
        engine.memcgs.set_max(memcg, kind, limit).unwrap();
        memcg
    }
}

/// A machine with its executor.
pub struct MachineRun {
    /// Owner of the tasks.
    pub executor: Executor,
    /// The machine.
    pub machine: Machine,
}

impl MachineRun {
    /// Builds a machine; kswapd and the flushers are at work.
    ///
    /// # Errors
    /// Settings that cannot work, each named with what is possible.
    pub fn new(cfg: &MachineConfig) -> Result<Self, MachineError> {
        let executor = Executor::new(SimConfig {
            nodes: cfg.engine.nr_nodes as u16,
            ..SimConfig::from_params(&cfg.params, cfg.cpus)
        });
        let sim = executor.handle();
        let w = Rc::new(RefCell::new(World::new(cfg, &sim)?));
        let me = Rc::downgrade(&w);
        sim.set_switch_hook({
            let me = me.clone();
            move |s| me.upgrade().map_or(0, |w| w.borrow_mut().context_switch(s))
        });
        w.borrow_mut().me = me;
        crate::sampling::start(&w, &sim, cfg.sample_points);
        let seat = cfg.inline_on_cpu.then(|| Seat::new(&sim));
        let machine = Machine { w, sim, seat };
        machine.start_kswapd();
        Ok(Self { executor, machine })
    }

    /// Runs until no event is left, the simulation is stopped, or `t`.
    pub fn run_until(&mut self, t: u64) -> RunEnd {
        self.executor.run_until(t)
    }

    /// The samples so far and one of this moment, by series: (ns, value). Empty without
    /// [`MachineConfig::sample_points`].
    #[must_use]
    pub fn samples(&self) -> Vec<(&'static str, Vec<(u64, u64)>)> {
        let mut w = self.machine.world_mut();
        let (now, row) = (self.executor.now(), w.sample());
        let Some(samples) = &mut w.samples else {
            return Vec::new();
        };
        samples.push(now, row);
        samples.series().collect()
    }

    /// Runs an operation of an inline task to its end. Whenever it waits, the rest of the machine
    /// runs on.
    pub fn run_inline<T>(&mut self, ctx: &Ctx, operation: impl Future<Output = T>) -> T {
        self.machine.run_inline(&mut self.executor, ctx, operation)
    }

    /// Brings an inline task and the rest of the machine to the same time: that of whichever is
    /// ahead.
    #[inline]
    pub fn catch_up(&mut self, ctx: &Ctx) {
        self.machine.catch_up(&mut self.executor, ctx);
    }
}

impl Machine {
    /// [`MachineRun::run_inline`] of an operation that borrows the machine of the run.
    pub(crate) fn run_inline<T>(
        &self,
        executor: &mut Executor,
        ctx: &Ctx,
        operation: impl Future<Output = T>,
    ) -> T {
        self.catch_up(executor, ctx);
        self.go_on_inline(executor, ctx, operation)
    }

    /// The same for the rest of an operation that has begun.
    pub(crate) fn go_on_inline<T>(
        &self,
        executor: &mut Executor,
        ctx: &Ctx,
        operation: impl Future<Output = T>,
    ) -> T {
        let mut operation = pin!(operation);
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match operation.as_mut().poll(&mut cx) {
                Poll::Ready(value) => return value,
                Poll::Pending => self.pass(executor, ctx),
            }
        }
    }

    /// What [`Ctx::maybe_settle`] does for an inline task: the rest of the machine catches up.
    #[inline]
    pub(crate) fn settle_inline(&self, executor: &mut Executor, ctx: &Ctx) {
        if ctx.has_clock() {
            self.pass(executor, ctx);
        }
    }

    /// The rest of the machine comes to the time of an inline task.
    #[inline]
    fn pass(&self, executor: &mut Executor, ctx: &Ctx) {
        match &self.seat {
            None => drop(executor.run_until(ctx.now())),
            Some(seat) => seat.pass(executor, ctx),
        }
    }

    #[inline]
    fn catch_up(&self, executor: &mut Executor, ctx: &Ctx) {
        if let Some(seat) = &self.seat {
            seat.returns(executor);
        }
        ctx.set_clock(executor.now().max(self.world().engine.now()));
        if ctx.now() > executor.now() {
            self.pass(executor, ctx);
        }
    }

    /// The state, to look at.
    pub fn world(&self) -> Ref<'_, World> {
        self.w.borrow()
    }

    /// The state, to change. Not over an `await`.
    pub fn world_mut(&self) -> RefMut<'_, World> {
        self.w.borrow_mut()
    }

    /// A new file of `pages` pages on a device, nothing cached, after the files already there.
    pub fn create_file(&self, device: usize, pages: u32) -> ObjectId {
        let make = |w: &mut World, backing| w.new_object(backing, pages);
        self.add_file(device, pages, make)
    }

    /// As [`Self::create_file`], of which few pages will be used: it takes memory by those.
    pub fn create_scattered_file(&self, device: usize, pages: u32) -> ObjectId {
        let make = |_: &mut World, backing| Object::scattered(backing, pages);
        self.add_file(device, pages, make)
    }

    fn add_file(
        &self,
        device: usize,
        pages: u32,
        make: impl FnOnce(&mut World, Backing) -> Object,
    ) -> ObjectId {
        let mut w = self.w.borrow_mut();
        let start = w.device_end[device];
        // Files are laid out one after the other, with room to grow.
        w.device_end[device] += u64::from(pages).next_multiple_of(1 << 10) + (1 << 10);
        let object = make(&mut w, Backing::File { device, start });
        w.add_object(object)
    }

    /// A new anonymous region in which every page is filled with one value: zram keeps a word of it.
    pub fn create_anon_same_filled(&self, pages: u32) -> ObjectId {
        let id = self.create_anon(pages);
        self.w.borrow_mut().objects[id.idx()].fill = Fill::Same;
        id
    }

    /// A new anonymous region of random contents: zram keeps its pages raw.
    pub fn create_anon_random(&self, pages: u32) -> ObjectId {
        let id = self.create_anon(pages);
        self.w.borrow_mut().objects[id.idx()].fill = Fill::Random;
        id
    }

    /// A new anonymous region.
    pub fn create_anon(&self, pages: u32) -> ObjectId {
        let mut w = self.w.borrow_mut();
        let object = w.new_object(Backing::Anon, pages);
        w.add_object(object)
    }

    /// A new anonymous region of which few pages will be used: it takes memory by those.
    pub fn create_scattered_anon(&self, pages: u32) -> ObjectId {
        self.w
            .borrow_mut()
            .add_object(Object::scattered(Backing::Anon, pages))
    }

    /// A new address space in a memcg.
    pub fn create_mm(&self, memcg: MemcgId) -> MmId {
        let mut w = self.w.borrow_mut();
        let id = w.engine.mm_create(memcg);
        debug_assert_eq!(id.idx(), w.mms.len());
        w.hold_memcg(memcg);
        w.mms.push(Mm {
            memcg,
            mappings: Vec::new(),
            gaps: Default::default(),
            open_table: None,
            anon: 0,
            file: 0,
            swapped: 0,
            tables: 0,
            alive: true,
        });
        w.tlb.add_mm();
        id
    }

    /// Maps `pages` pages of an object from `start` on.
    pub fn mmap(
        &self,
        mm: MmId,
        object: ObjectId,
        start: u32,
        pages: u32,
        flags: MappingFlags,
    ) -> MappingId {
        let make = match self.w.borrow().is_too_large() {
            false => Mapping::new,
            true => Mapping::scattered,
        };
        self.add_mapping(make(mm, object, start, pages, flags))
    }

    /// As [`Self::mmap`] of all of an object, for few pages of it: takes memory by those.
    pub fn mmap_scattered(&self, mm: MmId, object: ObjectId, flags: MappingFlags) -> MappingId {
        let pages = self.w.borrow().object(object).pages();
        self.add_mapping(Mapping::scattered(mm, object, 0, pages, flags))
    }

    /// It takes the addresses of the last mapping of its length that is gone.
    fn add_mapping(&self, mut mapping: Mapping) -> MappingId {
        let (mm, object) = (mapping.mm, mapping.object);
        let mut w = self.w.borrow_mut();
        w.drop_zeroes(object);
        let gaps = w.mms[mm.idx()].gaps.get_mut(&mapping.len());
        mapping.place = gaps.and_then(Vec::pop);
        let id = MappingId(w.mappings.len() as u32);
        mapping.shares_table = w.shared_tables && (1..TABLE).contains(&mapping.len());
        if mapping.shares_table && mapping.place.is_none() {
            mapping.place = w.mms[mm.idx()].next_to_others(id, mapping.len());
        }
        w.mappings.push(mapping);
        w.mms[mm.idx()].mappings.push(id);
        w.objects[object.idx()].mappings.push(id);
        id
    }
}

impl World {
    /// Pages that files and regions may have together, but for those that take memory by use.
    pub fn set_most_pages(&mut self, most: u64) {
        self.pages.1 = most;
    }

    /// They have more: the simulation has been stopped.
    pub fn is_too_large(&self) -> bool {
        self.pages.0 > self.pages.1
    }

    /// An object of so many pages; where that is too many, one that takes no memory for them.
    pub(crate) fn new_object(&mut self, backing: Backing, pages: u32) -> Object {
        self.pages.0 += u64::from(pages);
        if self.is_too_large() {
            self.sim.stop();
            return Object::scattered(backing, pages);
        }
        Object::new(backing, pages)
    }

    pub(crate) fn add_object(&mut self, o: Object) -> ObjectId {
        let id = ObjectId(self.objects.len() as u32);
        self.objects.push(o);
        id
    }
}
