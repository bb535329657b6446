//! A phone under heavy load and a faulty backport of the series, which must be flagged
//! (`docs/reference/experiments.md#android-heavy`). 23 apps are started one after the other, used and kept in the background;
//! in the end the camera takes all the memory it wants at once.

mod claims;

use super::phone::app::{sizes, App, AppSizes, Running};
use super::phone::background::{spawn_all, Busy, Log, NAVIGATION_WRITES};
use super::phone::killer::{self, Kept};
use super::phone::meter::Meter;
use super::phone::params::{self, cpu_ms, hardware, hosts};
use super::phone::{build, Ending, Process, Spread};
use crate::draw::Stream;
use crate::experiment::{Effort, Experiment, ExperimentError, ParamDoc, Quick, RunInput};
use coldset_machine::sim::{Affinity, TimeClass, WaitQueue};
use coldset_machine::{Ctx, MappingFlags, MappingId, OpError};
use coldset_report::RunResult;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// The experiment. The published "before" is a vendor's 6.12. The backport counts references as 6.14
/// does, which the series does not touch: so did the kernel it was made for.
pub const EXPERIMENT: Experiment = Experiment {
    name: "android-heavy",
    doc: "23 apps kept in the background, then the camera; a faulty backport must be flagged",
    source: super::published::ANDROID,
    before: "v612+refs_model=614",
    after: "android_backport",
    extra: &["v5"],
    effort: Effort::Part("25 s for each app", 1),
    quick: Quick::WHOLE,
    scale: 64,
    params: PARAMS,
    costs: COSTS,
    deviations: &[],
    hosts: &hosts,
    run: &run,
    claims: &claims::claims,
    mechanism: &[
        "pgscan",
        "pgsteal",
        "pgscan_per_call",
        "direct_reclaim_ms",
        "direct_reclaim_mb",
        "aging_runs",
        "abort_after_aging",
        "walk_ptes",
        "killed_apps",
        "oom_kill",
        "zram_in",
        "zram_out",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    params::RAM_MIB.or("16384"),
    // 16 GiB less what was free, cached and anonymous in the published means (9,087), less zram.
    params::FIRMWARE_MIB.or("5500"),
    params::ZRAM_MIB.or("16384"),
    params::APPS.or("23"),
    ParamDoc::new("use_s", "25", "seconds that each app is used, before effort"),
    ParamDoc::new("camera_anon_mib", "1843", "anonymous memory of the camera, MiB"),
    ParamDoc::new("camera_file_mib", "350", "files of the camera, MiB"),
    params::CPUS,
    params::SWAPPINESS,
    params::WATERMARKS,
    params::DEVICE,
    params::FILE_SYSTEM,
    params::READ_AHEAD,
    params::TOUCHED.or("rate"),
    params::MEMCGS.or("on"),
    ParamDoc::new("background_reclaim_percent", "0", "share of its memory that an app is asked for by memory.reclaim when it is left; needs memcgs=on"),
];

const SIZES: AppSizes = AppSizes {
    files: (120, 420),
    anon: (250, 900),
};
/// New file pages of a video, KiB a second, and its ring buffer, MiB.
const VIDEO: (u64, u64) = (8192, 120);
/// New file pages of music, KiB a second.
const MUSIC_KIB: u64 = 1024;
/// Share of an app's memory in use while it navigates, and in the background, per cent.
const NAVIGATION_PERCENT: u64 = 15;
const BACKGROUND_PERCENT: u64 = 2;
/// What the load charges.
const COSTS: &[&str] = &[
    "app_start_min_ns",
    "app_start_max_ns",
    "launcher_cpu_ns",
    "camera_cpu_ns",
];
/// The photo, MiB.
const PHOTO_MIB: u64 = 12;

/// What an app is used for.
#[derive(Clone, Copy)]
enum Use {
    Video,
    Music,
    Navigation,
}

impl Use {
    /// The apps take turns.
    fn of(i: usize) -> Self {
        [Self::Video, Self::Music, Self::Navigation][i % 3]
    }
}

/// What the tasks of the run share.
struct Session {
    phone: Rc<super::phone::Phone>,
    meter: Rc<Meter>,
    kept: Rc<Kept>,
    apps: Vec<App>,
    use_ticks: u64,
    camera: (u32, u32),
    cpus: u32,
    /// CPU of a return to the launcher and of the camera, virtual ns.
    launcher_ns: u64,
    camera_cpu_ns: u64,
    /// Per cent of an app's memory that memory.reclaim asks for when it is left.
    reclaim_percent: u64,
    camera_ns: Cell<u64>,
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let hardware = hardware(input)?;
    let n = |name| input.number(name);
    let reclaim_percent = n("background_reclaim_percent")?;
    if reclaim_percent > 0 && !hardware.memcgs {
        let expected = "0, unless every app has a memcg (memcgs=on)";
        return Err(input.wrong("background_reclaim_percent", expected));
    }
    let (mut rig, phone) = build(input, &hardware)?;
    let cpu = cpu_ms(input);
    let mut apps = Vec::new();
    for (i, size) in (0..).zip(sizes(input.seed, n("apps")?.max(1), SIZES)) {
        apps.push(App::install(&phone, i, size, phone.memcg()?, cpu));
    }
    let resident = (phone.memcg()?, [phone.memcg()?, phone.memcg()?]);
    let session = Rc::new(Session {
        meter: Meter::new(&phone),
        kept: Rc::new(Kept::default()),
        apps,
        use_ticks: (n("use_s")? * 10 * input.effort_permille / 1000).max(1),
        camera: (
            phone.pages(n("camera_anon_mib")?),
            phone.pages(n("camera_file_mib")?),
        ),
        cpus: hardware.cpus.clamp(1, 256) as u32,
        launcher_ns: phone.ms(input.cost("launcher_cpu_ns") / 1_000_000),
        camera_cpu_ns: phone.ms(input.cost("camera_cpu_ns") / 1_000_000),
        reclaim_percent,
        camera_ns: Cell::new(0),
        phone: phone.clone(),
    });
    let (p, s) = (phone.clone(), session.clone());
    phone.spawn_zygote(move || {
        let mm = p.plain_mm();
        p.machine
            .spawn("user", Affinity::Any, mm, move |_, ctx| async move {
                let launcher = spawn_all(&s.phone, &ctx, resident.0, resident.1);
                killer::spawn(&s.phone, &s.kept);
                s.phone.pause(&ctx, 5000).await;
                match user(&s, &ctx, &launcher).await {
                    Ok(()) => s.phone.machine.sim.stop(),
                    Err(e) => s.phone.fail(e),
                }
            });
    });
    rig.run("phone")?;
    let mut r = RunResult::new(&input.variant, input.seed);
    session.meter.result(&mut r);
    r.set("camera_ms", phone.as_ms(session.camera_ns.get()));
    r.set("killed_apps", session.kept.killed.get());
    r.set("kept_apps", session.kept.len() as u64);
    r.set("virtual_ms", rig.now() / 1_000_000);
    rig.put_samples("", &mut r);
    Ok(r)
}

/// All apps, with a return to the launcher after each, then the camera.
async fn user(s: &Rc<Session>, ctx: &Ctx, launcher: &Busy) -> Result<(), OpError> {
    s.meter.begin();
    for i in 0..s.apps.len() {
        in_front(s, ctx, i).await;
        let began = ctx.now();
        launcher.sweep(&s.phone, ctx).await?;
        ctx.charge(TimeClass::User, s.launcher_ns);
        if let Some(t) = ctx.task() {
            t.settle().await;
        }
        s.meter.launched(ctx.now() - began);
        s.phone.pause(ctx, 1000).await;
    }
    camera(s, ctx).await
}

/// Starts app `i` in a process of its own and returns when it goes to the background.
async fn in_front(s: &Rc<Session>, ctx: &Ctx, i: usize) {
    let over = WaitQueue::new(&s.phone.machine.sim);
    let left = Rc::new(Cell::new(false));
    // A cold start begins with the fork.
    let began = ctx.now();
    let process = s.phone.fork(ctx, s.apps[i].memcg);
    let (q, l) = (over.clone(), left.clone());
    let ending = Ending::new(move || {
        l.set(true);
        q.wake_all();
    });
    let session = s.clone();
    let body = move |_, ctx: Ctx| async move {
        let s = session;
        let running = s.apps[i].map(&s.phone, process);
        let used = front(&s, &ctx, i, (began, running)).await;
        if used.is_ok() {
            s.kept.keep(running);
        }
        drop(ending);
        if used.is_ok() {
            shrink(&s, &ctx).await;
        }
        let done = match used {
            // Every other app is frozen once it is left.
            Ok(()) if i % 2 == 1 => background(&s, &ctx, i, running).await,
            other => other,
        };
        match done {
            Ok(()) | Err(OpError::NoMemory | OpError::Unmapped) => {}
            Err(e) => s.phone.fail(e),
        }
    };
    s.phone
        .machine
        .spawn("app", Affinity::Any, process.mm, body);
    while !left.get() {
        over.wait_as(TimeClass::Idle).await;
    }
}

/// Start, under way since `began`, and use.
async fn front(
    s: &Session,
    ctx: &Ctx,
    i: usize,
    (began, running): (u64, Running),
) -> Result<(), OpError> {
    let (phone, app) = (&s.phone, &s.apps[i]);
    let m = &phone.machine;
    let mut draw = Stream::new(phone.seed, "android-heavy", i as u64);
    app.start(phone, ctx, running, &mut draw).await?;
    s.meter.launched(ctx.now() - began);
    let ticks = s.use_ticks as u32;
    let rest = Spread::new(app.pages.1 - app.anon_at_start(), ticks);
    let kind = Use::of(i);
    let kib = match kind {
        Use::Video => VIDEO.0,
        Use::Music => MUSIC_KIB,
        Use::Navigation => 0,
    };
    // One pass over new pages: nothing is read twice.
    let stream_pages = kib * u64::from(ticks) / 40 / phone.scale + 1;
    let stream = m.create_file(0, stream_pages as u32);
    let open = coldset_machine::OpenFile::new(stream);
    let (mut owed, mut at) = (0, 0);
    let ring_pages = phone.pages(VIDEO.1);
    let ring = m.mmap(
        running.process.mm,
        m.create_anon(ring_pages),
        0,
        ring_pages,
        MappingFlags::empty(),
    );
    let mut head = 0;
    let mut log = Log::new(phone, NAVIGATION_WRITES.0, NAVIGATION_WRITES.1);
    let (files, anon) = app.pages;
    let busy = [
        Busy::new(
            phone,
            running.anon,
            anon,
            NAVIGATION_PERCENT,
            true,
            &mut draw,
        ),
        Busy::new(
            phone,
            running.map,
            files,
            NAVIGATION_PERCENT,
            false,
            &mut draw,
        ),
    ];
    for (tick, part) in rest.enumerate() {
        for e in part {
            let e = app.anon_at_start() + e;
            m.access(ctx, running.anon, e, true).await?;
        }
        let new = phone.due(kib, &mut owed).min(stream_pages as u32 - at);
        m.read(ctx, &open, at, new).await?;
        at += new;
        match kind {
            // Decoded frames go round in the ring.
            Use::Video => {
                for _ in 0..new {
                    m.access(ctx, ring, head, true).await?;
                    head = (head + 1) % ring_pages;
                }
            }
            Use::Music => {}
            Use::Navigation => {
                for b in &busy {
                    b.tick(phone, ctx, tick as u64).await?;
                }
                log.tick(phone, ctx).await?;
            }
        }
        phone.pause(ctx, 100).await;
    }
    Ok(())
}

/// Asks an app that has been left for a share of its memory.
async fn shrink(s: &Session, ctx: &Ctx) {
    if s.reclaim_percent == 0 {
        return;
    }
    let m = &s.phone.machine;
    let usage = m.world().engine.memcgs[ctx.memcg].memory().usage();
    let pages = usage * s.reclaim_percent / 100;
    // That less could be had than was asked for is no failure of the phone.
    let _ = m.write_reclaim(ctx, ctx.memcg, pages, None).await;
}

/// An app that is not frozen goes on a little.
async fn background(s: &Session, ctx: &Ctx, i: usize, running: Running) -> Result<(), OpError> {
    let mut draw = Stream::new(s.phone.seed, "android-background", i as u64);
    let (files, anon) = s.apps[i].pages;
    let busy = [
        Busy::new(
            &s.phone,
            running.anon,
            anon,
            BACKGROUND_PERCENT,
            true,
            &mut draw,
        ),
        Busy::new(
            &s.phone,
            running.map,
            files,
            BACKGROUND_PERCENT,
            false,
            &mut draw,
        ),
    ];
    for tick in 0.. {
        for b in &busy {
            b.tick(&s.phone, ctx, tick).await?;
        }
        s.phone.pause(ctx, 100).await;
    }
    Ok(())
}

/// The camera: files and anonymous memory as fast as it can, a thread on every CPU, then a photo.
async fn camera(s: &Rc<Session>, ctx: &Ctx) -> Result<(), OpError> {
    let phone = &s.phone;
    let m = &phone.machine;
    let (anon, files) = s.camera;
    let photo_pages = phone.pages(PHOTO_MIB);
    let photo = m.create_file(0, photo_pages);
    let began = ctx.now();
    let process = phone.fork(ctx, ctx.memcg);
    let flags = MappingFlags::empty();
    let map = m.mmap(process.mm, m.create_file(0, files), 0, files, flags);
    let region = m.mmap(process.mm, m.create_anon(anon), 0, anon, flags);
    let over = WaitQueue::new(&m.sim);
    let (all, q) = (Rc::new(Cell::new(false)), over.clone());
    let told = all.clone();
    let ending = Ending::new(move || {
        told.set(true);
        q.wake_all();
    });
    let threads = s.cpus;
    let memory = Spread::new(anon, threads).zip(Spread::new(files, threads));
    for (t, (anon, files)) in (0..).zip(memory) {
        let (s, ending) = (s.clone(), ending.clone());
        let body = move |_, ctx: Ctx| async move {
            let _ending = ending;
            let camera = (process, map, region);
            match camera_thread(&s, &ctx, t, camera, anon, files).await {
                Ok(()) | Err(OpError::NoMemory | OpError::Unmapped) => {}
                Err(e) => s.phone.fail(e),
            }
        };
        m.spawn("camera", Affinity::Any, process.mm, body);
    }
    drop(ending);
    while !all.get() {
        over.wait_as(TimeClass::Idle).await;
    }
    s.camera_ns.set(ctx.now() - began);
    m.write(ctx, photo, 0, photo_pages, true).await?;
    m.fsync(ctx, photo).await
}

/// The share of one thread; the first one also starts the process.
async fn camera_thread(
    s: &Session,
    ctx: &Ctx,
    t: u32,
    (process, map, region): (Process, MappingId, MappingId),
    anon: Range<u32>,
    files: Range<u32>,
) -> Result<(), OpError> {
    let phone = &s.phone;
    let m = &phone.machine;
    let steps = (files.len() as u32).div_ceil(32).max(1);
    let mut draw = Stream::new(phone.seed, "camera", 0);
    let mut startup = (t == 0).then(|| phone.startup(process, steps, &mut draw));
    let mut written = Spread::new(anon.len() as u32, steps);
    let cpu = s.camera_cpu_ns / u64::from(steps) / u64::from(s.cpus);
    for part in Spread::new(files.len() as u32, steps) {
        m.access_run(ctx, map, files.start + part.start, part.len() as u32)
            .await?;
        if let Some(startup) = &mut startup {
            startup.step(m, ctx).await?;
        }
        for e in written.next().unwrap_or(0..0) {
            m.access(ctx, region, anon.start + e, true).await?;
        }
        ctx.charge(TimeClass::User, cpu);
        ctx.maybe_settle().await;
    }
    if let Some(task) = ctx.task() {
        task.settle().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_engine::presets::preset;

    fn input(variant: &str) -> RunInput {
        RunInput {
            scale: 256,
            effort_permille: 100,
            ..EXPERIMENT.input(variant, preset(variant).unwrap())
        }
    }

    #[test]
    fn a_run_is_complete_and_repeatable() {
        let a = run(&input("v5")).unwrap();
        assert_eq!(a, run(&input("v5")).unwrap());
        let get = |name: &str| a.counters[name].as_f64();
        assert_eq!(get("launches"), 46.0, "23 apps, 23 returns to the launcher");
        assert!(get("camera_ms") > 0.0 && get("mem_free_mb") > 0.0);
        assert_eq!(get("kept_apps") + get("killed_apps"), 23.0);
        assert!(get("pgpgin") > 0.0 && get("zram_out") > 0.0);
        assert_eq!(get("oom_kill"), 0.0);
    }

    /// With one memcg the abort check of root reclaim ends nearly every visit before the budget is used
    /// up, so that it hardly matters that a fault loses the budget. With a memcg for every app each
    /// budget is small, and it does.
    #[test]
    fn a_lost_budget_shows_with_more_than_one_memcg_only() {
        let counters = |memcgs: &str, faults: &str| {
            let mut i = input("v5");
            (i.scale, i.effort_permille) = (64, 1000);
            for fault in ["mut_budget_clobber", "mut_no_decrement"] {
                i.switches.set(fault, faults).unwrap();
            }
            i.params.push(("memcgs".into(), memcgs.into()));
            let r = run(&i).unwrap();
            assert!(r.counters["direct_reclaim"].as_f64() > 0.0, "pressure");
            r.counters
        };
        let more_scanned = |memcgs: &str| {
            let per_call = |faults| counters(memcgs, faults)["pgscan_per_call"].as_f64();
            per_call("on") / per_call("off")
        };
        let (one, many) = (more_scanned("off"), more_scanned("on"));
        // Five seeds: 0.94 to 1.02, and 1.11 to 1.21.
        assert!((0.92..1.04).contains(&one), "{one}");
        assert!(many > 1.08, "{many}");
    }

    #[test]
    fn an_app_that_is_left_gives_back_what_it_is_asked_for() {
        let freed = |variant: &str, percent: &str| {
            let mut i = input(variant);
            let p = "background_reclaim_percent";
            i.params.push((p.into(), percent.into()));
            let r = run(&i).unwrap();
            let get = |name: &str| r.counters[name].as_f64();
            (get("pgsteal_proactive"), get("pgsteal_kswapd"))
        };
        let (none, alone) = freed("v5", "0");
        let (some, helped) = freed("v5", "20");
        let (more, _) = freed("v5", "40");
        assert_eq!(none, 0.0);
        // What has been asked for early kswapd need not take.
        assert!(helped < alone, "{helped} {alone}");
        assert!(more > 1.5 * some && some > 1000.0, "{some} {more}");
        // The backport gives all there is, whatever it is asked for.
        let (few, many) = (
            freed("android_backport", "20").0,
            freed("android_backport", "40").0,
        );
        assert!(few > 2.0 * more && many < 1.1 * few, "{few} {many} {more}");
        let mut i = input("v5");
        i.params.push(("memcgs".into(), "off".into()));
        i.params
            .push(("background_reclaim_percent".into(), "5".into()));
        let e = run(&i).unwrap_err().to_string();
        assert!(e.contains("memcgs=on"), "{e}");
    }
}
