//! kswapd: the background reclaimer of each node (`docs/rules/zones.md`), and the gate at which
//! direct reclaimers wait for it when the reserves run low.

use super::state::KswapdState;
use crate::ctx::{Ctx, Reach};
use crate::machine::Machine;
use crate::sim::{TimeClass, WaitQueue};
use crate::world::World;
use coldset_engine::reclaim::ReclaimTask;
use coldset_engine::zone::kswapd::should_wake_kswapd;
use coldset_engine::zone::{pfmemalloc_allowed, ZoneClass};
use coldset_engine::{Counter, MemcgId, MmId, NodeId};

/// kswapd's nap before it sleeps until it is woken, ns.
const NAP_NS: u64 = 100_000_000;

impl Machine {
    /// Starts kswapd on every node that has zones.
    pub(crate) fn start_kswapd(&self) {
        let (zones, nodes) = {
            let w = self.w.borrow();
            (!w.engine.zones.is_empty(), w.engine.config().nr_nodes)
        };
        if !zones {
            return;
        }
        let latency = self.w.borrow().params.kswapd_wake_ns;
        for node in 0..nodes {
            self.w.borrow_mut().kswapd.push(KswapdState {
                wake: WaitQueue::with_latency(&self.sim, latency),
                gate: WaitQueue::new(&self.sim),
                order: 0,
                requested: false,
            });
            let machine = self.clone();
            let sim = self.sim.clone();
            let affinity = self.node_affinity(NodeId(node));
            self.sim.spawn("kswapd", affinity, async move {
                let mut ctx = Ctx::of_task(sim.current(), MmId::NONE, MemcgId::ROOT);
                ctx.bind(NodeId(node));
                machine.kswapd(&ctx).await;
            });
        }
    }

    async fn kswapd(&self, ctx: &Ctx) {
        let n = ctx.node().idx();
        let top = self.w.borrow().engine.config().nr_zones - 1;
        loop {
            let order = self.kswapd_sleep(ctx).await;
            let task = {
                let mut w = self.w.borrow_mut();
                let now = ctx.now().max(w.engine.now());
                w.engine.set_now(now);
                ReclaimTask::kswapd(&mut w.engine, ctx.node(), order, top, ctx.cpu())
            };
            self.reclaim(ctx, task).await;
            self.w.borrow().open_reserve_gate(ctx.node());
            debug_assert!(n < self.w.borrow().kswapd.len());
        }
    }

    /// Sleeps until there is work; returns its order.
    async fn kswapd_sleep(&self, ctx: &Ctx) -> u8 {
        let n = ctx.node().idx();
        let top = self.w.borrow().engine.config().nr_zones - 1;
        let (queue, ready) = {
            let mut w = self.w.borrow_mut();
            w.kswapd[n].gate.wake_all();
            let order = w.kswapd[n].order;
            let ready = w.engine.kswapd_may_sleep(ctx.node(), order, top);
            (w.kswapd[n].wake.clone(), ready)
        };
        let mut quickly = Counter::KswapdHighWmarkHitQuickly;
        if ready {
            let woken = queue.wait_timeout_as(TimeClass::Idle, NAP_NS).await;
            let (asleep, requested) = {
                let mut w = self.w.borrow_mut();
                let order = w.kswapd[n].order;
                let asleep = !woken && w.engine.kswapd_may_sleep(ctx.node(), order, top);
                (asleep, w.kswapd[n].requested)
            };
            if woken {
                quickly = Counter::KswapdLowWmarkHitQuickly;
            }
            if asleep {
                if !requested {
                    queue.wait_as(TimeClass::Idle).await;
                }
                return self.take_request(n);
            }
        }
        self.w.borrow_mut().engine.count(MemcgId::ROOT, quickly, 1);
        self.take_request(n)
    }

    /// What kswapd has been asked for since it last looked.
    fn take_request(&self, n: usize) -> u8 {
        let mut w = self.w.borrow_mut();
        let k = &mut w.kswapd[n];
        k.requested = false;
        std::mem::take(&mut k.order)
    }

    /// The reserve gate: waits while less than half of the reserves is free.
    pub(crate) async fn reserve_gate(&self, ctx: &Ctx) {
        let gate = {
            let mut w = self.w.borrow_mut();
            let failures = w.engine.nodes[ctx.node().idx()].kswapd_failures();
            if w.kswapd.is_empty()
                || pfmemalloc_allowed(w.engine.zones.all(), ctx.node(), failures, true)
            {
                return;
            }
            w.engine
                .count(MemcgId::ROOT, Counter::PgscanDirectThrottle, 1);
            w.wake_kswapd(ctx.node(), 0);
            w.kswapd[ctx.node().idx()].gate.clone()
        };
        if ctx.task().is_none() {
            let tick = self.sim.ticks_end(ctx.now(), 1);
            ctx.sleep_until(TimeClass::ThrottlePfmemalloc, tick).await;
            return;
        }
        gate.wait_timeout_as(TimeClass::ThrottlePfmemalloc, 1_000_000_000)
            .await;
    }
}

impl World {
    /// Asks kswapd of a node to work.
    pub(crate) fn wake_kswapd(&mut self, node: NodeId, order: u8) {
        let failures = self.engine.nodes[node.idx()].kswapd_failures();
        let Some(k) = self.kswapd.get_mut(node.idx()) else {
            return;
        };
        k.order = k.order.max(order);
        let wake = should_wake_kswapd(
            self.engine.zones.all(),
            node,
            order.into(),
            ZoneClass::Movable,
            failures,
        );
        if wake {
            k.requested = true;
            k.wake.wake_one();
        }
    }

    /// Asks kswapd of each node within reach.
    pub(crate) fn wake_kswapds(&mut self, reach: Reach) {
        let nodes = self.kswapd.len() as u32;
        let within = if reach.bound { 1 } else { nodes };
        for n in 0..within.min(nodes) {
            self.wake_kswapd(NodeId((reach.node.0 + n) % nodes), 0);
        }
    }

    /// Lets tasks at the reserve gate look again.
    pub(crate) fn open_reserve_gate(&self, node: NodeId) {
        let failures = self.engine.nodes[node.idx()].kswapd_failures();
        if let Some(k) = self.kswapd.get(node.idx()) {
            if pfmemalloc_allowed(self.engine.zones.all(), node, failures, true) {
                k.gate.wake_all();
            }
        }
    }
}
