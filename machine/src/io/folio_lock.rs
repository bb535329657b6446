//! Waiting for a folio that a read or a write in flight keeps busy.

use crate::ctx::Ctx;
use crate::machine::Machine;
use crate::sim::{TimeClass, WaitQueue};
use crate::vm::held::FolioRef;
use crate::world::World;
use coldset_engine::{Flags, FolioId};
use std::collections::BTreeMap;

impl World {
    /// Unlocks a folio and wakes those who wait for it.
    pub(crate) fn unlock_folio(&mut self, id: FolioId) {
        self.engine.folio_clear(id, Flags::LOCKED);
        self.wake_folio(id);
    }

    /// Wakes those who wait for a folio.
    #[inline]
    pub(crate) fn wake_folio(&mut self, id: FolioId) {
        if self.folio_waits.is_empty() {
            return;
        }
        if let Some(q) = self.folio_waits.remove(&id.0) {
            q.wake_all();
        }
    }
}

impl Machine {
    /// Takes a reference to a folio and waits until it is unlocked.
    pub(crate) async fn get_unlocked(&self, ctx: &Ctx, id: FolioId) -> FolioRef<'_> {
        let held = FolioRef::get(self, id);
        self.wait_unlocked(ctx, id).await;
        held
    }

    /// If a folio is locked, waits until it is neither locked nor under writeback. The caller holds a
    /// reference.
    #[inline]
    pub(crate) async fn wait_unlocked(&self, ctx: &Ctx, id: FolioId) {
        if self.w.borrow().engine.folio(id).has(Flags::LOCKED) {
            Box::pin(self.wait_folio(ctx, id)).await;
        }
    }

    /// Waits until a folio is neither locked nor under writeback. The caller holds a reference.
    pub(crate) async fn wait_folio(&self, ctx: &Ctx, id: FolioId) {
        let busy = Flags::LOCKED | Flags::WRITEBACK;
        while self.w.borrow().engine.folio(id).any(busy) {
            self.wait_io(ctx, id.0, |w| &mut w.folio_waits).await;
        }
    }

    /// Waits until the queue of `id` among `queues` is woken.
    pub(super) async fn wait_io(
        &self,
        ctx: &Ctx,
        id: u32,
        queues: fn(&mut World) -> &mut BTreeMap<u32, WaitQueue>,
    ) {
        if ctx.task().is_none() {
            // Inline: let the simulation reach the completion.
            let next = self.sim.now().max(ctx.now()) + self.sim.tick_ns();
            return ctx.sleep_until(TimeClass::IoWait, next).await;
        }
        let queue = {
            let mut w = self.w.borrow_mut();
            let sim = w.sim.clone();
            let queue = queues(&mut w).entry(id);
            queue.or_insert_with(|| WaitQueue::new(&sim)).clone()
        };
        queue.wait_as(TimeClass::IoWait).await;
    }
}
