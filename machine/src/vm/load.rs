//! A load through a mapping by an inline task: without a future as long as nothing but the device is waited for, as
//! [`MachineRun::read`] is for descriptors. What it counts and charges is what [`Machine::access`] does, in its order.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::page_in::{Miss, MissStep, Purpose};
use crate::io::read_ahead::Window;
use crate::machine::{Machine, MachineRun};
use crate::mem::MappingId;
use crate::sim::TimeClass;
use crate::world::World;
use coldset_engine::{Counter, FolioId, ObjectId};

impl World {
    /// The page that a load fault has to read, and nothing but that page; none if more is to be done or less.
    #[inline]
    fn missing_alone(&self, mapping: MappingId, entry: u32) -> Option<(ObjectId, u32)> {
        let m = &self.mappings[mapping.0 as usize];
        let (object, page) = (m.object, m.start + entry);
        let alone = m.alive
            && self.fault_around <= 1
            && self.faults_read_alone(object)
            && self.objects[object.idx()].word(page).folio().is_none();
        alone.then_some((object, page))
    }

    /// A fault has read its page: maps it. Returns leaf tables created.
    #[inline]
    fn map_read(&mut self, ctx: &Ctx, mapping: MappingId, entry: u32, id: FolioId) -> u64 {
        self.map_found(ctx, mapping, entry, id, false).0
    }

    /// True if the entry is there; it has been used then.
    #[inline]
    fn load_again(&mut self, ctx: &Ctx, mapping: MappingId, entry: u32) -> bool {
        let there = self.touch(mapping, entry, false);
        if there {
            self.tlb.used(ctx.cpu());
        }
        there
    }
}

impl MachineRun {
    /// [`Machine::access`] for a load by an inline task.
    ///
    /// # Errors
    /// As [`Machine::access`].
    pub fn load(&mut self, ctx: &Ctx, mapping: MappingId, entry: u32) -> Result<(), OpError> {
        self.catch_up(ctx);
        let Self { executor, machine } = self;
        let mut guard = machine.w.borrow_mut();
        let w = &mut *guard;
        let Some((object, page)) = w.missing_alone(mapping, entry) else {
            drop(guard);
            return machine.run_inline(executor, ctx, machine.access(ctx, mapping, entry, false));
        };
        w.record_touch(ctx, mapping, entry, 1, false);
        if w.touch_stale(ctx, mapping, entry, false) {
            w.tlb.used(ctx.cpu());
            return Ok(());
        }
        w.begin_fault(ctx, mapping);
        ctx.charge(TimeClass::Fault, w.params.minor_fault_file_ns);
        w.engine.count(ctx.memcg, Counter::Pgmajfault, 1);
        w.count_hits(mapping, 0, 0);
        let mut miss = Miss::new(
            machine,
            object,
            Window::needed(page..page + 1),
            Purpose::Fault,
        );
        let step = w.step_miss(ctx, &mut miss);
        let MissStep::Device(reading) = step else {
            drop(guard);
            let rest = machine.load_missed(ctx, mapping, entry, miss, step);
            return machine.go_on_inline(executor, ctx, rest);
        };
        let tables = w.end_read(ctx, reading, |w, id| w.map_read(ctx, mapping, entry, id))?;
        w.pay(ctx);
        let tables_paid = tables == 0 || w.kernel.is_none();
        let done = tables_paid && w.load_again(ctx, mapping, entry);
        drop(guard);
        if !done {
            let rest = machine.load_mapped(ctx, mapping, entry, tables);
            return machine.go_on_inline(executor, ctx, rest);
        }
        if ctx.is_above_high() {
            machine.go_on_inline(executor, ctx, machine.return_to_user(ctx));
        }
        machine.settle_inline(executor, ctx);
        Ok(())
    }
}

impl Machine {
    /// The rest of a load whose page has not been read yet.
    async fn load_missed(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        mut miss: Miss<'_>,
        step: MissStep,
    ) -> Result<(), OpError> {
        let held = self.finish_miss(ctx, &mut miss, step).await?;
        let tables = self.w.borrow_mut().map_read(ctx, mapping, entry, held.id);
        drop(held);
        self.w.borrow_mut().pay(ctx);
        self.load_mapped(ctx, mapping, entry, tables).await
    }

