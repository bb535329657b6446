//! One run: building the machine, driving operations, checking on the way.

use super::config::Setup;
use super::model::Model;
use super::{ops, FuzzReport, Plant};
use coldset_engine::memcg::CounterKind;
use coldset_engine::{Counter, MemcgId, MmId, NodeId, ObjectId};
use coldset_lab::draw::Stream;
use coldset_machine::device::FaultPlan;
use coldset_machine::{
    Ctx, InlineClock, Machine, MachineRun, MappingFlags, MappingId, OpError, OpenFile,
};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::rc::Rc;

/// Longest time an operation may take, ns of virtual time: slow disks under dirty throttling take
/// minutes, nothing takes hours.
pub(super) const OPERATION_MAX: u64 = 7_200_000_000_000;
/// Memcgs of a run, those that are gone included.
pub(super) const MEMCGS_MAX: usize = 32;
/// After so much of it the devices heal: while every write fails, writers may wait.
pub(super) const HEAL_AFTER: u64 = 60_000_000_000;

/// A file or an anonymous region as a process sees it.
pub(super) struct Region {
    pub object: ObjectId,
    pub pages: u32,
    /// Place in the model.
    pub at: usize,
    pub anon: bool,
    pub file: OpenFile,
    pub mapping: Cell<Option<MappingId>>,
}

/// A process.
pub(super) struct Proc {
    pub mm: MmId,
    pub memcg: MemcgId,
    pub regions: Vec<Region>,
}

/// What the tasks of a run share.
pub(super) struct Shared {
    pub machine: Machine,
    pub model: RefCell<Model>,
    /// Files: object, pages, place in the model.
    pub files: Vec<(ObjectId, u32, usize)>,
    pub anon: Vec<u32>,
    /// The memcg above all.
    pub top: MemcgId,
    /// Online memcgs below it, with the usage that they may have above their limit because it was
    /// lowered.
    pub memcgs: RefCell<Vec<MemcgId>>,
    pub ceilings: RefCell<Vec<u64>>,
    pub limit: u64,
    pub total: u64,
    pub done: Rc<Cell<u64>>,
    pub plant: Cell<Plant>,
    pub mlocked: RefCell<Vec<(ObjectId, u32)>>,
    pub no_memory: Cell<u64>,
    pub device_errors: Cell<u64>,
    pub nodes: u32,
    pub devices: usize,
}

impl Shared {
    pub fn step(&self, n: u64) {
        self.done.set(self.done.get() + n);
    }

    /// Nothing goes wrong with any device from now on.
    pub fn heal(&self) {
        let mut w = self.machine.world_mut();
        for device in 0..self.devices {
            w.set_faults(device, FaultPlan::default());
        }
        w.set_swap_faults(FaultPlan::default());
    }

    pub fn over(&self) -> bool {
        self.done.get() >= self.total
    }

    /// Errors that a load may meet are counted.
    pub fn count(&self, result: Result<(), OpError>) {
        let counter = match result {
            Err(OpError::NoMemory) => &self.no_memory,
            Err(OpError::Device(_)) => &self.device_errors,
            Ok(()) | Err(OpError::Unmapped) => return,
        };
        counter.set(counter.get() + 1);
    }

    /// A memcg with random protection, below the top or below another.
    pub fn new_memcg(&self, rng: &mut Stream) -> MemcgId {
        let mut memcgs = self.memcgs.borrow_mut();
        let parent = match memcgs.len() as u64 {
            n if n > 0 && rng.chance(1, 3) => memcgs[rng.below(n) as usize],
            _ => self.top,
        };
        let id = self
            .machine
            .world_mut()
            .engine
            .memcg_create(parent)
            .expect("fewer memcgs than ids");
        memcgs.push(id);
        id
    }

    /// Takes a memcg without processes offline, unless it has children or there are many already:
    /// walks visit those that are gone, too.
    pub fn offline(&self, id: MemcgId) {
        if self.machine.world().engine.memcgs.nr_memcgs() > MEMCGS_MAX {
            return;
        }
        if self.machine.world_mut().engine.memcg_offline(id).is_ok() {
            self.memcgs.borrow_mut().retain(|&m| m != id);
        }
    }

    /// Kernel memory is never given back, and memcgs that are gone keep theirs: the limit above all
    /// rises with it, or long runs would be nothing but kills.
    pub fn make_room(&self) {
        let mut w = self.machine.world_mut();
        let kernel = w.engine.memcgs.live(self.top, Counter::KernelPages).max(0) as u64;
        let least = self.limit / 2 + kernel;
        if w.engine.memcgs[self.top].memory().max() < least {
            w.engine
                .memcgs
                .set_max(self.top, CounterKind::Memory, least)
                .expect("a memcg below the root");
        }
    }

