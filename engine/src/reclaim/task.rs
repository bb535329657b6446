//! The outer loops: passes and priorities of direct, limit and proactive reclaim
//! (`docs/rules/reclaim-loop.md#passes-and-rounds`), and the task that hosts step.

use super::cx::Cx;
use super::debug::{DebugCommand, DebugError, DebugRun};
use super::kswapd::KswapdRun;
use super::node::NodeVisit;
use super::scan_control::{ReclaimKind, ScanControl, DEF_PRIORITY};
use super::shrink_list::ShrinkList;
use super::work::{Answer, Decision, Freed, Work};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::ids::{FolioId, MemcgId, NodeId};
use crate::node::ThrottleReason;
use crate::scans::ScanEvent;

/// How a task ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Pages freed by the whole request.
    pub reclaimed: u64,
    /// Rounds (priorities) run.
    pub rounds: u32,
    /// Passes over all priorities.
    pub passes: u32,
}

#[derive(Debug)]
enum PassStage {
    Pass,
    Round,
    Node(u32, NodeVisit),
    AfterNodes,
    RoundOver,
    PassOver,
    End,
}

/// Direct, limit or proactive reclaim: up to five passes of 13 rounds.
#[derive(Debug)]
struct TryToFree {
    at: PassStage,
    first_priority: u8,
    /// Nodes are visited from this one on.
    home: NodeId,
}

#[derive(Debug)]
enum EntryPoint {
    TryToFree(TryToFree),
    Kswapd(Box<KswapdRun>),
    Debug(Box<DebugRun>),
}

/// A reclaim in progress. Step it until [`Work::Done`].
#[derive(Debug)]
pub struct ReclaimTask {
    /// The request that is being served.
    pub(crate) sc: ScanControl,
    entry: EntryPoint,
    list: ShrinkList,
    answer: Option<Answer>,
    cpu: u16,
    outcome: Outcome,
    /// The sleep the host has been asked for.
    sleeping: Option<(ThrottleReason, NodeId)>,
}

impl ReclaimTask {
    /// Reclaim by an allocating or charging task, or on request from user space, as `sc` says.
    /// `home`: the node of the CPU it runs on.
    ///
    /// # Panics
    /// If the priority of `sc` is above [`DEF_PRIORITY`]; the first step, if the memcg or a node does not exist.
    pub fn try_to_free(sc: ScanControl, cpu: u16, home: NodeId) -> Self {
        let first_priority = sc.priority;
        assert!(
            first_priority <= DEF_PRIORITY,
            "priority {first_priority} of {DEF_PRIORITY}"
        );
        Self {
            sc,
            entry: EntryPoint::TryToFree(TryToFree {
                at: PassStage::Pass,
                first_priority,
                home,
            }),
            list: ShrinkList::default(),
            answer: None,
            cpu,
            outcome: Outcome::default(),
            sleeping: None,
        }
    }

    /// Reclaim of `nr` pages at the limit of `memcg` by a task that may do everything. `nr` is taken as it is: what
    /// [`ChargeStep::Reclaim`](crate::memcg::ChargeStep::Reclaim) asks for is at least 32, as in the kernel.
    pub fn limit(memcg: MemcgId, nr: u64, cpu: u16, home: NodeId) -> Self {
        Self::try_to_free(ScanControl::new(nr, Some(memcg)), cpu, home)
    }

    /// A debug command on the lruvec of `memcg` on `node`. `swappiness`: 0 to 201 in place of the
    /// memcg's. Protection and throttling do not apply (`docs/rules/aging.md`).
    ///
    /// # Errors
    /// A lruvec that does not exist or has no generations, a generation that the command does not
    /// take.
    pub fn debug(
        eng: &Engine,
        memcg: MemcgId,
        node: NodeId,
        command: DebugCommand,
        swappiness: Option<u16>,
        cpu: u16,
    ) -> Result<Self, DebugError> {
        let nr = match command {
            DebugCommand::Age { .. } => 0,
            DebugCommand::Evict { nr, .. } => nr,
        };
        let mut sc = ScanControl::new(nr, Some(memcg));
        sc.kind = ReclaimKind::Proactive;
        sc.swappiness = swappiness;
        if !eng.memcgs.exists(memcg) {
            return Err(DebugError::NoLruvec(memcg, node));
        }
        let swappiness = eng.swappiness(&sc, memcg);
        let run = DebugRun::new(eng, memcg, node, command, swappiness)?;
        Ok(Self {
            sc,
            entry: EntryPoint::Debug(Box::new(run)),
            list: ShrinkList::default(),
            answer: None,
            cpu,
            outcome: Outcome::default(),
            sleeping: None,
        })
    }

