//! The build: make with its job slots, and the processes of each job.

use super::jobs::{jobs, Unit};
use super::tree::{pages_of, Headers, SOURCE_BYTES};
use crate::draw::Stream;
use crate::experiment::{ExperimentError, Host, RunInput, REGION_MIN};
use crate::rig::{Failure, Rig};
use coldset_engine::{Counter, MemcgId, ObjectId};
use coldset_machine::sim::{Affinity, TaskId, TaskTimes, TimeClass};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, OpError, OpenFile};
use coldset_report::RunResult;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

/// Units are half of those of the whole kernel: at the default scale a run takes seconds.
pub(super) const EFFORT_DIVISOR: u64 = 2;
/// Anonymous memory of a small process, KiB, and its CPU time, us.
const TINY: ((u64, u64), (u64, u64)) = ((1024, 4096), (3_000, 10_000));
/// Pages of text that a small process uses.
const TINY_TEXT: u64 = 16;
/// Headers are read in this part of a compiler's run.
const PARSING_PERCENT: u64 = 30;

/// What all processes share.
struct Build {
    machine: Machine,
    memcg: MemcgId,
    seed: u64,
    scale: u64,
    open_ns: u64,
    exec_ns: u64,
    hot_permille: u64,
    retouches: u64,
    text: ObjectId,
    text_pages: u64,
    text_hot: u64,
    headers: Headers,
    headers_file: ObjectId,
    sources: ObjectId,
    objects: ObjectId,
    archives: ObjectId,
    units: Vec<Unit>,
    /// Where each unit's object begins, bytes; and the end of the last.
    object_at: Vec<u64>,
    next: Cell<usize>,
    done: Cell<u64>,
    /// Units still to be compiled by directory, with the numbers of all of its units.
    open: RefCell<Vec<(u64, Vec<usize>)>>,
    finished: Cell<u64>,
    processes: Cell<u64>,
    times: RefCell<TaskTimes>,
    failure: Failure,
}

/// The memory of a process: one anonymous region and the text.
struct Process {
    heap: MappingId,
    pages: u64,
    text: MappingId,
}

impl Build {
    /// Starts a process with `pages` pages of anonymous memory. It exits when `body` is over.
    fn spawn<F, Fut>(self: &Rc<Self>, name: &str, pages: u64, body: F) -> TaskId
    where
        F: FnOnce(Rc<Self>, Rc<Ctx>, Rc<Process>) -> Fut + 'static,
        Fut: Future<Output = Result<(), OpError>> + 'static,
    {
        let m = &self.machine;
        let mm = m.create_mm(self.memcg);
        let region = pages.max(REGION_MIN) as u32;
        let heap = m.create_anon(region);
        let process = Rc::new(Process {
            heap: m.mmap(mm, heap, 0, region, MappingFlags::empty()),
            pages,
            text: m.mmap(mm, self.text, 0, self.text_pages as u32, MappingFlags::EXEC),
        });
        let build = self.clone();
        m.spawn(name, Affinity::Any, mm, move |machine, ctx| async move {
            let ctx = Rc::new(ctx);
            ctx.charge(TimeClass::Fault, build.exec_ns);
            let done = body(build.clone(), ctx.clone(), process).await;
            machine.exit_mm(&ctx, mm);
            build.processes.set(build.processes.get() + 1);
            build.account(&ctx).await;
            match done {
                // Killed, or its memcg is full: the job has failed, the build goes on.
                Ok(()) | Err(OpError::NoMemory) => {}
                Err(e) => build.failure.stop(e),
            }
        })
    }

    /// Adds the times of a process that ends.
    async fn account(&self, ctx: &Ctx) {
        let Some(task) = ctx.task() else { return };
        task.settle().await;
        let times = task.times();
        let mut sum = self.times.borrow_mut();
        for class in TimeClass::ALL {
            sum.0[class as usize] += times.get(class);
        }
    }

