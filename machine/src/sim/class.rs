//! What a task spends its time on.

/// A class of time. Every nanosecond of a task's life is in exactly one class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TimeClass {
    /// The task's own work.
    User,
    /// Page faults and other work of the kernel for the task.
    Fault,
    /// CPU time in direct or limit reclaim and in waiting for an allocation.
    AllocStall,
    /// CPU time of background reclaim (kswapd) and of the flushers.
    Background,
    /// Waiting for a device.
    IoWait,
    /// Waiting for a lock.
    LockWait,
    /// Reclaim throttle: too much of the tail is under writeback.
    ThrottleWriteback,
    /// Reclaim throttle: too many folios are isolated.
    ThrottleIsolated,
    /// Reclaim throttle: nothing was reclaimed.
    ThrottleNoProgress,
    /// Reclaim throttle: the backing device is congested.
    ThrottleCongested,
    /// Waiting for kswapd because the reserves are low.
    ThrottlePfmemalloc,
    /// Pause of a writer by dirty balancing.
    ThrottleDirty,
    /// Penalty sleep above `memory.high`.
    ThrottleHigh,
    /// Runnable, but another task has the CPU.
    RunQueue,
    /// Context switches to this task.
    Switch,
    /// CPU time taken away by interrupts, chiefly TLB shootdowns.
    Stolen,
    /// Waiting for nothing that counts as a stall: think time, an idle worker.
    Idle,
}

/// How many classes there are.
pub const TIME_CLASSES: usize = TimeClass::Idle as usize + 1;

impl TimeClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; TIME_CLASSES] = [
        Self::User,
        Self::Fault,
        Self::AllocStall,
        Self::Background,
        Self::IoWait,
        Self::LockWait,
        Self::ThrottleWriteback,
        Self::ThrottleIsolated,
        Self::ThrottleNoProgress,
        Self::ThrottleCongested,
        Self::ThrottlePfmemalloc,
        Self::ThrottleDirty,
        Self::ThrottleHigh,
        Self::RunQueue,
        Self::Switch,
        Self::Stolen,
        Self::Idle,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Fault => "fault",
            Self::AllocStall => "alloc_stall",
            Self::Background => "background",
            Self::IoWait => "io_wait",
            Self::LockWait => "lock_wait",
            Self::ThrottleWriteback => "throttle_writeback",
            Self::ThrottleIsolated => "throttle_isolated",
            Self::ThrottleNoProgress => "throttle_noprogress",
            Self::ThrottleCongested => "throttle_congested",
            Self::ThrottlePfmemalloc => "throttle_pfmemalloc",
            Self::ThrottleDirty => "throttle_dirty",
            Self::ThrottleHigh => "throttle_high",
            Self::RunQueue => "run_queue",
            Self::Switch => "switch",
            Self::Stolen => "stolen",
            Self::Idle => "idle",
        }
    }
}

/// Time of one task by class, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskTimes(pub [u64; TIME_CLASSES]);

impl TaskTimes {
    /// The time in one class, ns.
    #[must_use]
    pub const fn get(&self, class: TimeClass) -> u64 {
        self.0[class as usize]
    }

    /// The whole life of the task, ns.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time in any throttle, ns.
    #[must_use]
    pub fn throttled(&self) -> u64 {
        let range = TimeClass::ThrottleWriteback as usize..=TimeClass::ThrottleHigh as usize;
        self.0[range].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_the_order_of_the_numbers() {
        for (i, class) in TimeClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, i);
        }
        let mut names: Vec<_> = TimeClass::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TIME_CLASSES);
    }

    #[test]
    fn throttled_sums_only_the_throttles() {
        let times = TaskTimes(std::array::from_fn(|_| 1));
        assert_eq!(times.throttled(), 7);
        assert_eq!(times.total(), TIME_CLASSES as u64);
    }
}
