//! Telling the recorder, if there is one, what a task does.

use crate::ctx::Ctx;
use crate::io::read::OpenFile;
use crate::machine::Machine;
use crate::mem::MappingId;
use crate::record::{Deed, Record, Recorder};
use crate::sim::{TaskId, TimeClass};
use crate::world::World;
use coldset_engine::MmId;

impl Machine {
    /// From now on `recorder` is told what tasks do. What the machine does by itself is not told, and
    /// neither is what inline tasks do.
    pub fn record(&self, recorder: Recorder) {
        self.world_mut().recorder = Some(recorder);
    }

    /// A part of the work with this number begins, for whoever records it.
    pub fn phase(&self, ctx: &Ctx, number: u32) {
        self.world_mut().record(ctx, Deed::Phase(number));
    }

    /// As [`World::load_run`], by a task.
    pub fn load_run(&self, ctx: &Ctx, mapping: MappingId, entry: u32, count: u32) -> u32 {
        let mut w = self.world_mut();
        let ran = w.load_run(mapping, entry, count);
        if ran > 0 {
            w.record_touch(ctx, mapping, entry, ran, false);
        }
        ran
    }

    /// Stores to `count` consecutive pages from `entry` on, up to the first that needs a fault. Returns how many did not.
    pub fn store_run(&self, ctx: &Ctx, mapping: MappingId, entry: u32, count: u32) -> u32 {
        let mut w = self.world_mut();
        let ran = w.touch_hits(mapping, entry..entry + count, true) as u32;
        for stored in entry..entry + ran {
            w.record_touch(ctx, mapping, stored, 1, true);
            w.tlb.used(ctx.cpu());
        }
        ran
    }
}

impl World {
    /// Tells the recorder, if there is one.
    #[inline]
    pub(crate) fn record(&mut self, ctx: &Ctx, deed: Deed) {
        if self.recorder.is_some() {
            self.tell(ctx, deed);
        }
    }

    /// Tells the recorder, if there is one, that a task has been started.
    pub(crate) fn record_begin(&mut self, task: TaskId, mm: MmId) {
        if let Some(recorder) = &mut self.recorder {
            recorder(Record {
                task,
                mm,
                own_ns: 0,
                deed: Deed::Begin,
            });
        }
    }

    #[inline]
    pub(crate) fn record_read(&mut self, ctx: &Ctx, file: &OpenFile, page: u32, pages: u32) {
        if self.recorder.is_some() {
            let (object, advice) = (file.object, file.advice());
            self.tell(
                ctx,
                Deed::Read {
                    object,
                    advice,
                    page,
                    pages,
                },
            );
        }
    }

    #[inline]
    pub(crate) fn record_touch(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        pages: u32,
        write: bool,
    ) {
        if self.recorder.is_some() {
            let m = &self.mappings[mapping.0 as usize];
            let (object, page) = (m.object, m.start + entry);
            let anon = !self.objects[object.idx()].is_file();
            self.tell(
                ctx,
                Deed::Touch {
                    object,
                    anon,
                    page,
                    pages,
                    write,
                },
            );
        }
    }

    #[cold]
    fn tell(&mut self, ctx: &Ctx, deed: Deed) {
        let (Some(task), Some(recorder)) = (ctx.task(), &mut self.recorder) else {
            return;
        };
        let times = task.times();
        recorder(Record {
            task: task.id(),
            mm: ctx.mm,
            own_ns: times.get(TimeClass::User) + times.get(TimeClass::Idle),
            deed,
        });
    }
}
