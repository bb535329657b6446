//! The end of a memcg (`docs/rules/memcg.md`): who keeps it from being released, and when that is tried.
//!
//! An address space, a task and a write context name their memcg and hold it. What is charged, what
//! is in swap, children and visits of reclaim hold it anyway. Whenever one of these may have been
//! the last, [`World::release_dead`] is called.

use crate::machine::Machine;
use crate::world::World;
use coldset_engine::memcg::MemcgError;
use coldset_engine::MemcgId;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A task lives in this memcg.
pub(crate) struct MemcgHold {
    world: Weak<RefCell<World>>,
    memcg: MemcgId,
}

impl MemcgHold {
    pub(crate) fn new(machine: &Machine, memcg: MemcgId) -> Self {
        machine.w.borrow_mut().hold_memcg(memcg);
        Self {
            world: Rc::downgrade(&machine.w),
            memcg,
        }
    }
}

impl Drop for MemcgHold {
    fn drop(&mut self) {
        let Some(world) = self.world.upgrade() else {
            return;
        };
        // Borrowed only while a panic unwinds through an action.
        if let Ok(mut w) = world.try_borrow_mut() {
            w.unhold_memcg(self.memcg);
        };
    }
}

impl World {
    /// Something names the memcg.
    pub(crate) fn hold_memcg(&mut self, memcg: MemcgId) {
        self.engine
            .memcgs
            .hold(memcg)
            .expect("a memcg that somebody names exists");
    }

    /// It no longer does.
    pub(crate) fn unhold_memcg(&mut self, memcg: MemcgId) {
        self.engine.memcgs.unhold(memcg);
        self.release_dead();
    }

    /// Releases offline memcgs that nothing holds any longer.
    pub(crate) fn release_dead(&mut self) {
        if self.engine.memcg_release_dead() == 0 {
            return;
        }
        let (Some(k), tree) = (&mut self.kernel, &self.engine.memcgs) else {
            return;
        };
        // The next memcg of this number owes nothing.
        for (i, owed) in k.owed.iter_mut().enumerate() {
            if !tree.exists(MemcgId(i as u32)) {
                *owed = (0, 0);
            }
        }
    }
}

impl Machine {
    /// Removes a memcg without tasks or address spaces. What is charged to it stays so until it is
    /// reclaimed or freed; the memcg itself goes with the last of it.
    ///
    /// # Errors
    /// The root, a memcg that is gone already or has children.
    pub fn remove_memcg(&self, memcg: MemcgId) -> Result<(), MemcgError> {
        let mut w = self.w.borrow_mut();
        w.engine.memcg_offline(memcg)?;
        w.wb.memcg_gone(memcg);
        w.release_dead();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ctx, InlineClock, MachineConfig, MachineRun, OpenFile};
    use coldset_engine::memcg::CounterKind;
    use coldset_engine::presets::preset;

    /// A machine with a memcg in which a process has read `pages` pages of a file and gone.
    fn after_a_reader(pages: u32) -> (MachineRun, MemcgId) {
        let mut run = MachineRun::new(&MachineConfig::new(preset("v5").unwrap())).unwrap();
        let m = run.machine.clone();
        let parent = m.world_mut().engine.memcg_create(MemcgId::ROOT).unwrap();
        let memcg = m.world_mut().engine.memcg_create(parent).unwrap();
        let mm = m.create_mm(memcg);
        let ctx = Ctx::inline(mm, memcg, InlineClock::Running);
        let file = OpenFile::new(m.create_file(0, pages));
        run.run_inline(&ctx, m.read(&ctx, &file, 0, pages)).unwrap();
        m.remove_memcg(memcg).unwrap();
        assert!(
            m.world().engine.memcgs.exists(memcg),
            "a process lives in it"
        );
        m.exit_mm(&ctx, mm);
        (run, memcg)
    }

    #[test]
    fn an_empty_offline_memcg_is_released_when_its_last_page_goes() {
        let (mut run, memcg) = after_a_reader(300);
        let m = run.machine.clone();
        assert!(
            m.world().engine.memcgs.exists(memcg),
            "pages are charged to it"
        );
        let parent = m.world().engine.memcgs[memcg].parent().unwrap();
        let mm = m.create_mm(parent);
        let ctx = Ctx::inline(mm, parent, InlineClock::Running);
        // An offline memcg is reclaimed as a whole, however little is asked for.
        run.run_inline(&ctx, m.write_max(&ctx, parent, 290))
            .unwrap();
        assert!(!m.world().engine.memcgs.exists(memcg), "nothing holds it");
        assert_eq!(m.world().engine.memcgs[parent].memory().usage(), 0);
        // Its number can be used again.
        let next = m.world_mut().engine.memcg_create(parent).unwrap();
        assert_eq!(next, memcg);
        m.world().check();
    }

    #[test]
    fn a_memcg_with_a_task_outlives_its_address_space() {
        let mut run = MachineRun::new(&MachineConfig::new(preset("base").unwrap())).unwrap();
        let m = run.machine.clone();
        let memcg = m.world_mut().engine.memcg_create(MemcgId::ROOT).unwrap();
        let max = m
            .world_mut()
            .engine
            .memcgs
            .set_max(memcg, CounterKind::Memory, 64);
        max.unwrap();
        let mm = m.create_mm(memcg);
        m.spawn("late", crate::sim::Affinity::Any, mm, |m, ctx| async move {
            m.exit_mm(&ctx, ctx.mm);
            m.remove_memcg(ctx.memcg).unwrap();
            assert!(m.world().engine.memcgs.exists(ctx.memcg));
            ctx.sleep_until(crate::sim::TimeClass::Idle, 1_000).await;
            assert!(m.world().engine.memcgs.exists(ctx.memcg));
        });
        run.executor.run();
        assert!(!m.world().engine.memcgs.exists(memcg));
    }
}