    /// One run of kswapd (`balance_pgdat`).
    pub fn kswapd(eng: &mut Engine, node: NodeId, order: u8, zone: u8, cpu: u16) -> Self {
        let mut sc = ScanControl::new(0, None);
        sc.kind = ReclaimKind::Kswapd;
        sc.order = order;
        sc.reclaim_idx = zone;
        Self {
            sc,
            entry: EntryPoint::Kswapd(Box::new(KswapdRun::new(eng, node, zone))),
            list: ShrinkList::default(),
            answer: None,
            cpu,
            outcome: Outcome::default(),
            sleeping: None,
        }
    }

    /// Answers the last request, which comes again until it is answered.
    ///
    /// # Panics
    /// The next step, if the answer is none to that request.
    pub fn answer(&mut self, answer: Answer) {
        debug_assert!(self.answer.is_none(), "answered twice: {answer:?}");
        self.answer = Some(answer);
    }

    /// What [`Work::Free`] is about. Valid until the next step.
    pub fn freed(&self) -> &[Freed] {
        &self.list.freed
    }

    /// The folios of a list of which the first is at hand: the host will be asked about each of them, in this order,
    /// and may fetch what it knows of them. Otherwise none.
    #[inline]
    pub fn begun(&self) -> &[FolioId] {
        match self.list.next {
            1 => &self.list.input,
            _ => &[],
        }
    }

    /// Those that it will be asked about after the one at hand.
    #[inline]
    pub fn coming(&self) -> &[FolioId] {
        self.list.input.get(self.list.next..).unwrap_or_default()
    }

    /// Of the folios that the host has been asked to unmap, those that the last step decided on. Each
    /// of them is decided on exactly once, and before its task is done or rests. What is met again
    /// before the host has heard that it stays is not decided on yet.
    pub fn decided(&self) -> &[Decision] {
        &self.list.decided
    }

    /// The folios that [`Work::Split`] has made of the pages after the first. Valid until the
    /// answer.
    pub fn pieces(&self) -> &[FolioId] {
        &self.list.pieces
    }

    /// How far it got.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            reclaimed: self.sc.nr_reclaimed,
            ..self.outcome
        }
    }

    /// The order that kswapd's run ended with.
    pub fn kswapd_order(&self) -> u8 {
        self.sc.order
    }

    /// The host moved the task to another CPU.
    pub fn set_cpu(&mut self, cpu: u16) {
        self.cpu = cpu;
    }

    /// Does bounded work and says what must happen next.
    pub fn step(&mut self, eng: &mut Engine) -> Work {
        if let Some((reason, node)) = self.sleeping.take() {
            eng.nodes[node.idx()].awake(reason);
        }
        self.list.decided.clear();
        // Most requests are about the folios of a list.
        if let Some(work) = self.list.go_on(eng, &mut self.sc, &mut self.answer) {
            return work;
        }
        let mut cx = Cx {
            sc: &mut self.sc,
            list: &mut self.list,
            answer: &mut self.answer,
            cpu: self.cpu,
        };
        let work = match &mut self.entry {
            EntryPoint::TryToFree(t) => t.step(eng, &mut cx, &mut self.outcome),
            EntryPoint::Kswapd(k) => k.step(eng, &mut cx),
            EntryPoint::Debug(d) => d.step(eng, &mut cx),
        };
        if let Work::Throttle { reason, node, .. } = work {
            eng.nodes[node.idx()].sleep(reason);
            self.sleeping = Some((reason, node));
        }
        work
    }

    /// Gives up (the task is being killed). Only after a step that returned a sleep, a wait or a
    /// yield. Folios that are isolated go back.
    pub fn abandon(&mut self, eng: &mut Engine) {
        if let Some((reason, node)) = self.sleeping.take() {
            eng.nodes[node.idx()].awake(reason);
        }
        self.list.abandon(eng, self.cpu);
        match &mut self.entry {
            EntryPoint::TryToFree(t) => {
                if let PassStage::Node(_, v) = &mut t.at {
                    v.abandon(eng);
                }
                t.at = PassStage::End;
            }
            EntryPoint::Kswapd(k) => k.abandon(eng),
            EntryPoint::Debug(d) => d.abandon(eng),
        }
    }
}