    async fn run_text(
        &self,
        ctx: &Ctx,
        p: &Process,
        draw: &mut Stream,
        hot: u64,
    ) -> Result<(), OpError> {
        // Now and then something off the beaten track.
        let page = if draw.chance(1, 64) {
            draw.below(self.text_pages)
        } else {
            draw.below(hot)
        };
        self.machine.access(ctx, p.text, page as u32, false).await
    }

    async fn read_file(
        &self,
        ctx: &Ctx,
        file: ObjectId,
        pages: std::ops::Range<u32>,
    ) -> Result<(), OpError> {
        ctx.charge(TimeClass::Fault, self.open_ns);
        let open = OpenFile::new(file);
        let n = pages.end - pages.start;
        self.machine.read(ctx, &open, pages.start, n).await
    }

    async fn write_file(
        &self,
        ctx: &Ctx,
        file: ObjectId,
        pages: std::ops::Range<u32>,
    ) -> Result<(), OpError> {
        ctx.charge(TimeClass::Fault, self.open_ns);
        let n = pages.end - pages.start;
        self.machine.write(ctx, file, pages.start, n, true).await
    }

    fn object_pages(&self, unit: usize) -> std::ops::Range<u32> {
        pages_of(
            self.object_at[unit],
            self.object_at[unit + 1] - self.object_at[unit],
        )
    }

    /// The memory and the CPU time of a small process, half of it before `rest`.
    async fn tiny<Fut>(&self, ctx: &Ctx, p: &Process, key: u64, rest: Fut) -> Result<(), OpError>
    where
        Fut: Future<Output = Result<(), OpError>>,
    {
        let mut draw = Stream::new(self.seed, "kernel-build-tiny", key);
        let (low, high) = TINY.1;
        let cpu = draw.between(low, high) * 1000 / self.scale;
        for page in 0..p.pages {
            self.machine.access(ctx, p.heap, page as u32, true).await?;
            if page % 4 == 0 {
                let hot = TINY_TEXT.min(self.text_hot);
                self.run_text(ctx, p, &mut draw, hot).await?;
            }
            ctx.charge(TimeClass::User, cpu / 2 / p.pages.max(1));
            ctx.maybe_settle().await;
        }
        rest.await?;
        for page in 0..p.pages / 4 {
            self.machine.access(ctx, p.heap, page as u32, true).await?;
        }
        ctx.charge(TimeClass::User, cpu / 2);
        ctx.maybe_settle().await;
        Ok(())
    }

    fn tiny_pages(&self, key: u64) -> u64 {
        let mut draw = Stream::new(self.seed, "kernel-build-size", key);
        (draw.between(TINY.0 .0, TINY.0 .1) / 4 / self.scale).max(1)
    }

    /// The compiler proper.
    async fn compile(&self, ctx: &Ctx, p: &Process, unit: usize) -> Result<(), OpError> {
        let u = self.units[unit];
        let mut draw = Stream::new(self.seed, "kernel-build-unit", u.source);
        let source = u.source * (SOURCE_BYTES / self.scale);
        let source = pages_of(source, SOURCE_BYTES / self.scale);
        self.read_file(ctx, self.sources, source).await?;
        let headers = self.headers.draw(u.headers, &mut draw);
        let parsing = (p.pages * PARSING_PERCENT / 100).max(1);
        let mut read = 0;
        let step_ns = u.cpu_us * 1000 / self.scale / p.pages.max(1);
        // The part in use until the exit is scattered evenly.
        let is_hot = |page: u64| page * 7 % 1000 < self.hot_permille;
        let mut hot: Vec<u32> = Vec::new();
        let mut cold: Vec<u32> = Vec::new();
        for page in 0..p.pages {
            let due = (headers.len() as u64 * (page + 1)).div_ceil(parsing) as usize;
            while read < due.min(headers.len()) {
                let range = self.headers.range(headers[read]);
                self.read_file(ctx, self.headers_file, range).await?;
                read += 1;
            }
            self.machine.access(ctx, p.heap, page as u32, true).await?;
            if is_hot(page) {
                hot.push(page as u32);
            } else {
                cold.push(page as u32);
                // Half of what is written once is read once more, half a life later.
                let back = cold.len() / 2;
                if cold.len().is_multiple_of(2) {
                    self.machine.access(ctx, p.heap, cold[back], false).await?;
                }
            }
            for _ in 0..self.retouches {
                if hot.is_empty() {
                    break;
                }
                let again = hot[draw.below(hot.len() as u64) as usize];
                let write = draw.chance(1, 2);
                self.machine.access(ctx, p.heap, again, write).await?;
            }
            self.run_text(ctx, p, &mut draw, self.text_hot).await?;
            ctx.charge(TimeClass::User, step_ns);
            ctx.maybe_settle().await;
        }
        Ok(())
    }