    /// A new process in a memcg of its own or in one that exists.
    pub fn new_process(&self, rng: &mut Stream) -> Rc<Proc> {
        self.make_room();
        let online = self.memcgs.borrow().clone();
        let many = self.machine.world().engine.memcgs.nr_memcgs() > MEMCGS_MAX;
        let memcg = if online.is_empty() || (!many && rng.chance(2, 3)) {
            self.new_memcg(rng)
        } else {
            online[rng.below(online.len() as u64) as usize]
        };
        let mm = self.machine.create_mm(memcg);
        let mut regions = Vec::new();
        let region = |object, pages, at, anon| Region {
            object,
            pages,
            at,
            anon,
            file: OpenFile::new(object),
            mapping: Cell::new(None),
        };
        for &(object, pages, at) in &self.files {
            regions.push(region(object, pages, at, false));
        }
        for &pages in &self.anon {
            let object = self.machine.create_anon(pages);
            let at = self.model.borrow_mut().add(object, pages);
            regions.push(region(object, pages, at, true));
        }
        Rc::new(Proc { mm, memcg, regions })
    }

    /// Maps a region if it is not mapped.
    pub fn mapped(&self, p: &Proc, r: &Region, rng: &mut Stream) -> MappingId {
        if let Some(m) = r.mapping.get() {
            return m;
        }
        let flags = match rng.below(8) {
            0 => MappingFlags::EXEC,
            1 => MappingFlags::NO_RECENCY,
            _ => MappingFlags::empty(),
        };
        let m = self.machine.mmap(p.mm, r.object, 0, r.pages, flags);
        r.mapping.set(Some(m));
        m
    }

    /// The process ends.
    pub fn exit(&self, ctx: &Ctx, p: &Proc) {
        self.machine.exit_mm(ctx, p.mm);
        for r in p.regions.iter().filter(|r| r.anon) {
            self.model.borrow_mut().released(r.at);
        }
    }

    /// Usage may be above the limit only by what it was when the limit was lowered, plus what
    /// dying tasks took: a batch for each of them.
    pub fn check_limits(&self) {
        let w = self.machine.world();
        let slack = coldset_engine::memcg::CHARGE_BATCH * 8;
        for (i, ceiling) in self.ceilings.borrow_mut().iter_mut().enumerate() {
            let Some(m) = w.engine.memcgs.get(MemcgId(i as u32)) else {
                continue;
            };
            let (usage, max) = (m.memory().usage(), m.memory().max());
            *ceiling = (*ceiling).min(usage).max(max);
            assert!(
                usage <= *ceiling + slack,
                "memcg {i} has {usage} pages, its limit is {max}"
            );
        }
    }

    /// Remembers the usage of a memcg whose limit is about to change.
    pub fn note_usage(&self, id: MemcgId) {
        let usage = self.machine.world().engine.memcgs[id].memory().usage();
        let mut c = self.ceilings.borrow_mut();
        if c.len() <= id.idx() {
            c.resize(id.idx() + 1, u64::MAX / 2);
        }
        c[id.idx()] = usage.max(if c[id.idx()] > u64::MAX / 4 {
            0
        } else {
            c[id.idx()]
        });
    }
}

/// A run.
pub(super) struct Load {
    pub run: MachineRun,
    pub sh: Rc<Shared>,
    pub setup: Setup,
    pub rng: Stream,
    pub seed: u64,
    pub checks: u64,
    next_check: u64,
    check_every: u64,
}

impl Load {
    pub fn new(seed: u64, ops: u64, setup: &Setup, plant: Plant, done: &Rc<Cell<u64>>) -> Self {
        let run = MachineRun::new(&setup.machine)
            .unwrap_or_else(|e| panic!("a machine that cannot be: {e}"));
        let machine = run.machine.clone();
        let rng = Stream::new(seed, "fuzz-load", 0);
        let mut model = Model::default();
        let files = setup
            .files
            .iter()
            .map(|&(device, pages)| {
                let object = machine.create_file(device, pages);
                (object, pages, model.add(object, pages))
            })
            .collect();
        let top = {
            let mut w = machine.world_mut();
            let (last, devices) = setup.faults.split_last().expect("one for swap");
            for (i, plan) in devices.iter().enumerate() {
                w.set_faults(i, plan.clone());
            }
            w.set_swap_faults(last.clone());
            let top = w
                .engine
                .memcg_create(MemcgId::ROOT)
                .expect("the first memcg");
            w.engine
                .memcgs
                .set_max(top, CounterKind::Memory, setup.limit)
                .expect("a limit");
            top
        };
        let pages: u64 = setup.files.iter().map(|f| u64::from(f.1)).sum::<u64>()
            + setup.processes * setup.anon.iter().map(|&n| u64::from(n)).sum::<u64>();
        let sh = Rc::new(Shared {
            machine,
            model: RefCell::new(model),
            files,
            anon: setup.anon.clone(),
            top,
            memcgs: RefCell::default(),
            ceilings: RefCell::default(),
            limit: setup.limit,
            total: ops,
            done: done.clone(),
            plant: Cell::new(plant),
            mlocked: RefCell::default(),
            no_memory: Cell::new(0),
            device_errors: Cell::new(0),
            nodes: setup.machine.engine.nr_nodes,
            devices: setup.machine.devices.len(),
        });
        sh.note_usage(top);
        Self {
            run,
            sh,
            setup: setup.clone(),
            rng,
            seed,
            checks: 0,
            next_check: 0,
            check_every: (pages / 16).max(100),
        }
    }

