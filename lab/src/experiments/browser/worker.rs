//! One server with its browser, as one simulated task: they never run at the same time.

use super::outcome::Outcome;
use super::shape::{Fill, Shape};
use crate::draw::Stream;
use crate::rig::Failure;
use coldset_engine::{MemcgId, MmId, ObjectId};
use coldset_machine::sim::TimeClass;
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, OpError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Arrays of scripts that garbage collection has not freed yet.
const ARRAYS: usize = 4;
/// Pages that are written without looking at the clock.
const STRETCH: u32 = 32;

/// What all workers share.
pub(super) struct Load {
    pub(super) shape: Shape,
    pub(super) until: u64,
    pub(super) failure: Failure,
    pub(super) outcome: RefCell<Outcome>,
}

/// Why a request was not answered.
enum Unanswered {
    Late,
    Failed(OpError),
}

impl From<OpError> for Unanswered {
    fn from(e: OpError) -> Self {
        Self::Failed(e)
    }
}

/// One worker.
pub(super) struct Worker {
    number: usize,
    server: MmId,
    browser: MmId,
    buffers: MappingId,
    text: MappingId,
    files: MappingId,
    heap: MappingId,
    arrays: VecDeque<MappingId>,
    draw: Stream,
}

impl Worker {
    pub(super) fn new(
        machine: &Machine,
        shape: &Shape,
        memcg: MemcgId,
        text: ObjectId,
        seed: u64,
        number: u64,
    ) -> Self {
        let (server, browser) = (machine.create_mm(memcg), machine.create_mm(memcg));
        let plain = MappingFlags::empty();
        let pages = shape.chunks.saturating_mul(shape.chunk_pages);
        let buffers = match shape.fill {
            Fill::Zero => machine.create_anon_same_filled(pages),
            Fill::Random => machine.create_anon_random(pages),
        };
        let files = machine.create_file(0, shape.file_pages);
        let heap = machine.create_anon(shape.heap_pages);
        Self {
            number: number as usize,
            buffers: machine.mmap(server, buffers, 0, pages, plain),
            text: machine.mmap(browser, text, 0, shape.text_pages, MappingFlags::EXEC),
            files: machine.mmap(browser, files, 0, shape.file_pages, plain),
            heap: machine.mmap(browser, heap, 0, shape.heap_pages, plain),
            server,
            browser,
            arrays: VecDeque::new(),
            draw: Stream::new(seed, "browser", number),
        }
    }

    /// Address space of the server.
    pub(super) fn server(&self) -> MmId {
        self.server
    }

    /// Asks until time is up.
    pub(super) async fn run(mut self, m: Machine, ctx: Ctx, s: Rc<Load>) {
        ctx.sleep_until(TimeClass::Idle, s.shape.start_ns).await;
        // What a browser needs in order to run is there before its first request.
        let shape = &s.shape;
        for (map, pages, write) in self.browser_memory(shape) {
            let whole = (map, 0, pages);
            if let Err(Unanswered::Failed(e)) = touch(&m, &ctx, whole, write, 0, u64::MAX).await {
                // Without memory the request has failed; the next one may not.
                if e != OpError::NoMemory {
                    return s.failure.stop(e);
                }
            }
        }
        while ctx.now() < s.until {
            let start = ctx.now();
            let done = self.request(&m, &ctx, &s, start).await;
            if let Some(task) = ctx.task() {
                task.settle().await;
                s.outcome.borrow_mut().spent(self.number, &task.times());
            }
            let end = ctx.now();
            match done {
                Ok(()) => s.outcome.borrow_mut().answered(self.number, end - start),
                Err(Unanswered::Late) => {}
                Err(Unanswered::Failed(e)) => {
                    if e != OpError::NoMemory {
                        return s.failure.stop(e);
                    }
                }
            }
            if done.is_err() {
                s.outcome.borrow_mut().failed();
                let pause = end + s.shape.error_pause_ns;
                ctx.sleep_until(TimeClass::Idle, pause).await;
            }
        }
    }

    /// Regions of the browser: mapping, pages, whether it writes there.
    fn browser_memory(&self, shape: &Shape) -> [(MappingId, u32, bool); 3] {
        [
            (self.text, shape.text_pages, false),
            (self.files, shape.file_pages, false),
            (self.heap, shape.heap_pages, true),
        ]
    }

    async fn request(
        &mut self,
        m: &Machine,
        ctx: &Ctx,
        s: &Load,
        start: u64,
    ) -> Result<(), Unanswered> {
        let shape = &s.shape;
        let late = start + shape.timeout_ns;
        let first = self.draw.below(shape.chunks.into()) as u32 * shape.chunk_pages;
        let buffer = (self.buffers, first, shape.chunk_pages);
        touch(m, ctx, buffer, true, shape.touch_ns, late).await?;
        for (map, pages, write) in self.browser_memory(shape) {
            let part = (map, 0, shape.touched(pages));
            touch(m, ctx, part, write, 0, late).await?;
        }
        ctx.charge(TimeClass::User, shape.browser_ns);
        ctx.maybe_settle().await;
        let object = m.create_anon(shape.array_pages);
        let flags = MappingFlags::empty();
        let array = m.mmap(self.browser, object, 0, shape.array_pages, flags);
        self.arrays.push_back(array);
        let whole = (array, 0, shape.array_pages);
        touch(m, ctx, whole, true, shape.touch_ns, late).await?;
        if self.arrays.len() > ARRAYS {
            let garbage = self.arrays.pop_front().expect("more than none");
            m.munmap(ctx, garbage);
        }
        Ok(())
    }
}

/// Loads from or stores to pages of a mapping `(mapping, first, pages)`, at `ns` each.
async fn touch(
    m: &Machine,
    ctx: &Ctx,
    (map, first, pages): (MappingId, u32, u32),
    write: bool,
    ns: u64,
    late: u64,
) -> Result<(), Unanswered> {
    let end = first + pages;
    let mut page = first;
    while page < end {
        let from = page;
        {
            // Pages that are there.
            let mut w = m.world_mut();
            let stop = end.min(from + STRETCH);
            while page < stop && w.touch(map, page, write) {
                page += 1;
            }
        }
        if page < end.min(from + STRETCH) {
            m.access(ctx, map, page, write).await?;
            page += 1;
        }
        ctx.charge(TimeClass::User, u64::from(page - from) * ns);
        ctx.maybe_settle().await;
        if ctx.now() > late {
            return Err(Unanswered::Late);
        }
    }
    Ok(())
}