    /// One compile job: shell, driver, compiler, assembler, two helpers.
    async fn job(self: &Rc<Self>, unit: usize) {
        let key = move |k: u64| unit as u64 * 8 + k;
        let shell = self.spawn("sh", self.tiny_pages(key(0)), move |b, ctx, p| async move {
            let children = async {
                let driver = b.spawn("gcc", b.tiny_pages(key(1)), move |b, ctx, p| async move {
                    let children = async {
                        let pages = (b.units[unit].anon_kib / 4 / b.scale).max(REGION_MIN);
                        let compiler = b.spawn("cc1", pages, move |b, ctx, p| async move {
                            b.compile(&ctx, &p, unit).await?;
                            b.done.set(b.done.get() + 1);
                            Ok(())
                        });
                        b.machine.sim.join(compiler).await;
                        let pages = b.tiny_pages(key(2));
                        let assembler = b.spawn("as", pages, move |b, ctx, p| async move {
                            let write = b.write_file(&ctx, b.objects, b.object_pages(unit));
                            b.tiny(&ctx, &p, key(2), write).await
                        });
                        b.machine.sim.join(assembler).await;
                        Ok(())
                    };
                    b.tiny(&ctx, &p, key(1), children).await
                });
                b.machine.sim.join(driver).await;
                for k in [3, 4] {
                    let pages = b.tiny_pages(key(k));
                    let helper = b.spawn("helper", pages, move |b, ctx, p| async move {
                        b.tiny(&ctx, &p, key(k), async { Ok(()) }).await
                    });
                    b.machine.sim.join(helper).await;
                }
                Ok(())
            };
            b.tiny(&ctx, &p, key(0), children).await
        });
        self.machine.sim.join(shell).await;
    }

    /// A unit of a directory is over. The units of the directory if it was the last one.
    fn directory_done(&self, directory: u64) -> Option<Vec<usize>> {
        let mut open = self.open.borrow_mut();
        let (left, units) = &mut open[directory as usize];
        *left -= 1;
        (*left == 0).then(|| std::mem::take(units))
    }

    /// Puts the objects of a directory together.
    async fn archive(self: &Rc<Self>, units: Vec<usize>) {
        let key = self.units.len() as u64 * 8 + units[0] as u64;
        let ar = self.spawn("ar", self.tiny_pages(key), move |b, ctx, p| async move {
            let work = async {
                for &unit in &units {
                    let pages = b.object_pages(unit);
                    b.read_file(&ctx, b.objects, pages.clone()).await?;
                    b.write_file(&ctx, b.archives, pages).await?;
                }
                Ok(())
            };
            b.tiny(&ctx, &p, key, work).await
        });
        self.machine.sim.join(ar).await;
    }