    /// The rest of a load once its page has been mapped, with so many leaf tables created.
    pub(super) async fn load_mapped(
        &self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        tables: u64,
    ) -> Result<(), OpError> {
        if self.w.borrow().kernel.is_some() {
            self.charge_kernel(ctx, ctx.memcg, 0, tables, 0).await?;
        }
        if self.w.borrow_mut().load_again(ctx, mapping, entry) {
            self.return_to_user(ctx).await;
            ctx.maybe_settle().await;
            return Ok(());
        }
        self.fault_until_there(ctx, mapping, entry, false).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MachineConfig;
    use crate::ctx::InlineClock;
    use crate::mem::MappingFlags;
    use coldset_engine::memcg::{CounterKind, UNLIMITED};
    use coldset_engine::switches::presets::preset;
    use proptest::prelude::*;

    const PAGES: u32 = 400;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Deed {
        Load,
        Store,
        Write,
        Truncate,
    }

    fn deeds() -> impl Strategy<Value = Vec<(Deed, usize, u32)>> {
        let deed = prop_oneof![
            20 => Just(Deed::Load),
            3 => Just(Deed::Store),
            3 => Just(Deed::Write),
            1 => Just(Deed::Truncate),
        ];
        let page = prop_oneof![0..PAGES, 0..40u32];
        prop::collection::vec((deed, 0..2usize, page), 1..900)
    }

    /// All that can be counted after `deeds` of two tasks, and the time it took.
    fn played(
        cfg: &MachineConfig,
        clock: InlineClock,
        (limit, high): (u64, u64),
        deeds: &[(Deed, usize, u32)],
        mut load: impl FnMut(&mut MachineRun, &Ctx, MappingId, u32) -> Result<(), OpError>,
    ) -> (Vec<i64>, Vec<u64>, Vec<bool>) {
        let mut run = MachineRun::new(cfg).unwrap();
        let m = run.machine.clone();
        let memcg = m.limited_memcg(limit);
        m.world_mut()
            .engine
            .memcgs
            .set_high(memcg, CounterKind::Memory, high)
            .unwrap();
        let file = m.create_file(0, PAGES);
        let tasks = [(); 2].map(|()| {
            let mm = m.create_mm(memcg);
            let map = m.mmap(mm, file, 0, PAGES, MappingFlags::empty());
            (Ctx::inline(mm, memcg, clock), map)
        });
        let mut done = Vec::new();
        for &(deed, task, page) in deeds {
            let (ctx, map) = &tasks[task];
            let result = match deed {
                Deed::Load => load(&mut run, ctx, *map, page),
                Deed::Store => run.run_inline(ctx, m.access(ctx, *map, page, true)),
                Deed::Write => run.run_inline(ctx, m.write(ctx, file, page, 1, false)),
                Deed::Truncate => {
                    run.run_inline(ctx, m.truncate(ctx, file, page));
                    Ok(())
                }
            };
            done.push(result.is_ok());
        }
        let w = m.world();
        let counters = Counter::ALL.iter().flat_map(|&c| {
            let of = |g| w.engine.memcgs.live(g, c);
            [of(memcg), of(coldset_engine::MemcgId::ROOT)]
        });
        let cached = (0..PAGES).map(|p| u64::from(w.object(file).word(p).folio().is_some()));
        let times = tasks.iter().map(|(ctx, _)| ctx.now());
        let times = times.chain([run.executor.now()]).chain(cached).collect();
        (counters.collect(), times, done)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(250))]

        /// A load without a future does what one with a future does.
        #[test]
        fn a_load_is_an_access(
            deeds in deeds(),
            variant in prop::sample::select(vec!["base", "v5", "v72", "classic"]),
            kernel_memory in any::<bool>(),
            clock in prop::sample::select(vec![
                InlineClock::Running,
                InlineClock::Paced { reads: false },
                InlineClock::Paced { reads: true },
                InlineClock::External,
            ]),
            limit in 60u64..300,
            high in prop::option::weighted(0.3, 20u64..200),
            around in prop::sample::select(vec![1u32, 1, 16]),
        ) {
            let mut cfg = MachineConfig::new(preset(variant).unwrap());
            cfg.kernel_memory = kernel_memory;
            cfg.fault_around = around;
            cfg.check = true;
            let limits = (limit, high.unwrap_or(UNLIMITED));
            let fast = played(&cfg, clock, limits, &deeds, |run, ctx, map, page| {
                run.load(ctx, map, page)
            });
            let plain = played(&cfg, clock, limits, &deeds, |run, ctx, map, page| {
                let machine = run.machine.clone();
                run.run_inline(ctx, machine.access(ctx, map, page, false))
            });
            prop_assert_eq!(fast, plain);
        }
    }
}
