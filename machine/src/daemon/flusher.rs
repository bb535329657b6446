//! Flushers: one worker for each write context (`docs/rules/writeback.md`).

use super::state::FlusherState;
use crate::io::complete::Portion;
use crate::machine::Machine;
use crate::sim::{Affinity, TimeClass, WaitQueue};
use crate::world::World;
use coldset_engine::WbId;
use std::cell::RefCell;
use std::rc::Weak;

/// Pause of a flusher after writes that failed, ns.
const RETRY_NS: u64 = 100_000_000;

/// CPU time of requests that are started together, ns.
const PORTION_NS: u64 = 20_000;

impl World {
    /// Starts the worker of a write context if it has none yet.
    pub(crate) fn ensure_flusher(&mut self, wb: WbId) {
        while self.flushers.len() <= wb.idx() {
            let id = WbId(self.flushers.len() as u32);
            // Write contexts are never removed, so neither is what they name.
            let memcg = self.wb.wb(id).memcg();
            self.hold_memcg(memcg);
            let wake = WaitQueue::new(&self.sim);
            self.flushers.push(FlusherState {
                wake: wake.clone(),
                running: false,
                asked: false,
            });
            let (me, sim) = (self.me.clone(), self.sim.clone());
            self.sim.spawn("flusher", Affinity::Any, async move {
                worker(me, sim, wake, id).await;
            });
        }
    }

    /// Wakes workers that have been given something to do.
    pub(crate) fn run_flushers(&mut self, ids: &[WbId]) {
        for id in ids {
            let f = &mut self.flushers[id.idx()];
            f.asked = true;
            if !f.running {
                f.wake.wake_one();
            }
        }
    }

    /// Makes sure that the next periodic wake-up is served.
    pub(crate) fn arm_flusher_timer(&mut self, now: u64) {
        let Some(t) = self.wb.next_timer() else {
            return;
        };
        let t = t.max(now + 1);
        if self.flusher_timer.is_some_and(|armed| armed <= t) {
            return;
        }
        self.flusher_timer = Some(t);
        let me = self.me.clone();
        self.sim.call_at(t, move || {
            if let Some(w) = me.upgrade() {
                let mut w = w.borrow_mut();
                if w.flusher_timer != Some(t) {
                    return;
                }
                w.flusher_timer = None;
                let now = w.sim.now();
                let ids = w.wb.expire_timers(now);
                w.run_flushers(&ids);
                w.arm_flusher_timer(now);
            }
        });
    }
}

async fn worker(me: Weak<RefCell<World>>, sim: crate::sim::Sim, wake: WaitQueue, wb: WbId) {
    let task = sim.current();
    let mut errors_seen = std::collections::BTreeMap::new();
    loop {
        let slice = {
            let Some(w) = me.upgrade() else { return };
            let mut w = w.borrow_mut();
            let w = &mut *w;
            let input = w.flush_input(wb);
            let now = task.local_now();
            let s = w.wb.next_slice(wb, now, &input);
            let f = &mut w.flushers[wb.idx()];
            f.running = s.is_some();
            f.asked = false;
            s
        };
        let Some(slice) = slice else {
            wake.wait_as(TimeClass::Idle).await;
            continue;
        };
        let mut left = slice.pages_max;
        let mut written = 0;
        let mut at = {
            let Some(w) = me.upgrade() else { return };
            let w = w.borrow();
            w.objects[slice.inode.idx()].cursor
        };
        let mut wrapped = at == 0;
        while left > 0 && task.local_now() < slice.deadline {
            let more = {
                let Some(w) = me.upgrade() else { return };
                let mut w = w.borrow_mut();
                let (page_ns, request_ns) = (w.params.flush_page_ns, w.params.flush_request_ns);
                // So that the device and the dirtiers run meanwhile.
                let portion = Portion {
                    pages: left.min(256),
                    requests: PORTION_NS
                        .checked_div(request_ns)
                        .map_or(u64::MAX, |n| n.max(1)),
                };
                let now = task.local_now();
                let started = w.write_dirty_pages(now, slice.inode, wb, at, portion);
                let n = started.pages;
                let cost = n * page_ns + started.requests * request_ns;
                task.charge_as(TimeClass::Background, cost + w.take_flush_debt());
                written += n;
                // A large folio is written whole.
                left = left.saturating_sub(n);
                at = started.next;
                if !started.more && !wrapped {
                    wrapped = true;
                    at = 0;
                    true
                } else {
                    started.more
                }
            };
            task.settle().await;
            if !more {
                break;
            }
        }
        let Some(w) = me.upgrade() else { return };
        let (failing, stuck) = {
            let mut w = w.borrow_mut();
            let still_dirty = w.objects[slice.inode.idx()].nr_dirty > 0;
            w.objects[slice.inode.idx()].cursor = if left == 0 { at } else { 0 };
            let now = task.local_now();
            w.wb.slice_done(wb, slice.inode, written, still_dirty, now);
            w.round_over(slice.inode);
            // Nothing could be started although something is dirty (all of it locked): no busy loop.
            let stuck = written == 0 && still_dirty;
            // What failed is dirty again. Do not keep asking a device that refuses everything.
            let errors = w.objects[slice.inode.idx()].last_error.1;
            let failing = errors_seen.insert(slice.inode, errors).unwrap_or(0) != errors;
            (failing, stuck)
        };
        if failing {
            task.sleep_as(TimeClass::Idle, RETRY_NS).await;
        } else if stuck {
            task.sleep_as(TimeClass::Idle, sim.tick_ns()).await;
        }
    }
}

impl Machine {
    /// Wakes the flushers for a reason, as a `sync` from outside would.
    pub fn wake_flushers(&self, reason: coldset_engine::writeback::FlushReason) {
        let mut w = self.w.borrow_mut();
        let now = self.sim.now();
        let ids = w.wb.wake(reason, now);
        w.run_flushers(&ids);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ctx, InlineClock, MachineConfig, MachineRun};
    use coldset_engine::presets::preset;
    use coldset_engine::writeback::FlushReason;
    use coldset_engine::MemcgId;

    /// Of 200 dirty pages, one in two of a file, those that are dirty still so long after the flushers have been woken, where a
    /// request takes them 10 us.
    fn dirty_after(ns: u64) -> u64 {
        let mut cfg = MachineConfig::new(preset("v72").unwrap());
        cfg.params.set("flush_page_ns", 0).unwrap();
        cfg.params.set("flush_request_ns", 10_000).unwrap();
        let mut run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let ctx = Ctx::inline(
            m.create_mm(MemcgId::ROOT),
            MemcgId::ROOT,
            InlineClock::Running,
        );
        let file = m.create_file(0, 400);
        for page in (0..400).step_by(2) {
            run.run_inline(&ctx, m.write(&ctx, file, page, 1, true))
                .unwrap();
        }
        run.catch_up(&ctx);
        m.wake_flushers(FlushReason::Vmscan);
        run.run_until(ctx.now() + ns);
        let dirty = m.world().object(file).nr_dirty;
        dirty
    }

    #[test]
    fn writes_start_as_the_flusher_gets_to_them() {
        let started = |us: u64| dirty_after(0) - dirty_after(us * 1000);
        assert_eq!([100, 200, 1000].map(started), [10, 20, 100]);
        assert_eq!(dirty_after(2_100_000), 0);
    }
}
