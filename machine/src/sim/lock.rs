//! Lock contention without locks: a FIFO ticket server (`docs/rules/machine.md`).
//!
//! `start = max(t, free_at); wait = start - t; free_at = start + hold (+ handoff if wait > 0)`.
//!
//! Tasks run ahead of the clock by up to a quantum, so requests can arrive out of the order of
//! their times. A request for an earlier time must not queue behind sections that lie in its
//! future: the server remembers the busy intervals since the clock's time and puts a late-coming
//! request into the first gap that is long enough. Requests that come in order behave exactly as in
//! the formula.

use std::collections::VecDeque;

/// What a request for a lock was granted. Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// When the critical section starts.
    pub start: u64,
    /// How long the requester waited for it.
    pub wait: u64,
    /// When the lock is free again.
    pub free_at: u64,
}

/// Totals of one lock. Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockStats {
    /// Critical sections granted.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// Sum of all waits.
    pub wait_sum: u64,
    /// The longest wait.
    pub wait_max: u64,
    /// Sum of all critical sections.
    pub hold_sum: u64,
    /// The longest critical section.
    pub hold_max: u64,
}

/// One simulated lock: an lru_lock, a zone lock, the swap lock.
#[derive(Clone, Debug)]
pub struct TicketLock {
    /// Handoff from a holder on the same socket, and from one on another.
    handoff_ns: [u64; 2],
    /// Socket of the last holder.
    socket: u16,
    /// Busy intervals `[start, end)`, disjoint and ascending; neighbours are merged.
    busy: VecDeque<(u64, u64)>,
    stats: LockStats,
}

impl TicketLock {
    /// A free lock. The arguments are what passing the lock to a waiter costs, ns: on the same
    /// socket, and on another.
    #[must_use]
    pub fn new(local_ns: u64, remote_ns: u64) -> Self {
        Self {
            handoff_ns: [local_ns, remote_ns],
            socket: 0,
            busy: VecDeque::new(),
            stats: LockStats::default(),
        }
    }

    /// Requests the lock at time `t` for `hold` ns, from a CPU of a socket.
    pub fn acquire(&mut self, t: u64, hold: u64, socket: u16) -> Grant {
        let from = std::mem::replace(&mut self.socket, socket);
        let handoff = self.handoff_ns[usize::from(from != socket)];
        let (start, at) = self.find_gap(t, hold, handoff);
        let wait = start - t;
        let free_at = start + hold + if wait > 0 { handoff } else { 0 };
        self.occupy(at, start, free_at);

        let stats = &mut self.stats;
        stats.acquisitions += 1;
        stats.contended += u64::from(wait > 0);
        stats.wait_sum += wait;
        stats.wait_max = stats.wait_max.max(wait);
        stats.hold_sum += hold;
        stats.hold_max = stats.hold_max.max(hold);
        Grant {
            start,
            wait,
            free_at,
        }
    }

    /// The totals so far.
    #[must_use]
    pub const fn stats(&self) -> LockStats {
        self.stats
    }

    /// The first start at or after `t` that leaves room for the section, and the index of the busy
    /// interval that follows it.
    fn find_gap(&self, t: u64, hold: u64, handoff_ns: u64) -> (u64, usize) {
        match self.busy.back() {
            None => return (t, 0),
            Some(&(_, end)) if t >= end => return (t, self.busy.len()),
            Some(_) => {}
        }
        let mut start = t;
        let mut at = self.busy.partition_point(|&(_, end)| end <= t);
        while let Some(&(busy_start, busy_end)) = self.busy.get(at) {
            let handoff = if start > t { handoff_ns } else { 0 };
            // A section of no length does not get in before one that begins at that moment either.
            if start + hold.max(1) + handoff <= busy_start {
                break;
            }
            start = start.max(busy_end);
            at += 1;
        }
        (start, at)
    }

