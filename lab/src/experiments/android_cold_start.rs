//! Cold starts of a fixed set of apps on a phone with navigation and a voice assistant in the
//! background (`docs/reference/experiments.md#android-cold-start`).
//!
//! Counters and times cover all rounds. The first one reads everything for the first time, which is
//! no refault: so `pgpgin` falls by less than the refaults do. A start of the second round or later
//! that is slower than usual is one whose files were evicted. The lists age one to three times, all in
//! the first rounds: what is evicted later depends on what they found then, and differs from phone to
//! phone. `phones` runs several for a seed.

use super::phone::app::{sizes, App, AppSizes};
use super::phone::background::{spawn_all, ANON_MIB, FILES_MIB};
use super::phone::meter::Meter;
use super::phone::params::{self, cpu_ms, hardware, hosts};
use super::phone::{self, build, Ending, Hardware, Phone, Spread};
use crate::draw::Stream;
use crate::experiment::{Effort, Experiment, ExperimentError, ParamDoc, Quick, RunInput};
use coldset_machine::sim::{Affinity, TimeClass, WaitQueue};
use coldset_machine::{Ctx, OpError};
use coldset_report::{Band, Claim, Number, RunResult};
use std::cell::Cell;
use std::iter;
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "android-cold-start",
    doc: "cold starts of 20 apps on a phone under moderate load, zram, global reclaim",
    source: super::published::ANDROID,
    before: "base",
    after: "v5",
    extra: &[],
    effort: Effort::Part("100 rounds", 1),
    quick: Quick::share(500),
    scale: 64,
    params: PARAMS,
    costs: phone::COSTS,
    deviations: &[],
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "pgscan",
        "pgsteal",
        "pgactivate",
        "dirty_moved_up",
        "dirty_reactivated",
        "aging_runs",
        "abort_after_aging",
        "direct_reclaim",
        "zram_in",
        "zram_out",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
pub(super) const PARAMS: &[ParamDoc] = &[
    params::RAM_MIB,
    params::FIRMWARE_MIB,
    params::ZRAM_MIB,
    params::APPS,
    ParamDoc::new("rounds", "100", "rounds over all apps, before effort"),
    ParamDoc::new(
        "phones",
        "1",
        "phones that a seed stands for, with other apps each; counters are their means",
    ),
    params::CPUS,
    ParamDoc::new(
        "files_percent",
        "120",
        "all files of the experiment, per cent of what the page cache can hold",
    ),
    params::SWAPPINESS,
    params::WATERMARKS,
    params::DEVICE,
    params::FILE_SYSTEM,
    params::READ_AHEAD,
    params::TOUCHED,
    params::MEMCGS,
];

/// Use after a start, tenths of a second.
const USE_TICKS: u32 = 30;
/// Share of the files used again, per cent.
const USED_AGAIN_PERCENT: u32 = 10;
const SIZES: AppSizes = AppSizes {
    files: (90, 260),
    anon: (120, 420),
};

/// Sizes of the apps: all files together are `percent` of what the page cache can hold beside the
/// anonymous memory of one app and of everything that stays.
fn app_sizes(seed: u64, apps: u64, percent: u64, hardware: &Hardware) -> Vec<(u64, u64)> {
    let mut list = sizes(seed, apps, SIZES);
    let anon = list.iter().map(|s| s.1).sum::<u64>() / apps.max(1) + ANON_MIB;
    let user = hardware.ram_mib.saturating_sub(hardware.firmware_mib);
    let target = user.saturating_sub(anon) * percent / 100;
    let files: u64 = list.iter().map(|s| s.0).sum();
    for s in &mut list {
        s.0 = s.0 * target.saturating_sub(FILES_MIB) / files.max(1);
    }
    list
}

/// The seeds of a run's phones lie that far apart.
const NEXT_PHONE: u64 = 1 << 32;

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let phones = input.number("phones")?;
    if !(1..=1000).contains(&phones) {
        return Err(input.wrong("phones", "1 to 1000"));
    }
    let mut first = run_phone(input)?;
    let mut others = Vec::new();
    for k in 1..phones {
        let seed = input.seed.wrapping_add(k * NEXT_PHONE);
        let other = RunInput {
            seed,
            ..input.clone()
        };
        others.push(run_phone(&other)?.counters);
    }
    // Series and distributions stay those of the first phone.
    for (name, value) in &mut first.counters {
        let all: Vec<Number> = iter::once(*value)
            .chain(others.iter().map(|counters| counters[name]))
            .collect();
        *value = Number::mean(&all).expect("more than none");
    }
    Ok(first)
}

