//! The scheduler: which task has which CPU, and for how long.
//!
//! A task gets a CPU when it becomes runnable (the one it had last if idle, else the lowest idle
//! one of its mask, else the shortest run queue) and keeps it until it blocks or until its slice
//! is used up while others queue. A CPU that becomes idle takes a task from the longest queue.
//! At most one event is pending per task: the end of its wait, or the end of its run, or the
//! point in its run where it may be preempted.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::class::{TaskTimes, TimeClass};
use super::config::SimConfig;
use super::cpus::{CpuStats, Cpus};
use super::event::{Action, EventQueue};
use super::mask::CpuMask;
use super::task_ctx::{RunState, TaskCtx, TaskId};

pub(super) type Call = Box<dyn FnOnce()>;
pub(super) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A context switch, as the hook of [`Sim::set_switch_hook`](super::Sim::set_switch_hook) sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextSwitch {
    /// The CPU that switches.
    pub cpu: u16,
    /// The task that gets the CPU and its [tag](super::Task::tag), or `None` if it becomes idle.
    pub next: Option<(TaskId, u32)>,
}

/// Called at every context switch; returns extra time for the incoming task, ns.
pub type SwitchHook = dyn Fn(ContextSwitch) -> u64;

/// Called when a sample is due, with the time; returns when the next one is.
pub type Sampler = dyn Fn(u64) -> u64;

pub(super) struct TaskSlot {
    pub task: Option<Rc<TaskCtx>>,
    pub generation: u32,
    pub epoch: u32,
}

/// The state that all handles share.
pub(super) struct SimState {
    pub config: SimConfig,
    pub all_cpus: CpuMask,
    pub now: Cell<u64>,
    /// Time must not pass this point in the present run.
    pub limit: Cell<u64>,
    pub stop: Cell<bool>,
    /// Something is in `spawned` or `doomed`.
    pub attention: Cell<bool>,
    pub events: RefCell<EventQueue>,
    pub slots: RefCell<Vec<TaskSlot>>,
    pub free_slots: RefCell<Vec<u32>>,
    pub live: Cell<usize>,
    pub current: RefCell<Option<Rc<TaskCtx>>>,
    pub spawned: RefCell<Vec<(u32, LocalFuture)>>,
    pub doomed: RefCell<Vec<Rc<TaskCtx>>>,
    pub calls: RefCell<Vec<Option<Call>>>,
    pub free_calls: RefCell<Vec<u32>>,
    pub hook: RefCell<Option<Rc<SwitchHook>>>,
    /// When the sampler is due; never, without one.
    pub sample_at: Cell<u64>,
    pub sampler: RefCell<Option<Rc<Sampler>>>,
    /// Time of the tasks that have ended, by class.
    pub ended: RefCell<TaskTimes>,
    cpus: RefCell<Cpus>,
}

impl SimState {
    pub fn new(config: SimConfig) -> Self {
        let all_cpus = CpuMask::first_n(config.cpus);
        Self {
            config,
            all_cpus,
            now: Cell::new(0),
            limit: Cell::new(0),
            stop: Cell::new(false),
            attention: Cell::new(false),
            events: RefCell::default(),
            slots: RefCell::default(),
            free_slots: RefCell::default(),
            live: Cell::new(0),
            current: RefCell::default(),
            spawned: RefCell::default(),
            doomed: RefCell::default(),
            calls: RefCell::default(),
            free_calls: RefCell::default(),
            hook: RefCell::default(),
            sample_at: Cell::new(u64::MAX),
            sampler: RefCell::default(),
            ended: RefCell::default(),
            cpus: RefCell::new(Cpus::new(config.cpus)),
        }
    }

    /// Calls the sampler: nothing happens between now and `event`. The state is that of the moment
    /// when it was due, or of now, if time passed that moment without an event.
    #[cold]
    pub fn sample(&self, event: u64) {
        let sampler = self.sampler.borrow().clone();
        let Some(sampler) = sampler else { return };
        let next = sampler(self.sample_at.get().max(self.now.get()));
        // A state that lasts is sampled once.
        self.sample_at.set(next.max(event));
    }

    /// See [`Cpus::start_cpu`].
    pub fn start_cpu(&self, mask: &CpuMask) -> u16 {
        self.cpus.borrow_mut().start_cpu(mask)
    }

