//! Function calls to another CPU: requests queue, and only one that finds the queue empty sends an
//! interrupt (`docs/rules/tlb.md`).

/// Durations of a call, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallCost {
    /// From the interrupt's being sent until it arrives.
    pub(crate) deliver: u64,
    /// Entry and exit of the interrupt.
    pub(crate) irq: u64,
    /// The function itself.
    pub(crate) handler: u64,
}

/// The queue of one CPU.
///
/// Tasks run ahead of the clock by up to a quantum, so requests can come out of the order of their
/// times; one that is earlier than what is remembered here is served on its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallQueue {
    /// When the interrupt that is under way was sent.
    sent: u64,
    /// When it is taken: the queue is emptied then.
    taken: u64,
    /// When the CPU is through with it.
    busy_until: u64,
    /// Interrupts are off from .. to.
    off: (u64, u64),
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Called {
    /// It needed an interrupt of its own.
    pub(crate) interrupt: bool,
    /// When the function has run.
    pub(crate) done: u64,
    /// What it takes from the CPU.
    pub(crate) stolen: u64,
}

impl CallQueue {
    /// A request that enters the queue at time `t`.
    pub(crate) fn request(&mut self, t: u64, cost: CallCost) -> Called {
        if self.sent <= t && t < self.taken {
            self.busy_until += cost.handler;
            return Called {
                interrupt: false,
                done: self.busy_until,
                stolen: cost.handler,
            };
        }
        let mut taken = t + cost.deliver;
        if self.off.0 <= taken && taken < self.off.1 {
            taken = self.off.1;
        }
        if t >= self.sent {
            taken = taken.max(self.busy_until);
            *self = Self {
                sent: t,
                taken,
                // Entry and exit lie before and after; the sender waits for the function only.
                busy_until: taken + cost.handler,
                off: self.off,
            };
        }
        Called {
            interrupt: true,
            done: taken + cost.handler,
            stolen: cost.irq + cost.handler,
        }
    }

    /// The CPU has interrupts off from `from` to `to`.
    pub(crate) fn interrupts_off(&mut self, from: u64, to: u64) {
        self.off = (from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: CallCost = CallCost {
        deliver: 300,
        irq: 500,
        handler: 200,
    };

    #[test]
    fn requests_join_an_interrupt_that_has_not_been_taken() {
        let mut q = CallQueue::default();
        let first = q.request(1_000, COST);
        assert_eq!(
            (first.interrupt, first.done, first.stolen),
            (true, 1_500, 700)
        );
        let second = q.request(1_299, COST);
        assert_eq!(
            (second.interrupt, second.done, second.stolen),
            (false, 1_700, 200)
        );
        // The queue is empty again, the handler still runs.
        let third = q.request(1_300, COST);
        assert_eq!((third.interrupt, third.done), (true, 1_900));
        // One that comes late, for an earlier time.
        let late = q.request(500, COST);
        assert_eq!((late.interrupt, late.done), (true, 1_000));
        assert!(!q.request(1_400, COST).interrupt);
    }

    #[test]
    fn interrupts_wait_while_they_are_off() {
        let mut q = CallQueue::default();
        q.interrupts_off(1_200, 5_000);
        assert_eq!(q.request(1_000, COST).done, 5_200);
        assert!(!q.request(4_000, COST).interrupt);
        assert!(q.request(5_000, COST).interrupt);
    }
}
