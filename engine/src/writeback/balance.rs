//! Throttling of dirtiers (`docs/rules/writeback.md#throttling`), as a stepped decision: the host calls
//! [`Writeback::balance`] when [`Writeback::needs_balance`] says so, sleeps what it is told to, and
//! calls again until the verdict is to return.

use super::bandwidth::Standing;
use super::limits::{GlobalFigures, Limits, MemcgFigures};
use super::pause::{max_pause, pause_target};
use super::position::{position_ratio, Position};
use super::work::FlushReason;
use super::Writeback;
use crate::ids::{MemcgId, Nanos, Pages, WbId};

/// First pause target of a task, pages.
const INITIAL_PAUSE_PAGES: Pages = 32;
/// Pause target while the wb is above its threshold, pages.
const EXCEEDED_PAUSE_PAGES: Pages = 8;

/// Dirtying state of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskDirty {
    /// Pages dirtied since the last look.
    pub nr_dirtied: Pages,
    /// Pages after which the task looks again.
    pub pause_pages: Pages,
    /// End of the last pause, ticks.
    pub paused_when: u64,
    /// A call is under way: pages it stands for, and whether the pause just slept ends it.
    pub(super) call: Option<Call>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pages_dirtied: Pages,
    ends: bool,
}

impl Default for TaskDirty {
    fn default() -> Self {
        Self {
            nr_dirtied: 0,
            pause_pages: INITIAL_PAUSE_PAGES,
            paused_when: 0,
            call: None,
        }
    }
}

/// What [`Writeback::balance`] looks at.
#[derive(Debug)]
pub struct BalanceInput<'a> {
    /// Now, nanoseconds.
    pub now: Nanos,
    /// The dirtying task.
    pub task: &'a mut TaskDirty,
    /// The wb of the dirtied inode.
    pub wb: WbId,
    /// Figures of the machine.
    pub global: GlobalFigures,
    /// Figures of the wb's memcg; `None` for a wb of the root, or without cgroup writeback.
    pub memcg: Option<MemcgFigures>,
    /// Memcg of the task, whose foreign wbs are flushed.
    pub task_memcg: MemcgId,
    /// The task is a real-time task.
    pub realtime: bool,
    /// The task has a fatal signal.
    pub killed: bool,
}

/// What the dirtier and the flushers do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Balance {
    /// The worker of the wb must run: background writeback was started.
    pub start_background: bool,
    /// Workers of foreign wbs that must run.
    pub flush_foreign: Vec<WbId>,
    /// Ticks that the task sleeps (killable) before it calls again; `None`: it goes on.
    pub pause: Option<u64>,
}

/// The wb's thresholds in a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WbShare {
    /// Its part of the threshold.
    pub thresh: Pages,
    /// Its part of the background threshold.
    pub bg_thresh: Pages,
}

impl Writeback {
    /// The wb's part of a domain's thresholds by its part of recent completions, within its own
    /// bounds (`docs/rules/writeback.md#limits`). `in_memcg`: the domain is the wb's memcg, not the machine.
    pub fn wb_share(&self, id: WbId, limits: &Limits, in_memcg: bool, now: Nanos) -> WbShare {
        let wb = self.wb(id);
        let (part, whole) = if in_memcg {
            (
                &wb.memcg_completions,
                self.memcgs.get(&wb.memcg).map(|d| &d.completions),
            )
        } else {
            (&wb.completions, Some(&self.global.completions))
        };
        let period = self.params.completion_period;
        let share = whole.map_or(0, |w| part.share_of(w, limits.thresh, now, period));
        // Explicit bounds of a device are split among its wbs by bandwidth; 100 % bounds nothing.
        let (own, all) = (wb.estimate.avg_bandwidth, self.device_bandwidth(id));
        let bound = |percent: u64| {
            let v = u128::from(limits.thresh) * u128::from(percent) * u128::from(own);
            (v / (100 * u128::from(all))) as u64
        };
        let max = if wb.max_ratio >= 100 {
            limits.thresh
        } else {
            bound(wb.max_ratio)
        };
        let thresh = share.max(bound(wb.min_ratio)).min(max);
        let bg =
            u128::from(thresh) * u128::from(limits.bg_thresh) / u128::from(limits.thresh.max(1));
        WbShare {
            thresh,
            bg_thresh: bg as u64,
        }
    }