    /// Replaces the task's pending event by one at `time`.
    pub fn schedule(&self, ctx: &TaskCtx, time: u64) {
        self.unschedule(ctx);
        ctx.has_event.set(true);
        let (slot, epoch) = (ctx.id.slot, ctx.epoch.get());
        let mut events = self.events.borrow_mut();
        events.push(time, Action::Task { slot, epoch });
        if events.wants_sweep() {
            let slots = self.slots.borrow();
            events.sweep(|action| match *action {
                Action::Task { slot, epoch } => {
                    let task = slots[slot as usize].task.as_ref();
                    task.is_some_and(|task| task.epoch.get() == epoch)
                }
                Action::Call { .. } => true,
            });
        }
    }

    /// Makes the task's pending event, if any, go out of date.
    fn unschedule(&self, ctx: &TaskCtx) {
        ctx.epoch.set(ctx.epoch.get().wrapping_add(1));
        if ctx.has_event.take() {
            self.events.borrow_mut().note_stale();
        }
    }

    fn task_in(&self, slot: u32) -> Rc<TaskCtx> {
        let slots = self.slots.borrow();
        slots[slot as usize]
            .task
            .clone()
            .expect("a task on a CPU or run queue is alive")
    }

    /// The task whose pending event this is; none if the event is out of date.
    pub fn expected_by(&self, slot: u32, epoch: u32) -> Option<Rc<TaskCtx>> {
        let slots = self.slots.borrow();
        let task = slots[slot as usize].task.as_ref();
        let Some(ctx) = task.filter(|ctx| ctx.epoch.get() == epoch) else {
            self.events.borrow_mut().note_stale_popped();
            return None;
        };
        ctx.has_event.set(false);
        Some(ctx.clone())
    }

    /// Handles the pending event of a task. True if it is to be polled now.
    pub fn fire(&self, ctx: &Rc<TaskCtx>) -> bool {
        match ctx.state.get() {
            RunState::Blocked | RunState::Waking => self.make_runnable(ctx),
            RunState::Running if ctx.off_cpu => true,
            RunState::Running => self.run_event(ctx),
            RunState::Queued | RunState::Done => {
                unreachable!("no event is pending for a queued task")
            }
        }
    }

    fn make_runnable(&self, ctx: &Rc<TaskCtx>) -> bool {
        let now = self.now.get();
        ctx.account(ctx.blocked_class.get(), now - ctx.since.get());
        ctx.since.set(now);
        if ctx.off_cpu {
            ctx.state.set(RunState::Running);
            return true;
        }
        ctx.newcomer.set(true);
        self.place(ctx)
    }

    /// Gives a runnable task a CPU or a place in a queue. True if it can be polled at once.
    fn place(&self, ctx: &Rc<TaskCtx>) -> bool {
        let mask = ctx.affinity.get();
        let last = ctx.cpu.get();
        let idle = self.cpus.borrow().idle.and(&mask);
        let chosen = if idle.contains(last) {
            Some(last)
        } else {
            idle.lowest()
        };
        if let Some(cpu) = chosen {
            return self.dispatch(ctx, cpu);
        }
        self.enqueue(ctx, mask, last);
        false
    }

    fn enqueue(&self, ctx: &TaskCtx, mask: CpuMask, last: u16) {
        let mut cpus = self.cpus.borrow_mut();
        let best = cpus.least_loaded(&mask, last);
        ctx.state.set(RunState::Queued);
        ctx.cpu.set(best);
        cpus.queued += 1;
        let cpu = cpus.get(best);
        cpu.queue.push_back(ctx.id.slot);
        // The running task may have gone to sleep on a long run without anybody to preempt it.
        let preempt_at = self.now.get().max(cpu.slice_end);
        if cpu.queue.len() == 1 && cpu.in_run && preempt_at < cpu.run_end {
            let running = cpu.current.expect("a run belongs to a task");
            drop(cpus);
            self.schedule(&self.task_in(running), preempt_at);
        }
    }

    /// Puts a task on an idle CPU. True if it can be polled at once; otherwise its run has begun.
    fn dispatch(&self, ctx: &Rc<TaskCtx>, cpu_nr: u16) -> bool {
        let extra = self.call_hook(cpu_nr, Some((ctx.id, ctx.tag.get())));
        let now = self.now.get();
        let mut cpus = self.cpus.borrow_mut();
        cpus.idle.remove(cpu_nr);
        let cpu = cpus.get(cpu_nr);
        debug_assert!(cpu.current.is_none(), "dispatch to a busy CPU");
        let other = cpu.last.is_some_and(|last| last != ctx.id);
        let switch = extra + if other { self.config.switch_ns } else { 0 };
        let irq = cpu.irq_until.saturating_sub(now);
        cpu.stats.switches += u64::from(other);
        cpu.last = Some(ctx.id);
        cpu.current = Some(ctx.id.slot);
        cpu.busy_since = now;
        cpu.slice_end = match self.config.timed_slices {
            true => (now + irq + switch).saturating_add(self.config.slice_ns),
            false => u64::MAX,
        };
        drop(cpus);

        ctx.account(TimeClass::RunQueue, now - ctx.since.get());
        ctx.account(TimeClass::Switch, switch);
        ctx.account(TimeClass::Stolen, irq);
        ctx.cpu.set(cpu_nr);
        ctx.state.set(RunState::Running);
        let ns = irq + switch + ctx.run_left.replace(0);
        if ns > 0 {
            self.begin_run(ctx, ns);
        }
        ns == 0
    }

