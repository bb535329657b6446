//! Memcg statistics of a replay without a clock are folded by its misses.

use super::ReplayOptions;
use coldset_machine::Machine;

/// Misses from fold to fold.
pub(super) struct Folds {
    /// 0: there are none.
    every: u64,
    /// Until the next one.
    left: u64,
}

impl Folds {
    pub fn new(options: &ReplayOptions) -> Self {
        Self {
            every: match options.settings.clock {
                Some(_) => 0,
                None => options.fold_every,
            },
            left: options.fold_first,
        }
    }

    /// An access has missed.
    pub fn missed(&mut self, machine: &Machine) {
        if self.every == 0 {
            return;
        }
        if self.left == 0 {
            machine.world_mut().engine.memcgs.fold();
            self.left = self.every;
        }
        self.left -= 1;
    }
}