    fn occupy(&mut self, at: usize, start: u64, end: u64) {
        if start == end {
            return;
        }
        let joins_left = at > 0 && self.busy[at - 1].1 == start;
        let joins_right = self.busy.get(at).is_some_and(|next| next.0 == end);
        match (joins_left, joins_right) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.busy.insert(at, (start, end)),
        }
    }

    /// Forgets what has ended at `clock`: no later request is for an earlier time. (To forget by the
    /// newest section instead would be wrong: one task far ahead of the clock would make all the
    /// others wait for it.)
    pub fn forget_before(&mut self, clock: u64) {
        while self.busy.front().is_some_and(|&(_, end)| end <= clock) {
            self.busy.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn c5_lock_contention() {
        let mut lock = TicketLock::new(50, 150);
        let grants = [0, 10, 20].map(|t| lock.acquire(t, 100, 0));
        assert_eq!(grants.map(|g| g.start), [0, 100, 250]);
        assert_eq!(grants.map(|g| g.wait), [0, 90, 230]);
        assert_eq!(grants.map(|g| g.free_at), [100, 250, 400]);
        let stats = lock.stats();
        assert_eq!((stats.acquisitions, stats.contended), (3, 2));
        assert_eq!((stats.wait_sum, stats.wait_max), (320, 230));
    }

    #[test]
    fn a_lock_goes_to_another_socket_at_its_price() {
        let mut lock = TicketLock::new(50, 150);
        let grants = [(0, 0), (10, 1), (20, 1)].map(|(t, s)| lock.acquire(t, 100, s));
        assert_eq!(grants.map(|g| g.free_at), [100, 350, 500]);
    }

    #[test]
    fn an_earlier_request_takes_the_gap_before_later_sections() {
        let mut lock = TicketLock::new(50, 150);
        lock.acquire(10_000, 100, 0);
        let early = lock.acquire(3_000, 100, 0);
        assert_eq!((early.start, early.wait), (3_000, 0));
        // No room for 100 ns before the section at 10_000.
        let tight = lock.acquire(9_950, 100, 0);
        assert_eq!(tight.start, 10_100);
    }

    #[test]
    fn a_section_far_ahead_keeps_nobody_waiting() {
        let mut lock = TicketLock::new(50, 150);
        lock.acquire(1_000, 100, 0);
        lock.acquire(4_000_000, 100, 0);
        lock.acquire(9_000_000, 100, 0);
        lock.forget_before(1_500);
        assert_eq!(lock.acquire(2_000, 100, 0).wait, 0);
        assert_eq!(lock.acquire(3_999_950, 100, 0).start, 4_000_100);
    }

    /// Found by the property below.
    #[test]
    fn a_section_of_no_length_waits_like_any_other() {
        let mut lock = TicketLock::new(50, 150);
        lock.acquire(0, 1, 0);
        let grant = lock.acquire(0, 0, 0);
        assert_eq!((grant.start, grant.wait, grant.free_at), (1, 1, 51));
    }

    proptest! {
        #[test]
        fn sections_never_overlap(requests in prop::collection::vec((0u64..300_000, 1u64..2_000), 1..200)) {
            let mut lock = TicketLock::new(50, 150);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (t, hold) in requests {
                let grant = lock.acquire(t, hold, 0);
                prop_assert!(grant.start >= t);
                prop_assert_eq!(grant.wait, grant.start - t);
                held.push((grant.start, grant.free_at));
            }
            held.sort_unstable();
            prop_assert!(held.windows(2).all(|w| w[0].1 <= w[1].0));
        }

        #[test]
        fn in_order_requests_follow_the_formula(requests in prop::collection::vec((0u64..500, 0u64..400), 1..200)) {
            let mut lock = TicketLock::new(50, 150);
            let (mut t, mut free_at) = (0, 0);
            for (gap, hold) in requests {
                t += gap;
                let start = free_at.max(t);
                free_at = start + hold + if start > t { 50 } else { 0 };
                prop_assert_eq!(lock.acquire(t, hold, 0), Grant { start, wait: start - t, free_at });
            }
        }
    }
}