    /// Reads all archives and writes the image, with twice their size in memory.
    async fn link(self: &Rc<Self>) {
        let bytes = *self.object_at.last().unwrap_or(&0);
        let archives = pages_of(0, bytes);
        let pages = 2 * u64::from(archives.end);
        let ld = self.spawn("ld", pages, move |b, ctx, p| async move {
            let image = b.machine.create_tmpfs(archives.end);
            for page in archives {
                b.read_file(&ctx, b.archives, page..page + 1).await?;
                for own in [2 * page, 2 * page + 1] {
                    b.machine.access(&ctx, p.heap, own, true).await?;
                }
                b.write_file(&ctx, image, page..page + 1).await?;
            }
            b.finished.set(1);
            Ok(())
        });
        self.machine.sim.join(ld).await;
    }

    /// Writes a share of a file, as unpacking the tree did; `mine` says which pages are whose.
    async fn unpack(
        &self,
        ctx: &Ctx,
        file: ObjectId,
        pages: u32,
        mine: impl Fn(u32) -> bool,
    ) -> Result<(), OpError> {
        for page in (0..pages).filter(|&p| mine(p)) {
            self.machine.write(ctx, file, page, 1, true).await?;
        }
        Ok(())
    }
}

/// The tree is unpacked by two tasks before the build: one whose memory is the memcg's, and one
/// outside of it.
async fn unpack(b: Rc<Build>, ctx: Ctx, permille: u64, inside: bool, rest: (ObjectId, u32)) {
    // Scattered evenly over the files.
    let mine = |page: u32| (u64::from(page) * 619 % 1000 < permille) == inside;
    let (headers, sources) = {
        let w = b.machine.world();
        (
            w.object(b.headers_file).pages(),
            w.object(b.sources).pages(),
        )
    };
    let done = async {
        if inside {
            b.unpack(&ctx, rest.0, rest.1, |_| true).await?;
        }
        b.unpack(&ctx, b.sources, sources, mine).await?;
        b.unpack(&ctx, b.headers_file, headers, mine).await
    }
    .await;
    if let Err(e) = done {
        b.failure.stop(e);
    }
}

/// make: `slots` jobs at a time, then the link.
async fn make(b: Rc<Build>, ctx: Ctx, before: Vec<TaskId>, slots: u64) {
    for task in before {
        b.machine.sim.join(task).await;
    }
    let workers: Vec<TaskId> = (0..slots)
        .map(|_| {
            let b = b.clone();
            b.machine
                .clone()
                .spawn("make", Affinity::Any, ctx.mm, |_, _| async move {
                    while let Some(unit) = b.take() {
                        b.job(unit).await;
                        if let Some(units) = b.directory_done(b.units[unit].directory) {
                            b.archive(units).await;
                        }
                    }
                })
        })
        .collect();
    for worker in workers {
        b.machine.sim.join(worker).await;
    }
    b.link().await;
    b.machine.sim.stop();
}

impl Build {
    fn take(&self) -> Option<usize> {
        let next = self.next.get();
        self.next.set(next + 1);
        (next < self.units.len()).then_some(next)
    }
}

pub(super) fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    Ok(vec![input.zram_host()?])
}