    /// The task occupies its CPU for `ns` from now; its event comes at the end or at the point of
    /// preemption.
    pub fn begin_run(&self, ctx: &TaskCtx, ns: u64) {
        let now = self.now.get();
        if ctx.off_cpu {
            return self.schedule(ctx, now + ns);
        }
        let mut cpus = self.cpus.borrow_mut();
        let cpu = cpus.get(ctx.cpu.get());
        cpu.in_run = true;
        cpu.run_end = now + ns;
        let next = cpu.next_point(now);
        drop(cpus);
        self.schedule(ctx, next);
    }

    /// Spends `ns` without any event, if nothing else can happen meanwhile.
    pub fn try_pass(&self, ctx: &TaskCtx, ns: u64) -> bool {
        let end = self.now.get().saturating_add(ns);
        let quiet = !self.attention.get()
            && !self.stop.get()
            && end <= self.limit.get()
            && self.events.borrow().next_time().is_none_or(|t| t > end);
        if !quiet {
            return false;
        }
        if !ctx.off_cpu {
            let cpus = self.cpus.borrow();
            let cpu = &cpus.cpus[usize::from(ctx.cpu.get())];
            if !cpu.queue.is_empty() || cpu.stolen > 0 {
                return false;
            }
        }
        self.now.set(end);
        true
    }

    /// The end of a run, or a point where it may be preempted. True if the run is over.
    fn run_event(&self, ctx: &Rc<TaskCtx>) -> bool {
        let now = self.now.get();
        let mut cpus = self.cpus.borrow_mut();
        let cpu = cpus.get(ctx.cpu.get());
        let stolen = std::mem::take(&mut cpu.stolen);
        cpu.run_end += stolen;
        ctx.account(TimeClass::Stolen, stolen);
        if now >= cpu.run_end {
            cpu.in_run = false;
            return true;
        }
        if cpu.queue.is_empty() || now < cpu.slice_end || ctx.holds_cpu.get() {
            let next = if ctx.holds_cpu.get() {
                cpu.run_end
            } else {
                cpu.next_point(now)
            };
            drop(cpus);
            self.schedule(ctx, next);
            return false;
        }
        ctx.run_left.set(cpu.run_end - now);
        cpu.stats.preemptions += 1;
        drop(cpus);
        self.requeue(ctx)
    }

    /// Takes the CPU from a running task and makes it queue again. Never true in practice unless
    /// another CPU of its mask is idle and nothing is left of its run.
    fn requeue(&self, ctx: &Rc<TaskCtx>) -> bool {
        ctx.since.set(self.now.get());
        ctx.state.set(RunState::Queued);
        ctx.newcomer.set(false);
        self.release_cpu(ctx);
        self.place(ctx)
    }

    /// Lets others run first, if there are any on this CPU. The task is polled again later.
    pub fn yield_cpu(&self, ctx: &Rc<TaskCtx>) {
        ctx.parked.set(true);
        let alone = ctx.off_cpu || {
            let cpus = self.cpus.borrow();
            cpus.cpus[usize::from(ctx.cpu.get())].queue.is_empty()
        };
        if alone || self.requeue(ctx) {
            self.begin_run(ctx, 0);
        }
    }

    /// The task waits, at most until `deadline`. All its charged time must be settled.
    pub fn block(&self, ctx: &TaskCtx, deadline: Option<u64>, class: TimeClass) {
        debug_assert_eq!(ctx.pending(), 0, "block with unsettled time");
        let now = self.now.get();
        ctx.parked.set(true);
        ctx.state.set(RunState::Blocked);
        ctx.blocked_class.set(class);
        ctx.since.set(now);
        match deadline {
            Some(time) => self.schedule(ctx, time.max(now)),
            None => self.unschedule(ctx),
        }
        self.release_cpu(ctx);
    }