    /// The whole run.
    ///
    /// # Panics
    /// If anything breaks.
    pub fn run(mut self) -> FuzzReport {
        if self.setup.tasks == 0 {
            self.inline();
        } else {
            self.tasks();
        }
        self.check();
        self.finish();
        let w = self.sh.machine.world();
        let count = |c: Counter| w.engine.memcgs.live(MemcgId::ROOT, c).max(0) as u64;
        FuzzReport {
            seed: self.seed,
            ops: self.sh.done.get(),
            time: self.run.executor.now(),
            checks: self.checks,
            no_memory: self.sh.no_memory.get(),
            device_errors: self.sh.device_errors.get(),
            kills: count(Counter::OomKill),
            reclaimed: [
                Counter::PgstealKswapd,
                Counter::PgstealDirect,
                Counter::PgstealProactive,
            ]
            .map(count)
            .iter()
            .sum(),
            swapped: count(Counter::Pswpout),
            setup: self.setup.text.clone(),
        }
    }

    /// Checks if it is time to. Returns whether.
    pub fn maybe_check(&mut self) -> bool {
        let due = self.sh.done.get() >= self.next_check;
        if due {
            self.check();
        }
        due
    }

    fn check(&mut self) {
        self.checks += 1;
        self.next_check = self.sh.done.get() + self.check_every;
        let w = self.sh.machine.world();
        w.check();
        self.sh.model.borrow().check(&w);
        drop(w);
        self.sh.check_limits();
    }

    /// An inline context.
    pub fn inline_ctx(&mut self, mm: MmId, memcg: MemcgId) -> Ctx {
        let mut ctx = Ctx::inline(mm, memcg, InlineClock::Running);
        let node = self.rng.below(u64::from(self.sh.nodes) * 2) as u32;
        if node < self.sh.nodes {
            ctx.bind(NodeId(node));
        }
        ctx
    }

    /// Drives an inline operation to its end, in bounded time.
    pub fn drive<T>(&mut self, ctx: &Ctx, operation: impl Future<Output = T>) -> T {
        ctx.set_clock(
            self.run
                .executor
                .now()
                .max(self.sh.machine.world().engine.now()),
        );
        self.run.catch_up(ctx);
        let began = ctx.now();
        let deadline = began + OPERATION_MAX;
        let mut operation = pin!(operation);
        let sh = self.sh.clone();
        let bounded = poll_fn(|cx| {
            if ctx.now() > began + HEAL_AFTER {
                sh.heal();
            }
            assert!(ctx.now() < deadline, "an operation does not end");
            operation.as_mut().poll(cx)
        });
        self.run.run_inline(ctx, bounded)
    }

    fn inline(&mut self) {
        let mut players: Vec<(Ctx, Rc<Proc>)> = (0..self.setup.processes)
            .map(|_| {
                let p = self.sh.new_process(&mut self.rng);
                (self.inline_ctx(p.mm, p.memcg), p)
            })
            .collect();
        while !self.sh.over() {
            let i = self.rng.below(players.len() as u64) as usize;
            let sh = self.sh.clone();
            let (ctx, p) = &players[i];
            if self.rng.chance(1, 1000) {
                // It exits; what it has read stays charged to its memcg.
                sh.exit(ctx, p);
                let memcg = p.memcg;
                if players.iter().filter(|(_, p)| p.memcg == memcg).count() == 1 {
                    sh.offline(memcg);
                }
                let p = sh.new_process(&mut self.rng);
                players[i] = (self.inline_ctx(p.mm, p.memcg), p);
                sh.step(1);
            } else {
                let p = p.clone();
                let mut rng = self.rng.clone();
                let ctx = &players[i].0;
                self.drive(ctx, ops::one(&sh, ctx, &p, &mut rng));
                self.rng = rng;
            }
            self.maybe_check();
        }
        for (ctx, p) in &players {
            self.sh.exit(ctx, p);
        }
    }
}
