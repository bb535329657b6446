//! A phone (`docs/reference/experiments.md`): zygote, system processes, navigation and a voice assistant,
//! and apps that are started, used and left. Both Android experiments run on it.
//!
//! Sizes and times are given at full scale; [`Phone::pages`] and [`Phone::second`] shrink them.

pub mod app;
pub mod background;
pub mod killer;
pub mod meter;
pub mod params;

use crate::draw::Stream;
use crate::experiment::{ExperimentError, Host, RunInput, MIB};
use crate::rig::{Failure, Rig};
use coldset_engine::{MemcgId, MmId, ObjectId};
use coldset_machine::device::DeviceKind;
use coldset_machine::sim::{Affinity, TimeClass};
use coldset_machine::{
    Ctx, FileSystem, Inherited, Machine, MappingFlags, MappingId, OpError, ReadAhead, SwapConfig,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Fewest pages of a region (`docs/reference/experiments.md`).
const LEAST_PAGES: u64 = 64;
/// Framework files that every process maps, and how much of them is hot, MiB.
const FRAMEWORK_MIB: (u64, u64) = (450, 300);
/// Heap of the zygote, MiB.
const ZYGOTE_MIB: u64 = 90;
/// Share of the zygote's heap that a process writes, per cent.
const ZYGOTE_WRITTEN_PERCENT: u64 = 25;
/// Share of the hot framework that a starting process runs through, per cent; not given, assumed.
const FRAMEWORK_AT_START_PERCENT: u64 = 25;

/// The hardware, from the parameters of an experiment.
pub struct Hardware {
    /// RAM, MiB.
    pub ram_mib: u64,
    /// What kernel and firmware hold of it, MiB.
    pub firmware_mib: u64,
    /// Compressed swap, MiB.
    pub zram_mib: u64,
    /// Of the machine.
    pub cpus: u64,
    /// vm.swappiness.
    pub swappiness: u64,
    /// vm.watermark_scale_factor.
    pub watermark_scale_factor: u64,
    /// Largest window of read-ahead, KiB.
    pub read_ahead_kb: u32,
    /// Storage.
    pub device: DeviceKind,
    /// What the files are on.
    pub file_system: FileSystem,
    /// Every app has a memcg of its own.
    pub memcgs: bool,
    /// "x % touched per second" means always the same pages, not a rate.
    pub touched_hot: bool,
}

/// The phone, shared by all tasks.
pub struct Phone {
    /// The machine.
    pub machine: Machine,
    /// Virtual nanoseconds of a second.
    pub second: u64,
    /// Denominator of the scale.
    pub scale: u64,
    /// Seed of the run.
    pub seed: u64,
    framework: ObjectId,
    zygote: Cell<Option<MappingId>>,
    memcgs: bool,
    touched_hot: bool,
    failure: Failure,
}

/// A process forked from the zygote.
#[derive(Clone, Copy)]
pub struct Process {
    /// Its address space.
    pub mm: MmId,
    /// Its memcg.
    pub memcg: MemcgId,
    /// Framework files.
    pub framework: MappingId,
    /// Heap inherited from the zygote.
    pub heap: Inherited,
}

/// Rows of the table of costs that a phone's load charges.
pub const COSTS: &[&str] = &["app_start_min_ns", "app_start_max_ns"];

impl Hardware {
    /// The machine.
    pub fn host(&self, scale: u64) -> Host {
        Host {
            cpus: self.cpus,
            ram: Some(self.user_mib() * MIB / scale),
            swap: SwapConfig::Zram {
                pages: (self.zram_mib * MIB / scale).max(LEAST_PAGES) as u32,
                algorithm: "lz4".into(),
            },
            devices: vec![self.device],
            file_system: self.file_system,
            swappiness: self.swappiness.min(200) as u16,
            watermark_scale_factor: self.watermark_scale_factor,
            read_ahead: match self.read_ahead_kb {
                0 => ReadAhead::Fixed(0),
                kb => ReadAhead::Windows { kb },
            },
            ..Host::default()
        }
    }

    /// Memory that programs can have, MiB.
    pub fn user_mib(&self) -> u64 {
        self.ram_mib.saturating_sub(self.firmware_mib)
    }
}

/// Builds the phone; nothing runs on it yet.
///
/// # Errors
/// Settings that the machine cannot have, or a scale that leaves too little of it.
pub fn build(input: &RunInput, hardware: &Hardware) -> Result<(Rig, Rc<Phone>), ExperimentError> {
    let ram = hardware.user_mib() * MIB / input.scale;
    if ram < 8192 {
        return Err(input.too_little(
            "pages of RAM",
            ram,
            (hardware.user_mib() * MIB / 8192).max(1),
        ));
    }
    let rig = Rig::new(input, hardware.host(input.scale))?;
    let machine = rig.machine().clone();
    let pages = (FRAMEWORK_MIB.0 * MIB / input.scale).max(LEAST_PAGES);
    let framework = machine.create_file(0, pages as u32);
    let phone = Rc::new(Phone {
        machine,
        second: (1_000_000_000 / input.scale).max(1),
        scale: input.scale,
        seed: input.seed,
        framework,
        zygote: Cell::new(None),
        memcgs: hardware.memcgs,
        touched_hot: hardware.touched_hot,
        failure: rig.failure(),
    });
    Ok((rig, phone))
}

impl Phone {
    /// `mib` MiB in pages at this scale.
    pub fn pages(&self, mib: u64) -> u32 {
        (mib * MIB / self.scale).max(LEAST_PAGES) as u32
    }

    /// Pages of `kib` KiB a second that fall due in a tenth of one; what is left over is kept in
    /// `owed`, in KiB tenths.
    pub fn due(&self, kib_per_second: u64, owed: &mut u64) -> u32 {
        *owed += kib_per_second;
        let page = 40 * self.scale;
        let pages = *owed / page;
        *owed %= page;
        pages as u32
    }

    /// `ms` milliseconds in virtual nanoseconds.
    pub fn ms(&self, ms: u64) -> u64 {
        ms * self.second / 1000
    }

    /// Virtual nanoseconds as milliseconds of the full-size phone.
    pub fn as_ms(&self, ns: u64) -> f64 {
        ns as f64 * self.scale as f64 / 1e6
    }

    /// Sleeps for `ms` milliseconds.
    pub async fn pause(&self, ctx: &Ctx, ms: u64) {
        ctx.sleep_until(TimeClass::Idle, ctx.now() + self.ms(ms))
            .await;
    }

    /// Notes a failure that ends the run.
    pub fn fail(&self, error: OpError) {
        self.failure.stop(error);
    }

    /// A memcg for an app or for the system, if there is more than the root.
    ///
    /// # Errors
    /// If there are too many.
    pub fn memcg(&self) -> Result<MemcgId, ExperimentError> {
        if !self.memcgs {
            return Ok(MemcgId::ROOT);
        }
        let mut w = self.machine.world_mut();
        Ok(w.engine.memcg_create(MemcgId::ROOT)?)
    }

    /// Hot pages of the framework.
    pub fn hot_framework(&self) -> u32 {
        let all = self.machine.world().object(self.framework).pages();
        (u64::from(all) * FRAMEWORK_MIB.1 / FRAMEWORK_MIB.0) as u32
    }

    /// An address space that is not a child of the zygote, for drivers of the experiment.
    pub fn plain_mm(&self) -> MmId {
        self.machine.create_mm(MemcgId::ROOT)
    }

    /// Starts the zygote: it runs through the hot framework and writes its heap.
    pub fn spawn_zygote(self: &Rc<Self>, then: impl FnOnce() + 'static) {
        let mm = self.plain_mm();
        let m = &self.machine;
        let all = m.world().object(self.framework).pages();
        let framework = m.mmap(mm, self.framework, 0, all, MappingFlags::EXEC);
        let pages = self.pages(ZYGOTE_MIB);
        let heap = m.mmap(mm, m.create_anon(pages), 0, pages, MappingFlags::empty());
        self.zygote.set(Some(heap));
        let phone = self.clone();
        self.machine
            .spawn("zygote", Affinity::Any, mm, move |m, ctx| async move {
                let mut done = m
                    .access_run(&ctx, framework, 0, phone.hot_framework())
                    .await;
                for e in 0..pages {
                    if done.is_ok() {
                        done = m.access(&ctx, heap, e, true).await;
                    }
                }
                match done {
                    Ok(()) => then(),
                    Err(e) => phone.fail(e),
                }
            });
    }

    /// Forks a process from the zygote.
    pub fn fork(&self, ctx: &Ctx, memcg: MemcgId) -> Process {
        let m = &self.machine;
        let mm = m.create_mm(memcg);
        let all = m.world().object(self.framework).pages();
        let framework = m.mmap(mm, self.framework, 0, all, MappingFlags::EXEC);
        let zygote = self.zygote.get().expect("the zygote runs first");
        let heap = m.inherit(ctx, zygote, mm);
        Process {
            mm,
            memcg,
            framework,
            heap,
        }
    }

    /// What a new process does to the framework and the inherited heap, in `steps` steps.
    pub fn startup(&self, process: Process, steps: u32, draw: &mut Stream) -> Startup {
        let hot = self.hot_framework();
        let framework = u64::from(hot) * FRAMEWORK_AT_START_PERCENT / 100;
        let heap = self.pages(ZYGOTE_MIB);
        Startup {
            process,
            hot,
            heap,
            first: draw.below(u64::from(hot)) as u32,
            framework: Spread::new(framework as u32, steps),
            written: Spread::new(
                (u64::from(heap) * ZYGOTE_WRITTEN_PERCENT / 100) as u32,
                steps,
            ),
        }
    }
}

/// Deals `total` units out over steps, as evenly as whole numbers allow.
#[derive(Clone, Debug)]
pub struct Spread {
    total: u64,
    steps: u64,
    step: u64,
}

impl Spread {
    /// `total` units over `steps` steps.
    pub fn new(total: u32, steps: u32) -> Self {
        Self {
            total: total.into(),
            steps: u64::from(steps.max(1)),
            step: 0,
        }
    }
}

impl Iterator for Spread {
    type Item = std::ops::Range<u32>;

    /// The units of the next step; nothing after the last one.
    fn next(&mut self) -> Option<Self::Item> {
        if self.step == self.steps {
            return None;
        }
        let from = self.total * self.step / self.steps;
        self.step += 1;
        Some(from as u32..(self.total * self.step / self.steps) as u32)
    }
}

/// The share of a process start that every process has.
pub struct Startup {
    process: Process,
    hot: u32,
    heap: u32,
    first: u32,
    framework: Spread,
    written: Spread,
}

impl Startup {
    /// One step.
    ///
    /// # Errors
    /// As an access.
    pub async fn step(&mut self, m: &Machine, ctx: &Ctx) -> Result<(), OpError> {
        for i in self.framework.next().unwrap_or(0..0) {
            let page = (self.first + i) % self.hot;
            m.access(ctx, self.process.framework, page, false).await?;
        }
        let total = self.written.total.max(1) as u32;
        for i in self.written.next().unwrap_or(0..0) {
            // The written pages lie all over the heap.
            let page = i * (self.heap / total);
            m.access_inherited(ctx, self.process.heap, page, true)
                .await?;
        }
        Ok(())
    }
}

/// Tells a waiting task that another one is over, however it ended.
#[derive(Clone)]
pub struct Ending(Rc<RefCell<Option<Told>>>);

type Told = Box<dyn FnOnce()>;

impl Ending {
    /// Calls `f` when the last copy is dropped.
    pub fn new(f: impl FnOnce() + 'static) -> Self {
        Self(Rc::new(RefCell::new(Some(Box::new(f)))))
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if Rc::strong_count(&self.0) == 1 {
            if let Some(f) = self.0.borrow_mut().take() {
                f();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_dealt_out_evenly_and_completely() {
        let parts: Vec<_> = Spread::new(10, 4).collect();
        assert_eq!(parts, [0..2, 2..5, 5..7, 7..10]);
        assert_eq!(Spread::new(0, 3).flatten().count(), 0);
        assert_eq!(Spread::new(7, 0).next(), Some(0..7));
        assert_eq!(Spread::new(7, 0).count(), 1);
    }

    #[test]
    fn an_ending_is_told_once() {
        let told = Rc::new(Cell::new(0));
        let t = told.clone();
        let a = Ending::new(move || t.set(t.get() + 1));
        let b = a.clone();
        drop(a);
        assert_eq!(told.get(), 0);
        drop(b);
        assert_eq!(told.get(), 1);
    }
}
