//! The CPUs: what each runs, its run queue, its totals.

use std::collections::VecDeque;

use super::mask::CpuMask;
use super::task_ctx::TaskId;

/// Totals of one CPU. Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuStats {
    /// Switches to a task other than the one that ran last.
    pub switches: u64,
    /// Times a task was preempted at the end of its slice.
    pub preemptions: u64,
    /// Interrupts that stole time.
    pub interrupts: u64,
    /// Time stolen by interrupts, whether or not a task was running.
    pub stolen: u64,
    /// Time the CPU had a task.
    pub busy: u64,
}

#[derive(Default)]
pub(super) struct Cpu {
    pub current: Option<u32>,
    pub last: Option<TaskId>,
    pub queue: VecDeque<u32>,
    /// The current task is in a run that ends at `run_end` (not just being polled).
    pub in_run: bool,
    pub run_end: u64,
    pub slice_end: u64,
    /// Time stolen from the current task that its run has yet to be prolonged by.
    pub stolen: u64,
    /// An idle CPU handles an interrupt until then.
    pub irq_until: u64,
    pub busy_since: u64,
    pub stats: CpuStats,
}

pub(super) struct Cpus {
    pub cpus: Vec<Cpu>,
    pub idle: CpuMask,
    /// Tasks on all run queues together.
    pub queued: usize,
    /// Where the next new task starts, so that new tasks spread over the CPUs.
    pub next_start: u16,
}

impl Cpu {
    /// The next time at which something can happen to the current run.
    pub fn next_point(&self, now: u64) -> u64 {
        if self.queue.is_empty() {
            self.run_end
        } else {
            self.run_end.min(self.slice_end.max(now))
        }
    }
}

impl Cpus {
    pub fn new(nr: u16) -> Self {
        Self {
            cpus: (0..nr).map(|_| Cpu::default()).collect(),
            idle: CpuMask::first_n(nr),
            queued: 0,
            next_start: 0,
        }
    }

    pub fn get(&mut self, cpu: u16) -> &mut Cpu {
        &mut self.cpus[usize::from(cpu)]
    }

    /// The CPU that a new task counts as having had last: all CPUs of its mask in turn.
    pub fn start_cpu(&mut self, mask: &CpuMask) -> u16 {
        let later = mask.without(&CpuMask::first_n(self.next_start));
        let cpu = later.lowest().or(mask.lowest());
        let cpu = cpu.expect("a task's mask is never empty");
        self.next_start = cpu + 1;
        cpu
    }

    /// The CPU of the mask with the shortest queue; of equals `last`, else the lowest.
    pub fn least_loaded(&self, mask: &CpuMask, last: u16) -> u16 {
        let rank = |&cpu: &u16| (self.cpus[usize::from(cpu)].queue.len(), cpu != last, cpu);
        let best = mask.iter().min_by_key(rank);
        best.expect("a task's mask is never empty")
    }

    pub fn take_queued(&mut self, cpu: u16) -> Option<u32> {
        let slot = self.cpus[usize::from(cpu)].queue.pop_front()?;
        self.queued -= 1;
        Some(slot)
    }

    /// Takes the first task that may come from the longest queue that has one.
    pub fn pull(&mut self, may_come: impl Fn(u32) -> bool) -> Option<u32> {
        if self.queued == 0 {
            return None;
        }
        let mut best: Option<(usize, usize, usize)> = None;
        for (nr, cpu) in self.cpus.iter().enumerate() {
            if best.is_some_and(|(len, ..)| cpu.queue.len() <= len) {
                continue;
            }
            if let Some(at) = cpu.queue.iter().position(|&slot| may_come(slot)) {
                best = Some((cpu.queue.len(), nr, at));
            }
        }
        let (_, nr, at) = best?;
        self.queued -= 1;
        self.cpus[nr].queue.remove(at)
    }
}