/// Runs the experiment once.
pub(super) fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let n = |name| input.number(name);
    let limit = input.region("limit_mib")?;
    if input.scale > 128 {
        return Err(input.too_little("pages of the memcg", limit, 128));
    }
    let effort = |n: u64| (n * input.effort_permille / 1000 / EFFORT_DIVISOR).max(1);
    let directories = effort(n("directories")?);
    let mut draw = Stream::new(input.seed, "kernel-build", 0);
    let units = jobs(effort(n("units")?), directories, &mut draw)?;
    let mut object_at = vec![0];
    for u in &units {
        let end = object_at[object_at.len() - 1] + u.object / input.scale;
        object_at.push(end);
    }
    let mut open = vec![(0, Vec::new()); directories as usize];
    for (i, u) in units.iter().enumerate() {
        let (left, all) = &mut open[u.directory as usize];
        *left += 1;
        all.push(i);
    }

    let mut rig = Rig::new(input, input.zram_host()?)?;
    let machine = rig.machine().clone();
    let (memcg, outside) = (rig.limited(limit)?, rig.memcg()?);

    let headers = Headers::new(input.scale);
    let source_pages = pages_of(0, units.len() as u64 * (SOURCE_BYTES / input.scale)).end;
    let object_pages = pages_of(0, *object_at.last().unwrap_or(&0)).end;
    let text_pages = input.region("text_mib")?;
    let permille = n("charged_permille")?.min(1000);
    // What nobody reads of the tree matters only as far as it is charged here.
    let tree = input.pages("tree_mib")? * permille / 1000;
    let read_too = u64::from(headers.pages() + source_pages) * permille / 1000;
    let rest = tree.saturating_sub(read_too) as u32;
    let build = Rc::new(Build {
        machine: machine.clone(),
        memcg,
        seed: input.seed,
        scale: input.scale,
        open_ns: input.cost("open_ns"),
        exec_ns: input.cost("exec_ns") / input.scale,
        hot_permille: input.percent("retouch_percent")? * 10,
        retouches: n("retouches")?,
        text: machine.create_file(0, text_pages as u32),
        text_pages,
        text_hot: input.region("text_hot_mib")?.min(text_pages),
        headers_file: machine.create_tmpfs(headers.pages()),
        headers,
        sources: machine.create_tmpfs(source_pages),
        objects: machine.create_tmpfs(object_pages),
        archives: machine.create_tmpfs(object_pages),
        units,
        object_at,
        next: Cell::new(0),
        done: Cell::new(0),
        open: RefCell::new(open),
        finished: Cell::new(0),
        processes: Cell::new(0),
        times: RefCell::default(),
        failure: rig.failure(),
    });
    let rest_file = machine.create_tmpfs(rest.max(1));
    let unpackers = [(memcg, true), (outside, false)].map(|(memcg, inside)| {
        let (b, mm) = (build.clone(), machine.create_mm(memcg));
        machine.spawn("tar", Affinity::Any, mm, move |_, ctx| {
            unpack(b, ctx, permille, inside, (rest_file, rest))
        })
    });
    let (b, mm, slots) = (build.clone(), machine.create_mm(memcg), n("jobs")?.max(1));
    machine.spawn("make", Affinity::Any, mm, move |_, ctx| {
        make(b, ctx, unpackers.to_vec(), slots)
    });
    // An OOM is a result: the row about it fails.
    rig.run_or_oom("kernel build")?;
    let mut r = RunResult::new(&input.variant, input.seed);
    report(&build, &rig, &mut r);
    Ok(r)
}

/// Time that counts as system time (`docs/reference/counters.md`): all CPU time but the process's own, and
/// waiting for locks.
const SYSTEM: [TimeClass; 6] = [
    TimeClass::Fault,
    TimeClass::AllocStall,
    TimeClass::Background,
    TimeClass::LockWait,
    TimeClass::Switch,
    TimeClass::Stolen,
];

fn report(b: &Build, rig: &Rig, r: &mut RunResult) {
    let times = *b.times.borrow();
    let ms = |ns: u64| ns as f64 / 1e6;
    let system: u64 = SYSTEM.iter().map(|&c| times.get(c)).sum();
    let units = b.units.len() as u64;
    let per_unit = |ns: u64| ns as f64 / 1e9 * b.scale as f64 / units as f64;
    r.set("system_ms", ms(system));
    r.set("system_s_per_unit", per_unit(system));
    r.set("user_s_per_unit", per_unit(times.get(TimeClass::User)));
    r.set("build_ms", ms(rig.now()));
    r.set(
        "system_share",
        system as f64 / (system + times.get(TimeClass::User)).max(1) as f64,
    );
    for class in SYSTEM {
        r.set(format!("system_{}_ms", class.name()), ms(times.get(class)));
    }
    r.set("units", units);
    // The link is one more, that every unit must wait for.
    r.set("units_left", units - b.done.get() + (1 - b.finished.get()));
    r.set("processes", b.processes.get());
    rig.counts(b.memcg).put("", Counter::ALL, r);
    rig.put_samples("", r);
}
