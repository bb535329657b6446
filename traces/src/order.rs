//! Who waits for whom when the tasks of a trace are played.

use crate::step::{Record, StepKind};
use std::fmt;
use std::str::FromStr;

/// Order of accesses across tasks. Those of one task are always done in the trace's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// As in the trace: a task waits until the accesses before its own are done. One is under way at a time.
    #[default]
    Strict,
    /// All at once, but nobody is more than this many accesses of the trace ahead of whoever is last.
    Within(u64),
    /// Every task at its own speed, all at once.
    PerTask,
}

/// Text that is no order.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no order; there are strict, within:N (accesses, 1 or more) and per-task")]
pub struct NoOrder(String);

/// Where several tasks are under way at once, one begins when as many accesses have been done as the trace has before its
/// first, less this many: for whoever started it did some of those, and who comes early was there from the start.
pub const BEGINNING: u64 = 1024;

/// Whether a task that has done nothing yet begins with this record. If it keeps its pace, it does so with its first: its
/// time runs from there. If it does not, what says only whose thread it is or how long it computes comes before.
pub fn begins(record: &Record, pace: bool) -> bool {
    pace || !(record.is_step(StepKind::Process) || record.is_step(StepKind::Think))
}

impl Order {
    /// Several tasks are under way at a time.
    pub fn is_at_once(self) -> bool {
        self != Self::Strict
    }

    /// How many accesses a task may be ahead; none: there is no bound.
    pub fn lead(self) -> Option<u64> {
        match self {
            Self::Strict => Some(0),
            Self::Within(accesses) => Some(accesses),
            Self::PerTask => None,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Within(accesses) => write!(f, "within:{accesses}"),
            Self::PerTask => f.write_str("per-task"),
        }
    }
}

impl FromStr for Order {
    type Err = NoOrder;

    fn from_str(text: &str) -> Result<Self, NoOrder> {
        let wrong = || NoOrder(text.to_owned());
        match text {
            "strict" => Ok(Self::Strict),
            "per-task" => Ok(Self::PerTask),
            _ => {
                let number = text.strip_prefix("within:").ok_or_else(wrong)?;
                let accesses = number.parse().ok().filter(|&n| n > 0);
                accesses.map(Self::Within).ok_or_else(wrong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_go_there_and_back() {
        for order in [Order::Strict, Order::PerTask, Order::Within(64)] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for text in ["", "Strict", "within", "within:0", "within:-1", "within:x"] {
            let error = text.parse::<Order>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{text}' is no")));
        }
    }
}
