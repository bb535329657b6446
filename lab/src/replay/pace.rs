//! When accesses of a replay begin that has the times of a recording (`docs/rules/machine.md#times-of-a-recording`).

use super::clock::Clock;
use coldset_machine::Ctx;

/// The clock of a recording, and what the replay has waited for reads since the last of its points.
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

    /// The access begins: tells its task the time. Between two points, the reads of the replay take the place of those of the
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
        self.waited += ctx.take_reading();
    }
}