/// Runs one phone.
fn run_phone(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let hardware = hardware(input)?;
    let n = |name| input.number(name);
    let (mut rig, phone) = build(input, &hardware)?;
    let cpu = cpu_ms(input);
    let percent = n("files_percent")?;
    if !(1..=1000).contains(&percent) {
        return Err(input.wrong("files_percent", "1 to 1000 per cent"));
    }
    let mut apps = Vec::new();
    for (i, size) in (0..).zip(app_sizes(input.seed, n("apps")?.max(1), percent, &hardware)) {
        apps.push(App::install(&phone, i, size, phone.memcg()?, cpu));
    }
    let resident = (phone.memcg()?, [phone.memcg()?, phone.memcg()?]);
    let rounds = (n("rounds")? * input.effort_permille / 1000).max(1);
    let meter = Meter::new(&phone);
    let (p, m) = (phone.clone(), meter.clone());
    phone.spawn_zygote(move || {
        let mm = p.plain_mm();
        let phone = p.clone();
        p.machine
            .spawn("user", Affinity::Any, mm, move |_, ctx| async move {
                spawn_all(&phone, &ctx, resident.0, resident.1);
                phone.pause(&ctx, 5000).await;
                user(&phone, &ctx, Rc::new(apps), rounds, &m).await;
                phone.machine.sim.stop();
            });
    });
    rig.run("phone")?;
    let mut r = RunResult::new(&input.variant, input.seed);
    r.set("rounds", rounds);
    meter.result(&mut r);
    r.set("virtual_ms", rig.now() / 1_000_000);
    rig.put_samples("", &mut r);
    Ok(r)
}

/// Starts one app after the other, round by round.
async fn user(phone: &Rc<Phone>, ctx: &Ctx, apps: Rc<Vec<App>>, rounds: u64, meter: &Rc<Meter>) {
    // The published counters cover all rounds: the first one, which reads everything, included.
    meter.begin();
    for round in 0..rounds {
        phone.machine.phase(ctx, round as u32 + 1);
        for i in 0..apps.len() {
            let over = WaitQueue::new(&phone.machine.sim);
            let ended = Rc::new(Cell::new(false));
            // A cold start begins with the fork.
            let began = ctx.now();
            let process = phone.fork(ctx, apps[i].memcg);
            let (q, e) = (over.clone(), ended.clone());
            let ending = Ending::new(move || {
                e.set(true);
                q.wake_all();
            });
            let (p, a, meter) = (phone.clone(), apps.clone(), meter.clone());
            phone
                .machine
                .spawn("app", Affinity::Any, process.mm, move |_, ctx| async move {
                    let _ending = ending;
                    let mut draw = Stream::new(p.seed, "cold-start", round << 16 | i as u64);
                    let done = async {
                        let app = &a[i];
                        let running = app.map(&p, process);
                        app.start(&p, &ctx, running, &mut draw).await?;
                        meter.launched(ctx.now() - began);
                        let rest = app.pages.1 - app.anon_at_start();
                        let mut anon = Spread::new(rest, USE_TICKS);
                        let again = app.nr_runs() * USED_AGAIN_PERCENT / 100;
                        let from = draw.below(u64::from(app.nr_runs() - again).max(1)) as u32;
                        for runs in Spread::new(again, USE_TICKS) {
                            let runs = from + runs.start..from + runs.end;
                            app.use_files(&p, &ctx, running, runs).await?;
                            for e in anon.next().unwrap_or(0..0) {
                                let e = app.anon_at_start() + e;
                                p.machine.access(&ctx, running.anon, e, true).await?;
                            }
                            p.pause(&ctx, 100).await;
                        }
                        Ok(())
                    }
                    .await;
                    match done {
                        Ok(()) | Err(OpError::NoMemory | OpError::Unmapped) => {}
                        Err(e) => p.fail(e),
                    }
                    p.machine.exit_mm(&ctx, process.mm);
                });
            while !ended.get() {
                over.wait_as(TimeClass::Idle).await;
            }
            phone.pause(ctx, 1000).await;
        }
    }
}

