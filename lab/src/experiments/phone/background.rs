//! What runs all the time: system processes, navigation, the voice assistant.

use super::{Phone, Process};
use crate::draw::Stream;
use coldset_engine::{MemcgId, ObjectId};
use coldset_machine::sim::Affinity;
use coldset_machine::{Ctx, MappingFlags, MappingId, OpError};
use std::cell::RefCell;
use std::rc::Rc;

/// System processes: server, launcher and services. The first of them is the launcher.
pub const SYSTEM_PROCESSES: u64 = 20;
/// Anonymous memory and files of all of them, MiB.
const SYSTEM_MIB: (u64, u64) = (900, 150);
/// Navigation: anonymous memory and file maps, MiB.
const NAVIGATION_MIB: (u64, u64) = (500, 200);
/// What navigation writes, KiB a second, and the size of the file it goes round in, MiB.
pub const NAVIGATION_WRITES: (u64, u64) = (2048, 32);
/// Voice assistant: anonymous memory and model, MiB.
const VOICE_MIB: (u64, u64) = (350, 150);
/// Seconds between passes over the model.
const MODEL_PASS_S: u64 = 20;
/// Anonymous memory of everything that stays, MiB.
pub const ANON_MIB: u64 = SYSTEM_MIB.0 + NAVIGATION_MIB.0 + VOICE_MIB.0 + super::ZYGOTE_MIB;
/// Files of everything that stays, MiB.
pub const FILES_MIB: u64 = super::FRAMEWORK_MIB.0 + SYSTEM_MIB.1 + NAVIGATION_MIB.1 + VOICE_MIB.1;

/// Longest run of consecutive pages touched.
const RUN: u64 = 32;

/// Which pages of busy memory are touched.
enum Choice {
    /// Always the same ones, a tenth of them every tenth of a second.
    Fixed(Vec<u32>),
    /// This many a second, other ones each time.
    Drawn(u32, RefCell<Stream>),
}

/// Memory that is in use: a share of it is touched every second, in runs of 1 to 32 pages.
pub struct Busy {
    /// The memory.
    pub mapping: MappingId,
    pages: u32,
    choice: Choice,
    write: bool,
}

impl Busy {
    /// The same `percent` of the `pages` pages of a mapping are in use all the time.
    pub fn hot(
        mapping: MappingId,
        pages: u32,
        percent: u64,
        write: bool,
        draw: &mut Stream,
    ) -> Self {
        let want = (u64::from(pages) * percent / 100) as usize;
        let mut chosen = vec![false; pages as usize];
        let mut hot = Vec::with_capacity(want);
        while hot.len() < want {
            let from = draw.below(pages.into()) as u32;
            let len = draw.between(1, RUN) as u32;
            for p in from..(from + len).min(pages) {
                if hot.len() < want && !std::mem::replace(&mut chosen[p as usize], true) {
                    hot.push(p);
                }
            }
        }
        Self {
            mapping,
            pages,
            choice: Choice::Fixed(hot),
            write,
        }
    }

    /// `percent` of the `pages` pages of a mapping are touched per second, wherever they are: what is
    /// given is a rate, not a hot part ("hot" is what the text calls the latter).
    pub fn at_rate(
        mapping: MappingId,
        pages: u32,
        percent: u64,
        write: bool,
        draw: &mut Stream,
    ) -> Self {
        let per_second = (u64::from(pages) * percent / 100) as u32;
        let own = Stream::new(draw.bits(), "phone-busy", u64::from(mapping.0));
        Self {
            mapping,
            pages,
            choice: Choice::Drawn(per_second, RefCell::new(own)),
            write,
        }
    }

    /// As [`Self::at_rate`], or as [`Self::hot`] if the phone is told to read rates that way.
    pub fn new(
        phone: &Phone,
        mapping: MappingId,
        pages: u32,
        percent: u64,
        write: bool,
        draw: &mut Stream,
    ) -> Self {
        let make = if phone.touched_hot {
            Self::hot
        } else {
            Self::at_rate
        };
        make(mapping, pages, percent, write, draw)
    }

    /// The pages of tenth `tick` of a second.
    fn part(&self, tick: u64) -> Vec<u32> {
        let share = |n: u64| (n * (tick % 10) / 10) as usize..(n * (tick % 10 + 1) / 10) as usize;
        match &self.choice {
            Choice::Fixed(hot) => hot[share(hot.len() as u64)].to_vec(),
            Choice::Drawn(per_second, draw) => {
                let want = share(u64::from(*per_second)).len();
                let mut draw = draw.borrow_mut();
                let mut part = Vec::with_capacity(want);
                while part.len() < want {
                    let from = draw.below(self.pages.into()) as u32;
                    let to = (from + draw.between(1, RUN) as u32).min(self.pages);
                    part.extend((from..to).take(want - part.len()));
                }
                part
            }
        }
    }

    /// What is touched in tenth `tick` of a second.
    ///
    /// # Errors
    /// As an access.
    pub async fn tick(&self, phone: &Phone, ctx: &Ctx, tick: u64) -> Result<(), OpError> {
        for page in self.part(tick) {
            phone
                .machine
                .access(ctx, self.mapping, page, self.write)
                .await?;
        }
        ctx.maybe_settle().await;
        Ok(())
    }

    /// All of it.
    ///
    /// # Errors
    /// As an access.
    pub async fn sweep(&self, phone: &Phone, ctx: &Ctx) -> Result<(), OpError> {
        for tick in 0..10 {
            self.tick(phone, ctx, tick).await?;
        }
        Ok(())
    }
}

/// Writes that go round in a file.
pub struct Log {
    file: ObjectId,
    pages: u32,
    at: u32,
    owed: u64,
    kib_per_second: u64,
}

