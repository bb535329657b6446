//! Reading a file of which something was cut off (`docs/rules/large-folios.md#truncation`).

use crate::ctx::Ctx;
use crate::device::DeviceError;
use crate::mem::folio::pages_of;
use crate::world::World;
use coldset_engine::ObjectId;
use std::ops::Range;

impl World {
    /// Submits the read of new folios, and returns what `submit_run` does: the device is asked for what has a place
    /// there, and the rest is there at once. The result is that of the first page.
    #[inline(never)]
    pub(super) fn read_around_holes(
        &mut self,
        ctx: &Ctx,
        object: ObjectId,
        pages: &Range<u32>,
    ) -> (u64, Result<(), DeviceError>) {
        let mut first = None;
        let mut last = ctx.now();
        let mut from = pages.start;
        while from < pages.end {
            let (to, hole) = self.run_of(object, from..pages.end);
            let (end, result) = match hole {
                true => {
                    self.read_done(object, &(from..to));
                    (last, Ok(()))
                }
                false => self.submit_run(ctx, object, &(from..to)),
            };
            last = last.max(end);
            first.get_or_insert(result);
            from = to;
        }
        (last, first.unwrap_or(Ok(())))
    }

    /// The end of the new folios from the first of `pages` on that are all holes, or all not; whether they are.
    fn run_of(&self, object: ObjectId, pages: Range<u32>) -> (u32, bool) {
        let o = &self.objects[object.idx()];
        let (mut to, mut hole) = (pages.start, false);
        while to < pages.end {
            let folio = pages_of(self.engine.folio(self.folio_in_flight(object, to)));
            let this = o.is_hole(folio.clone());
            if to > pages.start && this != hole {
                break;
            }
            (to, hole) = (folio.end, this);
        }
        (to, hole)
    }
}
