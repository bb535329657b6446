//! The simulated machine.

use super::arm::{Arm, Limits, Plan};
use coldset_engine::memcg::{CounterKind, UNLIMITED};
use coldset_engine::{presets, Counter, MemcgId, MmId, ObjectId};
use coldset_machine::device::{DeviceError, FailRule, FailWhen, FaultPlan, Op};
use coldset_machine::{
    Ctx, InlineClock, MachineConfig, MachineRun, MappingFlags, MappingId, SwapConfig,
};

struct Region {
    object: ObjectId,
    mapping: MappingId,
    ctx: Ctx,
}

pub struct Machine {
    run: MachineRun,
    top: MemcgId,
    groups: Vec<MemcgId>,
    regions: Vec<Region>,
    /// Writes to control files and syncs come from here.
    mm: MmId,
}

impl Machine {
    /// Somebody outside all groups, who comes last of all.
    fn control(&mut self) -> Ctx {
        let ctx = Ctx::inline(self.mm, MemcgId::ROOT, InlineClock::Running);
        ctx.set_clock(self.now());
        self.run.catch_up(&ctx);
        ctx
    }

    fn now(&self) -> u64 {
        let told = self.run.machine.world().engine.now();
        self.run.executor.now().max(told)
    }

    fn access(&mut self, region: usize, page: u32, write: bool) {
        let machine = self.run.machine.clone();
        let r = &self.regions[region];
        let ctx = &r.ctx;
        if machine.world_mut().touch(r.mapping, page, write) {
            return;
        }
        ctx.set_clock(self.run.executor.now().max(machine.world().engine.now()));
        self.run.catch_up(ctx);
        let access = machine.access(ctx, r.mapping, page, write);
        self.run.run_inline(ctx, access).expect("memory");
        let mm = ctx.mm;
        machine.world_mut().engine.mm_ran(mm);
    }
}

impl Arm for Machine {
    fn new(plan: &Plan) -> Option<Self> {
        let mut switches = presets::preset(plan.policy).expect("a preset");
        // As in the pager: statistics are read as they are.
        switches.stale_stats = false;
        let mut cfg = MachineConfig::new(switches);
        cfg.fault_around = 1;
        cfg.page_cluster = 0;
        cfg.swap = SwapConfig::Zram {
            pages: 1 << 16,
            algorithm: "lz4".into(),
        };
        let run = MachineRun::new(&cfg).expect("a machine");
        let machine = run.machine.clone();
        let create = |parent, limits: Limits| {
            let mut w = machine.world_mut();
            let id = w.engine.memcg_create(parent).expect("a group");
            let tree = &mut w.engine.memcgs;
            tree.set_max(id, CounterKind::Memory, limits.max.unwrap_or(UNLIMITED))
                .and_then(|()| tree.set_low(id, limits.low))
                .expect("limits");
            id
        };
        let max = Some(plan.budget);
        let top = create(MemcgId::ROOT, Limits { low: 0, max });
        let groups: Vec<MemcgId> = plan.groups.iter().map(|&g| create(top, g)).collect();
        let regions = plan
            .regions
            .iter()
            .map(|r| {
                let memcg = r.group.map_or(top, |g| groups[g]);
                let mm = machine.create_mm(memcg);
                let object = if r.anon {
                    machine.create_anon(r.pages)
                } else {
                    machine.create_file(0, r.pages)
                };
                Region {
                    object,
                    mapping: machine.mmap(mm, object, 0, r.pages, MappingFlags::empty()),
                    ctx: Ctx::inline(mm, memcg, InlineClock::Running),
                }
            })
            .collect();
        let mm = machine.create_mm(MemcgId::ROOT);
        Some(Self {
            run,
            top,
            groups,
            regions,
            mm,
        })
    }

    fn load(&mut self, region: usize, page: u32) -> u32 {
        self.access(region, page, false);
        let w = self.run.machine.world();
        let contents = w.object(self.regions[region].object).contents.as_ref();
        contents.map_or(0, |c| c.memory[page as usize])
    }

    fn store(&mut self, region: usize, page: u32) {
        self.access(region, page, true);
    }

    fn sync(&mut self, region: usize) -> bool {
        let control = self.control();
        let machine = self.run.machine.clone();
        let object = self.regions[region].object;
        self.run
            .run_inline(&control, machine.fsync(&control, object))
            .is_ok()
    }

    fn durable(&self, region: usize, page: u32) -> u32 {
        let w = self.run.machine.world();
        let contents = w.object(self.regions[region].object).contents.as_ref();
        contents.map_or(0, |c| c.disk[page as usize])
    }

    fn fail_writes(&mut self, fail: bool) {
        let mut plan = FaultPlan::default();
        if fail {
            plan.fail.push(FailRule {
                op: Some(Op::Write),
                when: FailWhen::EveryNth(1),
                error: DeviceError::Io,
            });
        }
        self.run.machine.world_mut().set_faults(0, plan);
    }

    fn let_flushers_try(&mut self) {
        let later = self.now() + 60_000_000_000;
        self.run.run_until(later);
    }

    fn set(&mut self, group: usize, limits: Limits) {
        let machine = self.run.machine.clone();
        let id = self.groups[group];
        machine
            .world_mut()
            .engine
            .memcgs
            .set_low(id, limits.low)
            .expect("a group");
        let control = self.control();
        let max = limits.max.unwrap_or(UNLIMITED);
        let write = machine.write_max(&control, id, max);
        self.run.run_inline(&control, write).expect("a group");
    }

    fn reclaim(&mut self, group: usize, pages: u64) {
        let machine = self.run.machine.clone();
        let control = self.control();
        let write = machine.write_reclaim(&control, self.groups[group], pages, None);
        self.run.run_inline(&control, write).expect("a group");
    }

    fn usage(&self, group: usize) -> u64 {
        let w = self.run.machine.world();
        w.engine.memcgs[self.groups[group]].memory().usage()
    }

    fn resident(&self) -> u64 {
        let w = self.run.machine.world();
        w.engine.memcgs[self.top].memory().usage()
    }

    fn counter(&self, c: Counter) -> i64 {
        self.run.machine.world().engine.memcgs.live(self.top, c)
    }

    fn misses(&self) -> u64 {
        (self.counter(Counter::Pgpgin) / 4 + self.counter(Counter::Pswpin)) as u64
    }

    fn check(&mut self) {
        self.run.machine.world().check();
    }
}
