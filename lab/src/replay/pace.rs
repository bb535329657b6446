//! When accesses of a replay begin that has the times of a recording (`docs/rules/machine.md#times-of-a-recording`).

use super::clock::Clock;
use coldset_machine::Ctx;

/// The clock of a recording, and what the replay has waited since the last of its points, for what is known of the recording.
#[derive(Debug)]
pub(super) struct Pace<'a> {
    clock: Option<&'a Clock>,
    waited: u64,
    /// First access of the part between two points that it is in.
    part: Option<u64>,
}

impl<'a> Pace<'a> {
    pub fn new(clock: Option<&'a Clock>) -> Self {
        Self {
            clock,
            waited: 0,
            part: None,
        }
    }

    /// The access begins: tells its task the time. Between two points, the waits of the replay take the place of those of the
    /// recording.
    pub fn begin(&mut self, ctx: &Ctx, access: u64) {
        let Some(clock) = self.clock else {
            return;
        };
        let part = clock.part(access);
        if self.part != Some(part.access) {
            self.part = Some(part.access);
            self.waited = 0;
        }
        ctx.set_clock(part.at(access, self.waited));
    }

    /// The access is over.
    pub fn end(&mut self, ctx: &Ctx) {
        let all = self.clock.is_some_and(Clock::knows_all_waits);
        let (reading, asleep) = (ctx.take_reading(), ctx.take_asleep());
        self.waited += if all { asleep } else { reading };
    }
}
