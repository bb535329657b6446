//! fsync: everything dirty now is on the device when it returns, or the error is reported.

use crate::config::OpError;
use crate::ctx::Ctx;
use crate::io::complete::Portion;
use crate::machine::Machine;
use crate::record::Deed;
use crate::sim::TimeClass;
use crate::vm::held::FolioRef;
use coldset_engine::{Flags, ObjectId};

/// What an fsync starts before it looks at what else happens.
const AT_ONCE: Portion = Portion {
    pages: 1024,
    requests: u64::MAX,
};

impl Machine {
    /// Writes all dirty pages of a file and waits for them.
    ///
    /// # Errors
    /// The first device error that no fsync has reported yet, or one since this fsync began; the pages stay dirty.
    pub async fn fsync(&self, ctx: &Ctx, object: ObjectId) -> Result<(), OpError> {
        self.w.borrow_mut().record(ctx, Deed::Fsync(object));
        let errors_before = self.w.borrow().objects[object.idx()].last_error.1;
        let mut at = 0;
        loop {
            let busy = {
                let mut w = self.w.borrow_mut();
                let w = &mut *w;
                w.engine.set_now(ctx.now());
                let Some(page) = w.objects[object.idx()].next_dirty(at) else {
                    break;
                };
                let id = w.objects[object.idx()].word(page).folio();
                let id = id.expect("a dirty page is in memory");
                if w.engine.folio(id).any(Flags::LOCKED | Flags::WRITEBACK) {
                    // Stored to again while it is being written: once more, after that.
                    at = page;
                    Some(id)
                } else {
                    let wb = w.wb_of(object, ctx.memcg);
                    at = w
                        .write_run_of_dirty(ctx.now(), object, wb, page, AT_ONCE)
                        .next;
                    let ns = w.take_flush_debt();
                    ctx.charge(TimeClass::Fault, ns);
                    None
                }
            };
            if let Some(id) = busy {
                let held = FolioRef::get(self, id);
                self.wait_folio(ctx, held.id).await;
            }
            ctx.maybe_settle().await;
        }
        self.w.borrow_mut().round_over(object);
        self.wait_writeback(ctx, object).await;
        let error = {
            let mut w = self.w.borrow_mut();
            let o = &mut w.objects[object.idx()];
            // An error that another fsync has reported meanwhile concerns this one too.
            let (last, errors) = o.last_error;
            o.error.take().or(last.filter(|_| errors > errors_before))
        };
        error.map_or(Ok(()), |e| Err(OpError::Device(e)))
    }

    async fn wait_writeback(&self, ctx: &Ctx, object: ObjectId) {
        while self.w.borrow().objects[object.idx()].nr_writeback > 0 {
            self.wait_io(ctx, object.0, |w| &mut w.object_waits).await;
        }
    }
}