/// Acceptance rows (`docs/reference/experiments.md#android-cold-start`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    let time = |name: &str, counter: &str, band: (f64, f64), published: (f64, f64)| {
        Claim::ratio(name, counter, before, after)
            .within(band.0, band.1)
            .published_pair(published.0, published.1)
            .unit("ms")
            .lower_is_better()
    };
    let mut rows = vec![
        time(
            "launch, mean",
            "launch_mean_ms",
            (0.92, 1.0),
            (868.0, 850.5),
        ),
        time("launch, P50", "launch_p50_ms", (0.92, 1.0), (888.0, 861.5)),
        time(
            "launch, P90",
            "launch_p90_ms",
            (0.85, 0.99),
            (1274.2, 1179.0),
        ),
        time(
            "launch, P95",
            "launch_p95_ms",
            (0.78, 0.98),
            (1399.0, 1228.0),
        ),
        Claim::derived("P95 ratio less mean ratio", move |v| {
            let ratio =
                |c: &str| Ok::<_, coldset_report::ReportError>(v.get(&a, c)? / v.get(&b, c)?);
            Ok(ratio("launch_p95_ms")? - ratio("launch_mean_ms")?)
        })
        .always(Band::at_most(-f64::EPSILON))
        .published(-0.102)
        .note("the tail gains more than the mean"),
        Claim::ratio("file refaults", "workingset_refault_file", before, after)
            .within(0.45, 0.85)
            .published_pair(27_689.0, 17_075.0)
            .unit("pages")
            .lower_is_better(),
        Claim::ratio("pgpgin", "pgpgin", before, after)
            .within(0.70, 0.95)
            .published_pair(269_224.0, 223_801.0)
            .unit("KiB")
            .lower_is_better(),
        Claim::ratio("pgpgout", "pgpgout", before, after)
            .within(0.9, 1.7)
            .published_pair(226_078.0, 308_873.0)
            .unit("KiB")
            .note("without zram, which has zram_in and zram_out"),
    ];
    for (v, published) in [(before, 237.0 / 27_689.0), (after, 498.0 / 17_075.0)] {
        let name = v.to_string();
        rows.push(
            Claim::derived(format!("anonymous / file refaults, {v}"), move |s| {
                Ok(s.get(&name, "workingset_refault_anon")?
                    / s.get(&name, "workingset_refault_file")?.max(1.0))
            })
            .direction_within(Band::at_most(0.05))
            .published(published),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_engine::presets::preset;

    #[test]
    fn every_round_starts_every_app_and_runs_repeat() {
        let input = RunInput {
            seed: 2,
            scale: 128,
            effort_permille: 20,
            params: vec![("apps".into(), "5".into()), ("phones".into(), "2".into())],
            ..EXPERIMENT.input("base", preset("base").unwrap())
        };
        let a = run(&input).unwrap();
        assert_eq!(a, run(&input).unwrap());
        let alone = [input.seed, input.seed + NEXT_PHONE].map(|seed| {
            let one = RunInput {
                seed,
                ..input.clone()
            };
            run_phone(&one).unwrap().counters["workingset_refault_file"].as_f64()
        });
        assert_ne!(alone[0], alone[1], "another phone");
        let refaults = a.counters["workingset_refault_file"].as_f64();
        assert_eq!(refaults, (alone[0] + alone[1]) / 2.0);
        // 100 rounds x 0.02 = 2.
        assert_eq!(a.counters["launches"].as_f64(), 10.0);
        let get = |name: &str| a.counters[name].as_f64();
        assert!(get("launch_p50_ms") <= get("launch_p95_ms"));
        // A start needs at least its CPU time.
        assert!(get("launch_p50_ms") > 350.0 * 0.95);
        assert!(get("workingset_refault_file") > 0.0, "a fifth too large");
    }

    #[test]
    fn files_are_a_fifth_more_than_fit() {
        let hardware = Hardware {
            ram_mib: 8192,
            firmware_mib: 1638,
            zram_mib: 8192,
            cpus: 8,
            swappiness: 60,
            watermark_scale_factor: 10,
            read_ahead_kb: 0,
            device: coldset_machine::device::DeviceKind::Ufs,
            file_system: coldset_machine::FileSystem::F2fs,
            memcgs: false,
            touched_hot: false,
        };
        let list = app_sizes(7, 20, 120, &hardware);
        let files = list.iter().map(|s| s.0).sum::<u64>() + FILES_MIB;
        let anon = list.iter().map(|s| s.1).sum::<u64>() / 20 + ANON_MIB;
        let percent = files * 100 / (8192 - 1638 - anon);
        assert!((118..=120).contains(&percent), "{percent}");
    }
}
