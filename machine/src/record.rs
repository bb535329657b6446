//! What simulated tasks do to memory and files, told to whoever records it.

use crate::ctx::Ctx;
use crate::io::read::OpenFile;
use crate::io::read_ahead::Advice;
use crate::machine::Machine;
use crate::mem::MappingId;
use crate::sim::{TaskId, TimeClass};
use crate::world::World;
use coldset_engine::{MmId, ObjectId};

/// What a task does. Pages are those of the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Loads or stores of one page after the other, by a mapping.
    Touch {
        /// What is mapped.
        object: ObjectId,
        /// It is anonymous memory.
        anon: bool,
        /// The first page.
        page: u32,
        /// How many.
        pages: u32,
        /// They are stores.
        write: bool,
    },
    /// One call that reads from a file.
    Read {
        /// The file.
        object: ObjectId,
        /// The advice that its descriptor has.
        advice: Advice,
        /// The first page.
        page: u32,
        /// How many.
        pages: u32,
    },
    /// One call that writes to a file.
    Write {
        /// The file.
        object: ObjectId,
        /// The first page.
        page: u32,
        /// How many.
        pages: u32,
        /// Whole pages, not a byte of each.
        whole: bool,
    },
    /// fsync of a file.
    Fsync(ObjectId),
    /// The file ends before this page.
    Truncate(ObjectId, u32),
    /// A mapping of the object is gone.
    Unmap(ObjectId),
    /// The address space is gone.
    Exit,
}

/// A deed, and who did it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The task.
    pub task: TaskId,
    /// Its address space.
    pub mm: MmId,
    /// Time that it has computed or slept for since it began, ns.
    pub own_ns: u64,
    /// What it did.
    pub deed: Deed,
}

/// Takes what tasks do, in the order in which they begin it.
pub type Recorder = Box<dyn FnMut(Record)>;

impl Machine {
    /// From now on `recorder` is told what tasks do. What the machine does by itself is not told, and
    /// neither is what inline tasks do.
    pub fn record(&self, recorder: Recorder) {
        self.world_mut().recorder = Some(recorder);
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
}

impl World {
    /// Tells the recorder, if there is one.
    #[inline]
    pub(crate) fn record(&mut self, ctx: &Ctx, deed: Deed) {
        if self.recorder.is_some() {
            self.tell(ctx, deed);
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
