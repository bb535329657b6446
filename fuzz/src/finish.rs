//! The end of a run: everything is given back, and nothing may be left.

use super::load::Load;
use coldset_engine::memcg::{CounterKind, UNLIMITED};
use coldset_engine::{Counter, MemcgId};

/// Attempts at a sync, and rounds of reclaim of everything.
const ROUNDS: u32 = 100;

impl Load {
    /// Gives everything back and looks for leftovers.
    ///
    /// # Panics
    /// If there are any.
    pub fn finish(&mut self) {
        let machine = self.sh.machine.clone();
        let mm = machine.create_mm(MemcgId::ROOT);
        let ctx = self.inline_ctx(mm, MemcgId::ROOT);
        {
            self.sh.heal();
            let mut w = machine.world_mut();
            for id in (1..w.engine.memcgs.capacity() as u32).map(MemcgId) {
                let t = &mut w.engine.memcgs;
                if t.exists(id) {
                    // Protection of offline memcgs is gone already.
                    if t[id].online() {
                        t.set_min(id, 0).expect("a memcg below the root");
                        t.set_low(id, 0).expect("a memcg below the root");
                    }
                    t.set_max(id, CounterKind::Memory, UNLIMITED)
                        .expect("a memcg below the root");
                }
            }
            w.engine.lru_add_drain_all();
            for (object, page) in self.sh.mlocked.take() {
                let id = w.object(object).word(page).folio();
                let id = id.expect("a page locked into memory was evicted");
                w.engine.munlock(0, id);
            }
            w.engine.lru_add_drain_all();
        }
        // Victims of the OOM killer take a while to go.
        let later = self.run.executor.now() + 60_000_000_000;
        self.run.run_until(later);
        for (object, _, at) in self.sh.files.clone() {
            let must = self.sh.model.borrow().must_be_durable(at);
            let synced = (0..ROUNDS).any(|_| self.drive(&ctx, machine.fsync(&ctx, object)).is_ok());
            assert!(synced, "fsync fails without injected errors");
            self.sh
                .model
                .borrow()
                .check_durable(&machine.world(), at, &must);
            assert_eq!(
                machine.world().object(object).nr_dirty,
                0,
                "dirty pages after fsync"
            );
        }
        for _ in 0..ROUNDS {
            let left = machine.world().engine.nr_folios() as u64;
            if left == 0 {
                break;
            }
            let write = machine.write_reclaim(&ctx, MemcgId::ROOT, left, None);
            self.drive(&ctx, write).expect("the root");
            machine.world_mut().engine.lru_add_drain_all();
        }
        machine.world().check();
        self.sh.model.borrow().check(&machine.world());
        self.check_nothing_left();
    }

    fn check_nothing_left(&self) {
        let mut w = self.sh.machine.world_mut();
        if let Some((id, f)) = w.engine.folios().next() {
            panic!(
                "{} folios are left, the first is {id:?}: {f:?}",
                w.engine.nr_folios()
            );
        }
        if let Some(s) = w.swap() {
            assert_eq!(s.free(), s.total(), "free swap slots at the end");
            assert_eq!(s.pool_pages(), 0, "pages of the compressed pool at the end");
        }
        w.engine.memcgs.drain_stocks(MemcgId::ROOT);
        let mut kernel = 0;
        for id in (0..w.engine.memcgs.capacity() as u32).map(MemcgId) {
            let Some(m) = w.engine.memcgs.get(id) else {
                continue;
            };
            let own = w.engine.memcgs.live(id, Counter::KernelPages) as u64;
            if id == MemcgId::ROOT {
                kernel = own;
                continue;
            }
            assert_eq!(
                m.memory().usage(),
                own,
                "pages charged to memcg {} at the end",
                id.0
            );
            assert_eq!(
                m.swap().usage(),
                0,
                "swap charged to memcg {} at the end",
                id.0
            );
        }
        let used: u64 = w
            .engine
            .zones
            .all()
            .iter()
            .map(|z| z.managed - z.free)
            .sum();
        if !w.engine.zones.is_empty() {
            assert_eq!(used, kernel, "pages of zones in use at the end");
        }
    }
}
