//! Injected errors and slow-downs, for tests of what the machine does about them.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

use super::{DeviceError, Op};

/// Which requests of those a rule looks at fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailWhen {
    /// The n-th, the 2n-th, and so on; 0 means none.
    EveryNth(u64),
    /// Each with this probability, in parts per million.
    Ppm(u64),
    /// All, once this many bytes have been written successfully.
    AfterWritten(u64),
    /// All that reach beyond this offset.
    BeyondOffset(u64),
}

/// One reason for requests to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailRule {
    /// The rule looks at reads or at writes only, or at both.
    pub op: Option<Op>,
    /// Which of them fail.
    pub when: FailWhen,
    /// How they fail.
    pub error: DeviceError,
}

/// A period in which requests take longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowDown {
    /// First moment, ns. What counts is when a request starts.
    pub from: u64,
    /// First moment after it, ns.
    pub until: u64,
    /// Service time in per cent of the usual.
    pub percent: u64,
}

/// All that goes wrong with a device. The default is nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    /// The first rule that applies decides the error.
    pub fail: Vec<FailRule>,
    /// Slow-downs that overlap multiply.
    pub slow: Vec<SlowDown>,
}

/// A plan at work.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    plan: FaultPlan,
    /// Requests each rule has looked at.
    seen: Vec<u64>,
    written: u64,
    rng: Xoshiro256StarStar,
}

impl Faults {
    pub fn new(plan: FaultPlan, seed: u64) -> Self {
        Self {
            seen: vec![0; plan.fail.len()],
            plan,
            written: 0,
            rng: Xoshiro256StarStar::seed_from_u64(seed),
        }
    }

    /// The result of the next request.
    pub fn result(&mut self, op: Op, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        let mut error = None;
        for (rule, seen) in self.plan.fail.iter().zip(&mut self.seen) {
            if rule.op.is_some_and(|only| only != op) {
                continue;
            }
            *seen += 1;
            let fails = match rule.when {
                FailWhen::EveryNth(n) => n > 0 && *seen % n == 0,
                FailWhen::Ppm(ppm) => below(&mut self.rng, 1_000_000) < ppm,
                FailWhen::AfterWritten(limit) => self.written >= limit,
                FailWhen::BeyondOffset(limit) => offset.saturating_add(bytes) > limit,
            };
            if fails && error.is_none() {
                error = Some(rule.error);
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        if op == Op::Write {
            self.written += bytes;
        }
        Ok(())
    }

    /// A service time, prolonged by the slow-downs in force at `start`.
    pub fn slowed(&self, start: u64, ns: u64) -> u64 {
        let active = self.plan.slow.iter();
        active
            .filter(|slow| (slow.from..slow.until).contains(&start))
            .fold(ns, |ns, slow| ns.saturating_mul(slow.percent) / 100)
    }
}

/// A number below `n`, from the upper bits of a draw.
pub(super) fn below(rng: &mut Xoshiro256StarStar, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}