    /// Wakes a blocked task; it is runnable after the latency.
    pub fn wake(&self, ctx: &TaskCtx, latency_ns: u64) {
        if ctx.state.get() == RunState::Blocked {
            ctx.state.set(RunState::Waking);
            self.schedule(ctx, self.now.get() + latency_ns);
        }
    }

    /// Takes a task that is to be dropped off its CPU or queue.
    pub fn detach(&self, ctx: &TaskCtx) {
        let now = self.now.get();
        self.unschedule(ctx);
        match ctx.state.replace(RunState::Done) {
            RunState::Running => self.release_cpu(ctx),
            RunState::Queued => {
                ctx.account(TimeClass::RunQueue, now - ctx.since.get());
                let mut cpus = self.cpus.borrow_mut();
                cpus.queued -= 1;
                let queue = &mut cpus.get(ctx.cpu.get()).queue;
                queue.retain(|&slot| slot != ctx.id.slot);
            }
            RunState::Blocked | RunState::Waking => {
                ctx.account(ctx.blocked_class.get(), now - ctx.since.get());
            }
            RunState::Done => {}
        }
    }

    /// The task leaves its CPU, which goes to the next in its queue, or to one that waits for
    /// another CPU, or becomes idle.
    fn release_cpu(&self, ctx: &TaskCtx) {
        if ctx.off_cpu {
            return;
        }
        let now = self.now.get();
        let cpu_nr = ctx.cpu.get();
        let mut cpus = self.cpus.borrow_mut();
        let cpu = cpus.get(cpu_nr);
        debug_assert_eq!(cpu.current, Some(ctx.id.slot), "release by another task");
        cpu.current = None;
        cpu.in_run = false;
        cpu.stats.busy += now - cpu.busy_since;
        let stolen = std::mem::take(&mut cpu.stolen);
        cpu.irq_until = cpu.irq_until.max(now) + stolen;
        let next = cpus.take_queued(cpu_nr).or_else(|| {
            let slots = self.slots.borrow();
            cpus.pull(|slot| {
                let task = slots[slot as usize].task.as_ref();
                task.is_some_and(|task| task.affinity.get().contains(cpu_nr))
            })
        });
        let Some(slot) = next else {
            cpus.idle.insert(cpu_nr);
            drop(cpus);
            self.call_hook(cpu_nr, None);
            return;
        };
        drop(cpus);
        let next = self.task_in(slot);
        if self.dispatch(&next, cpu_nr) {
            self.begin_run(&next, 0);
        }
    }

    fn call_hook(&self, cpu: u16, next: Option<(TaskId, u32)>) -> u64 {
        let hook = self.hook.borrow().clone();
        hook.map_or(0, |hook| hook(ContextSwitch { cpu, next }))
    }

    /// An interrupt takes `ns` from whatever runs on the CPU.
    pub fn steal(&self, cpu_nr: u16, ns: u64) {
        let now = self.now.get();
        let mut cpus = self.cpus.borrow_mut();
        let Some(cpu) = cpus.cpus.get_mut(usize::from(cpu_nr)) else {
            return;
        };
        cpu.stats.interrupts += 1;
        cpu.stats.stolen += ns;
        if cpu.current.is_some() {
            cpu.stolen += ns;
        } else {
            cpu.irq_until = cpu.irq_until.max(now) + ns;
        }
    }

    pub fn cpu_stats(&self, cpu_nr: u16) -> CpuStats {
        let cpus = self.cpus.borrow();
        let Some(cpu) = cpus.cpus.get(usize::from(cpu_nr)) else {
            return CpuStats::default();
        };
        let mut stats = cpu.stats;
        if cpu.current.is_some() {
            stats.busy += self.now.get() - cpu.busy_since;
        }
        stats
    }

    pub fn running_on(&self, cpu_nr: u16) -> Option<Rc<TaskCtx>> {
        let slot = self.cpus.borrow().cpus.get(usize::from(cpu_nr))?.current?;
        Some(self.task_in(slot))
    }

    /// A task queues for the CPU of which this is true.
    pub fn queues_on(&self, cpu_nr: u16, of: impl Fn(&TaskCtx) -> bool) -> bool {
        let cpus = self.cpus.borrow();
        let cpu = cpus.cpus.get(usize::from(cpu_nr));
        let mut queue = cpu.into_iter().flat_map(|cpu| &cpu.queue);
        queue.any(|&slot| of(&self.task_in(slot)))
    }

    pub fn idle_cpus(&self) -> CpuMask {
        self.cpus.borrow().idle
    }
}
