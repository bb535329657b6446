//! What a task under replay waits to be told.

use coldset_engine::memcg::{ChargeStep, HighStep, WriteStep};
use coldset_engine::reclaim::{Answer, Work};

/// What a task waits to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Nothing.
    Nothing,
    References,
    Walked,
    Unmapped,
    Written,
    Slot,
    Victim,
    Reclaimed,
    Oom,
}

impl Wait {
    pub(super) fn of_work(work: &Work) -> Self {
        match work {
            Work::Test { .. } => Self::References,
            Work::Walk(_) => Self::Walked,
            Work::Unmap { .. } => Self::Unmapped,
            Work::Write { .. } => Self::Written,
            Work::AllocSwap { .. } => Self::Slot,
            Work::Victim { .. } => Self::Victim,
            _ => Self::Nothing,
        }
    }

    pub(super) fn of_answer(answer: Option<Answer>) -> Self {
        match answer {
            Some(Answer::References(_)) => Self::References,
            Some(Answer::Walked) => Self::Walked,
            Some(Answer::Unmapped { .. }) => Self::Unmapped,
            Some(Answer::Written(_)) => Self::Written,
            Some(Answer::Slot(_)) => Self::Slot,
            Some(Answer::Victim(_)) => Self::Victim,
            _ => Self::Nothing,
        }
    }

    /// None: the charge has ended.
    pub(super) fn of_charge(step: &ChargeStep) -> Option<Self> {
        match step {
            ChargeStep::Reclaim { .. } => Some(Self::Reclaimed),
            ChargeStep::Oom { .. } => Some(Self::Oom),
            ChargeStep::Done(_) => None,
        }
    }

    /// None: it has ended.
    pub(super) fn of_high(step: &HighStep) -> Option<Self> {
        match step {
            HighStep::Reclaim { .. } => Some(Self::Reclaimed),
            HighStep::Sleep { .. } => Some(Self::Nothing),
            HighStep::Done => None,
        }
    }

    /// None: the write has ended.
    pub(super) fn of_limit(step: &WriteStep) -> Option<Self> {
        match step {
            WriteStep::Reclaim { .. } => Some(Self::Reclaimed),
            WriteStep::Oom { .. } => Some(Self::Oom),
            WriteStep::DrainLruBatches => Some(Self::Nothing),
            WriteStep::Done(_) => None,
        }
    }
}