    /// Counts pages dirtied by a task on a CPU and says whether it must be balanced now: it has
    /// dirtied its target, or all tasks of the CPU together the per-CPU target.
    pub fn needs_balance(
        &mut self,
        task: &mut TaskDirty,
        wb: WbId,
        cpu: usize,
        pages: Pages,
    ) -> bool {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, CpuDirty::default());
        }
        let ratelimit = self.ratelimit_pages;
        let exceeded = self.wb(wb).dirty_exceeded;
        let c = &mut self.cpus[cpu];
        task.nr_dirtied += pages;
        c.ratelimit += pages;
        let target = if exceeded {
            task.pause_pages.min(EXCEEDED_PAUSE_PAGES)
        } else {
            task.pause_pages
        };
        let enter = task.nr_dirtied >= target || c.ratelimit >= ratelimit;
        if enter {
            c.ratelimit = 0;
        }
        enter
    }

    /// One step of throttling a dirtier.
    pub fn balance(&mut self, input: BalanceInput) -> Balance {
        let BalanceInput {
            now, task, wb: id, ..
        } = input;
        let mut out = Balance {
            start_background: false,
            flush_foreign: Vec::new(),
            pause: None,
        };
        let call = match task.call.take() {
            Some(call) if call.ends || input.killed => return out,
            Some(call) => call,
            None => Call {
                pages_dirtied: task.nr_dirtied,
                ends: false,
            },
        };
        let realtime = input.realtime.then_some(self.global.dirty_limit);
        let global = Limits::global(&self.params, &input.global, realtime);
        let memcg = input
            .memcg
            .map(|m| Limits::memcg(&self.params, &m, &global, realtime));
        self.track_domains(id, &global, memcg.as_ref(), now);

        if self.params.laptop_mode == 0 && global.file_dirty > global.bg_thresh {
            out.start_background |= self.start_background(id);
        }
        let domains = || std::iter::once(&global).chain(memcg.as_ref());
        if domains().all(|d| d.dirty <= d.freerun()) {
            self.wb_mut(id).dirty_exceeded = false;
            task.pause_pages = domains().map(Limits::poll_pages).min().unwrap_or(1);
            task.nr_dirtied = 0;
            // Time spent unthrottled is not think time to be credited.
            task.paused_when = self.params.ticks(now);
            return out;
        }
        out.start_background |= self.start_background(id);
        out.flush_foreign = self.flush_foreign(input.task_memcg, now);

        let position = self.throttle_position(id, &global, memcg.as_ref(), now);
        let p = &self.params;
        let wb = &self.wbs[id.idx()];
        let e = &wb.estimate;
        let rate = ((u128::from(e.ratelimit) * u128::from(position)) >> 10) as u64;
        let max_pause = max_pause(p, wb.dirty(), e.avg_bandwidth);
        let target = pause_target(p, max_pause, rate, e.ratelimit, e.avg_bandwidth);
        let tick = p.ticks(now);
        let pause = if rate == 0 {
            max_pause
        } else {
            let period =
                (u128::from(p.hz) * u128::from(call.pages_dirtied) / u128::from(rate)) as i64;
            let pause = period - (tick as i64 - task.paused_when as i64);
            if pause < target.min_pause as i64 {
                if pause < -(p.ticks(p.pause_reset) as i64) {
                    task.paused_when = tick;
                } else {
                    task.paused_when = task.paused_when.saturating_add_signed(period);
                }
                task.nr_dirtied = 0;
                return out;
            }
            (pause as u64).min(max_pause)
        };
        let ends = rate > 0 || wb.dirty() <= p.wb_stat_error();
        task.call = Some(Call { ends, ..call });
        task.paused_when = tick + pause;
        task.nr_dirtied = 0;
        task.pause_pages = target.pages;
        out.pause = Some(pause);
        out
    }

    fn track_domains(&mut self, id: WbId, global: &Limits, memcg: Option<&Limits>, now: Nanos) {
        self.global.track(&self.params, global, now);
        let cpus = u64::from(self.params.cpus.max(1));
        self.ratelimit_pages = (global.thresh / (32 * cpus)).max(16);
        if let Some(limits) = memcg {
            let owner = self.wb(id).memcg;
            self.memcgs
                .entry(owner)
                .or_default()
                .track(&self.params, limits, now);
        }
    }

    fn start_background(&mut self, id: WbId) -> bool {
        let wb = self.wb_mut(id);
        if !wb.is_idle() || wb.inodes.is_empty() {
            return false;
        }
        wb.background = true;
        self.count_wakeup(FlushReason::Background);
        true
    }

    /// Position ratio of the tighter domain; updates the estimates when they are due.
    fn throttle_position(
        &mut self,
        id: WbId,
        global: &Limits,
        memcg: Option<&Limits>,
        now: Nanos,
    ) -> u64 {
        let memcg_limit = self
            .memcgs
            .get(&self.wb(id).memcg)
            .map_or(0, |d| d.dirty_limit);
        let mut exceeded = false;
        let mut tightest: Option<Standing> = None;
        let domains = std::iter::once((global, false)).chain(memcg.map(|m| (m, true)));
        for (limits, in_memcg) in domains {
            let dirty_limit = if in_memcg {
                memcg_limit
            } else {
                self.global.dirty_limit
            };
            let wb = self.wb(id);
            let share = self.wb_share(id, limits, in_memcg, now);
            exceeded |= wb.dirty() > share.thresh && limits.dirty > limits.thresh;
            let setpoint = limits.setpoint(dirty_limit);
            let position = position_ratio(&Position {
                thresh: limits.thresh,
                limit: limits.limit(dirty_limit),
                setpoint,
                dirty: limits.dirty,
                wb_thresh: share.thresh,
                wb_dirty: wb.dirty(),
                span_pages: self
                    .params
                    .pages_in(wb.estimate.avg_bandwidth, self.params.position_span),
            });
            if tightest.is_none_or(|t| position < t.position) {
                tightest = Some(Standing {
                    position,
                    below_setpoint: limits.dirty < setpoint,
                });
            }
        }
        let standing = tightest.expect("the machine is always a domain");
        let params = &self.params;
        let wb = &mut self.wbs[id.idx()];
        wb.dirty_exceeded = exceeded;
        let progress = wb.progress(params, now);
        if wb.estimate.due(params, progress.now) {
            wb.estimate.update(params, &progress, Some(standing));
        }
        standing.position
    }
}

/// Per-CPU dirtying counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuDirty {
    ratelimit: Pages,
}