impl Log {
    /// `kib_per_second` into a file of `mib` MiB.
    pub fn new(phone: &Phone, kib_per_second: u64, mib: u64) -> Self {
        let pages = phone.pages(mib);
        Self {
            file: phone.machine.create_file(0, pages),
            pages,
            at: 0,
            owed: 0,
            kib_per_second,
        }
    }

    /// What falls due in a tenth of a second.
    ///
    /// # Errors
    /// As a write.
    pub async fn tick(&mut self, phone: &Phone, ctx: &Ctx) -> Result<(), OpError> {
        for _ in 0..phone.due(self.kib_per_second, &mut self.owed) {
            phone
                .machine
                .write(ctx, self.file, self.at, 1, true)
                .await?;
            self.at = (self.at + 1) % self.pages;
        }
        Ok(())
    }
}

/// A process that stays.
struct Resident {
    process: Process,
    parts: Vec<Busy>,
    log: Option<Log>,
    model: Option<(MappingId, u32)>,
}

async fn live(phone: Rc<Phone>, ctx: Ctx, mut r: Resident) {
    let done = async {
        let mut draw = Stream::new(phone.seed, "phone-resident", u64::from(r.process.mm.0));
        let mut startup = phone.startup(r.process, 10, &mut draw);
        for _ in 0..10 {
            startup.step(&phone.machine, &ctx).await?;
        }
        for tick in 0.. {
            for part in &r.parts {
                part.tick(&phone, &ctx, tick).await?;
            }
            if let Some(log) = &mut r.log {
                log.tick(&phone, &ctx).await?;
            }
            if let Some((map, pages)) = r.model {
                if tick % (10 * MODEL_PASS_S) == 0 {
                    phone.machine.access_run(&ctx, map, 0, pages).await?;
                }
            }
            phone.pause(&ctx, 100).await;
        }
        Ok(())
    }
    .await;
    match done {
        Ok(()) => {}
        // The OOM killer has taken it: the counters show that.
        Err(OpError::NoMemory | OpError::Unmapped) => {}
        Err(e) => phone.fail(e),
    }
}

/// Fills memory once, so that what is not in use is there too.
async fn fill(phone: &Phone, ctx: &Ctx, anon: MappingId, pages: u32) -> Result<(), OpError> {
    for e in 0..pages {
        phone.machine.access(ctx, anon, e, true).await?;
    }
    ctx.maybe_settle().await;
    Ok(())
}

/// One kind of resident process.
struct Kind {
    name: &'static str,
    anon: u32,
    file: u32,
    percent: u64,
    framework_percent: u64,
    log: bool,
    model: bool,
}

fn spawn(phone: &Rc<Phone>, ctx: &Ctx, memcg: MemcgId, kind: &Kind, i: u64) -> Busy {
    let m = &phone.machine;
    let process = phone.fork(ctx, memcg);
    let mut draw = Stream::new(phone.seed, kind.name, i);
    let flags = MappingFlags::empty();
    let anon = m.mmap(process.mm, m.create_anon(kind.anon), 0, kind.anon, flags);
    let file = m.mmap(process.mm, m.create_file(0, kind.file), 0, kind.file, flags);
    let hot = phone.hot_framework();
    let mut parts = vec![
        Busy::new(phone, anon, kind.anon, kind.percent, true, &mut draw),
        Busy::hot(
            process.framework,
            hot,
            kind.framework_percent,
            false,
            &mut draw,
        ),
    ];
    if !kind.model {
        parts.push(Busy::new(
            phone,
            file,
            kind.file,
            kind.percent,
            false,
            &mut draw,
        ));
    }
    let launcher = Busy::hot(file, kind.file, 100, false, &mut draw);
    let resident = Resident {
        process,
        parts,
        log: kind
            .log
            .then(|| Log::new(phone, NAVIGATION_WRITES.0, NAVIGATION_WRITES.1)),
        model: kind.model.then_some((file, kind.file)),
    };
    let (p, pages) = (phone.clone(), kind.anon);
    m.spawn(
        kind.name,
        Affinity::Any,
        process.mm,
        move |_, ctx| async move {
            if fill(&p, &ctx, anon, pages).await.is_ok() {
                live(p, ctx, resident).await;
            }
        },
    );
    launcher
}

/// Starts everything that stays. Returns the launcher's files: what it shows at each return to it.
///
/// # Errors
/// If there are too many memcgs.
pub fn spawn_all(phone: &Rc<Phone>, ctx: &Ctx, memcg: MemcgId, others: [MemcgId; 2]) -> Busy {
    let n = SYSTEM_PROCESSES as u32;
    let system = Kind {
        name: "system",
        anon: phone.pages(SYSTEM_MIB.0) / n,
        file: phone.pages(SYSTEM_MIB.1) / n,
        percent: 40,
        framework_percent: 10,
        log: false,
        model: false,
    };
    let mut launcher = None;
    for i in 0..SYSTEM_PROCESSES {
        let busy = spawn(phone, ctx, memcg, &system, i);
        launcher.get_or_insert(busy);
    }
    let navigation = Kind {
        name: "navigation",
        anon: phone.pages(NAVIGATION_MIB.0),
        file: phone.pages(NAVIGATION_MIB.1),
        percent: 15,
        framework_percent: 5,
        log: true,
        model: false,
    };
    spawn(phone, ctx, others[0], &navigation, 0);
    let voice = Kind {
        name: "voice",
        anon: phone.pages(VOICE_MIB.0),
        file: phone.pages(VOICE_MIB.1),
        percent: 5,
        framework_percent: 5,
        log: false,
        model: true,
    };
    spawn(phone, ctx, others[1], &voice, 0);
    launcher.expect("a system process")
}