impl TryToFree {
    fn step(&mut self, eng: &mut Engine, cx: &mut Cx<'_>, out: &mut Outcome) -> Work {
        loop {
            match &mut self.at {
                PassStage::Pass => {
                    out.passes += 1;
                    if out.passes == 1 {
                        let first = cx.sc.node.unwrap_or(self.home);
                        let nodes = eng.config().nr_nodes;
                        assert!(first.0 < nodes, "{first:?} of {nodes} nodes");
                        let begins = match cx.sc.target {
                            Some(_) => ScanEvent::Limit,
                            None => ScanEvent::Direct,
                        };
                        eng.log_scan(cx.sc, begins);
                    }
                    match cx.sc.target {
                        None => eng.count_global(Counter::Allocstall, 1),
                        Some(m) if out.passes == 1 => {
                            eng.memcgs.count(m, Counter::LimitReclaim, 1);
                        }
                        Some(_) => {}
                    }
                    if cx.sc.target.is_none() && out.passes == 1 {
                        eng.count_global(Counter::DirectReclaim, 1);
                    }
                    self.at = PassStage::Round;
                }
                PassStage::Round => {
                    out.rounds += 1;
                    cx.sc.nr_scanned = 0;
                    let first = cx.sc.node.unwrap_or(self.home);
                    let visit = NodeVisit::new(eng, cx.sc, first, cx.cpu);
                    self.at = PassStage::Node(0, visit);
                }
                PassStage::Node(nth, visit) => {
                    if let Some(work) = visit.step(eng, cx) {
                        return work;
                    }
                    let next = *nth + 1;
                    self.at = if next < nr_nodes(eng, cx.sc) {
                        let visit = NodeVisit::new(eng, cx.sc, self.node(eng, next), cx.cpu);
                        PassStage::Node(next, visit)
                    } else {
                        PassStage::AfterNodes
                    };
                }
                PassStage::AfterNodes => {
                    self.at = PassStage::RoundOver;
                    if let Some(work) = self.consider_throttle(eng, cx.sc) {
                        return work;
                    }
                }
                PassStage::RoundOver => {
                    self.at = if cx.sc.nr_reclaimed >= cx.sc.nr_to_reclaim {
                        PassStage::PassOver
                    } else {
                        if cx.sc.priority < DEF_PRIORITY - 2 {
                            cx.sc.may_writepage = true;
                        }
                        match cx.sc.priority.checked_sub(1) {
                            Some(p) => {
                                cx.sc.priority = p;
                                PassStage::Round
                            }
                            None => PassStage::PassOver,
                        }
                    };
                }
                PassStage::PassOver => self.pass_over(eng, cx.sc),
                PassStage::End => return Work::Done,
            }
        }
    }

    /// The `nth` node to visit.
    fn node(&self, eng: &Engine, nth: u32) -> NodeId {
        NodeId((self.home.0 + nth) % eng.config().nr_nodes)
    }

    /// End of a round (`docs/rules/reclaim-loop.md#passes-and-rounds`). The node asked is the one that the pass is bound
    /// to, or else the task's own.
    fn consider_throttle(&self, eng: &mut Engine, sc: &ScanControl) -> Option<Work> {
        let node = sc.node.unwrap_or(self.home);
        if sc.nr_reclaimed > sc.nr_scanned / 8 {
            let reason = ThrottleReason::NoProgress;
            return (eng.nodes[node.idx()].sleeping(reason) > 0)
                .then_some(Work::WakeThrottled { reason, node });
        }
        let hopeless = sc.target.is_none() && sc.priority == 1 && sc.nr_reclaimed == 0;
        (hopeless && sc.may_throttle && eng.throttle_worthwhile(node))
            .then(|| eng.throttle(sc, ThrottleReason::NoProgress, node, 1))
    }

    fn pass_over(&mut self, eng: &mut Engine, sc: &mut ScanControl) {
        let target = sc.target.unwrap_or(MemcgId::ROOT);
        for n in 0..nr_nodes(eng, sc) {
            let node = sc.node.unwrap_or(NodeId(n));
            eng.snapshot_refaults(target, node);
            if sc.target.is_some() {
                let lruvec = eng.lruvec_id(target, node);
                eng.lruvecs[lruvec].cgroup_congested = false;
            }
        }
        self.at = PassStage::Pass;
        if sc.nr_reclaimed > 0 {
            self.at = PassStage::End;
        } else if !sc.full_walk {
            sc.full_walk = true;
        } else if sc.skipped_deactivate {
            sc.force_deactivate = true;
            sc.skipped_deactivate = false;
        } else if sc.low_skipped {
            sc.force_deactivate = false;
            sc.low_reclaim = true;
            sc.low_skipped = false;
        } else {
            eng.memcgs.count(target, Counter::ZeroProgress, 1);
            self.at = PassStage::End;
        }
        sc.priority = self.first_priority;
    }
}

/// Nodes that a request visits.
fn nr_nodes(eng: &Engine, sc: &ScanControl) -> u32 {
    if sc.node.is_some() {
        1
    } else {
        eng.config().nr_nodes
    }
}

impl Engine {
    /// WORKINGSET_ACTIVATE at the end of a reclaim, for the deactivation decision of the next
    /// (folded values, `docs/rules/memcg.md#statistics-that-lag`).
    pub(crate) fn snapshot_refaults(&mut self, target: MemcgId, node: NodeId) {
        let snapshot = [
            self.stat(target, node, Counter::ActivateAnon),
            self.stat(target, node, Counter::ActivateFile),
        ];
        let lruvec = self.lruvec_id(target, node);
        self.lruvecs[lruvec].workingset.set_snapshot(snapshot);
    }
}
