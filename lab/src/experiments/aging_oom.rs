//! Aging OOM (`docs/reference/experiments.md#aging-oom`): processes read a file through mappings of their own for ever, and a
//! program with many threads fills almost all of the memcg with anonymous memory, again and again.
//! There is no swap: what must be freed is the file.

use crate::draw::Stream;
use crate::experiment::{
    Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput, MEMBERS_MAX,
};
use crate::rig::{Failure, Rig};
use coldset_engine::{Counter, MemcgId, MmId, ObjectId};
use coldset_machine::device::DeviceKind;
use coldset_machine::sim::{Affinity, TimeClass, WaitQueue};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, ReadAhead};
use coldset_report::{Band, Claim, ReportError, RunResult, SeedView};
use std::cell::Cell;
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "aging-oom",
    doc: "readers of a mapped file beside a program that fills the memcg, no swap",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[CLASSIC],
    effort: Effort::Part("128 rounds", 1),
    // Most of the time is the larger size.
    quick: Quick {
        effort_permille: 188,
        params: &[("sizes", "16g"), ("closer", "1")],
    },
    scale: 64,
    params: PARAMS,
    costs: &["script_touch_page_ns", "timer_slack_ns"],
    deviations: &[],
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "16g.zero_progress",
        "16g.abort_after_aging",
        "16g.aging_runs",
        "16g.limit_reclaim",
        "16g.walk_ptes",
        "16g.pgscan",
        "16g.pgsteal",
        "16g.pgrefill",
        "48g.zero_progress",
        "48g.abort_after_aging",
        "48g.aging_runs",
        "48g.limit_reclaim",
        "48g.walk_ptes",
        "48g.pgscan",
        "48g.pgsteal",
        "48g.pgrefill",
    ],
};

/// The third column of the published table.
const CLASSIC: &str = "classic";

/// Parameters at scale 1; sizes and times shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("limit_mib", "16384", "limit of the memcg, first size, MiB"),
    ParamDoc::new(
        "anon_mib",
        "14336",
        "anonymous memory of a round, first size, MiB",
    ),
    ParamDoc::new(
        "large_limit_mib",
        "49152",
        "limit of the memcg, second size, MiB",
    ),
    ParamDoc::new(
        "large_anon_mib",
        "45056",
        "anonymous memory of a round, second size, MiB",
    ),
    ParamDoc::new(
        "sizes",
        "both",
        "which size to run: 16g, 48g or both (the acceptance rows need both)",
    ),
    ParamDoc::new(
        "closer",
        "2",
        "the first size is at so many times the scale: with few pages, chance decides when it is killed",
    )
    .up_to(CLOSER_MAX),
    ParamDoc::new("file_mib", "8192", "size of the file, MiB"),
    ParamDoc::new(
        "readers",
        "0",
        "reading processes; 0 = 96 (legacy 64) at full size, a quarter of that below",
    ).up_to(MEMBERS_MAX),
    ParamDoc::new(
        "threads",
        "0",
        "threads that write anonymous memory; 0 = 96 at full size, 24 below",
    ).up_to(MEMBERS_MAX),
    ParamDoc::new("rounds", "128", "rounds, not scaled, before effort"),
    ParamDoc::new("pause_ms", "120", "sleep of a reader after each pass, ms"),
    ParamDoc::new(
        "wait_ms",
        "0",
        "sleep after each round, ms; 0 = 1000 (legacy 3000)",
    ),
    ParamDoc::new(
        "legacy",
        "0",
        "1 = the older tool: a load every 256 KiB, readers one page apart, 12 s of warm-up",
    ),
    ParamDoc::new("cpus", "0", "CPUs; 0 = one for each thread"),
    ParamDoc::new("read_ahead", "round", "round: a fault reads 32 pages round its own; windows: the kernel's windows of 128 KiB, which are read before they are missing (ten times the CPU time: docs/systems/reclaim-loop.md)"),
];

/// Full size from the usual scale.
const CLOSER_MAX: u64 = 64;
/// Pages a reader loads from before it looks at the clock: less than a quantum.
const RUN: u32 = 128;
/// The older tool loads one byte of so many pages.
const LEGACY_STRIDE: u32 = 64;

/// The kernel's default, KiB, and in pages. A page at a time, the readers are so slow that no variant survives.
const READ_AHEAD_KB: u32 = 128;
const READ_ROUND: u32 = 32;

/// What the tasks of one run share.
struct Load {
    slack_ns: u64,
    touch_ns: u64,
    pause_ns: u64,
    wait_ns: u64,
    stride: u32,
    file_pages: u32,
    /// Readers that have not finished their first pass.
    cold: Cell<u64>,
    warm: WaitQueue,
    /// Threads of the present round that are still writing.
    writing: Cell<u64>,
    joined: WaitQueue,
    rounds: u64,
    threads: u64,
    done: Cell<u64>,
    warm_at: Cell<u64>,
    /// Counters at the start of the present round.
    fruitless: Cell<i64>,
    failure: Failure,
    memcg: MemcgId,
}

async fn reader(m: Machine, ctx: Ctx, s: Rc<Load>, map: MappingId, start: u32, mut draw: Stream) {
    // Forked one after the other, not all at once.
    let begin = draw.below(s.pause_ns.max(1));
    ctx.sleep_until(TimeClass::Idle, ctx.now() + begin).await;
    let mut first = true;
    loop {
        let mut page = start;
        while page < s.file_pages {
            let count = if s.stride == 1 { RUN } else { 1 };
            let count = count.min(s.file_pages - page);
            let ran = m.load_run(&ctx, map, page, count);
            ctx.charge(TimeClass::User, u64::from(ran) * s.touch_ns);
            page += ran * s.stride;
            if ran < count {
                if let Err(e) = m.access(&ctx, map, page, false).await {
                    return s.failure.stop(e);
                }
                ctx.charge(TimeClass::User, s.touch_ns);
                page += s.stride;
            }
            ctx.maybe_settle().await;
        }
        if std::mem::replace(&mut first, false) {
            s.cold.set(s.cold.get() - 1);
            if s.cold.get() == 0 {
                s.warm.wake_all();
            }
        }
        let until = ctx.now() + s.pause_ns + draw.below(s.slack_ns.max(1));
        ctx.sleep_until(TimeClass::Idle, until).await;
    }
}

async fn writer(m: Machine, ctx: Ctx, s: Rc<Load>, map: MappingId, slice: (u32, u32)) {
    for page in slice.0..slice.1 {
        if let Err(e) = m.access(&ctx, map, page, true).await {
            return s.failure.stop(e);
        }
        ctx.charge(TimeClass::User, s.touch_ns);
        ctx.maybe_settle().await;
    }
    s.writing.set(s.writing.get() - 1);
    if s.writing.get() == 0 {
        s.joined.wake_all();
    }
}

/// The program that fills the memcg: maps, writes with all threads, unmaps, sleeps.
async fn filler(m: Machine, ctx: Ctx, s: Rc<Load>, region: ObjectId, pages: u32, warm: u64) {
    if warm > 0 {
        ctx.sleep_until(TimeClass::Idle, warm).await;
    } else {
        while s.cold.get() > 0 {
            s.warm.wait_as(TimeClass::Idle).await;
        }
    }
    s.warm_at.set(ctx.now());
    let slice = pages / s.threads as u32;
    for round in 1..=s.rounds {
        m.phase(&ctx, round as u32);
        s.fruitless
            .set(m.world().engine.memcgs.live(s.memcg, Counter::ZeroProgress));
        let map = m.mmap(ctx.mm, region, 0, pages, MappingFlags::empty());
        s.writing.set(s.threads);
        for t in 0..s.threads as u32 {
            let part = (t * slice, (t + 1) * slice);
            let shared = s.clone();
            m.spawn("writer", Affinity::Any, ctx.mm, move |m, ctx| {
                writer(m, ctx, shared, map, part)
            });
        }
        while s.writing.get() > 0 {
            s.joined.wait_as(TimeClass::Idle).await;
        }
        m.unmap(&ctx, map).await;
        s.done.set(s.done.get() + 1);
        ctx.sleep_until(TimeClass::Idle, ctx.now() + s.wait_ns)
            .await;
    }
    m.sim.stop();
}

fn cpus_threads(input: &RunInput) -> Result<(u64, u64), ExperimentError> {
    let n = |name| input.number(name);
    let threads = or(n("threads")?, workers(input, 96));
    Ok((or(n("cpus")?, threads), threads))
}

/// `given`, or what stands for 0.
fn or(given: u64, default: u64) -> u64 {
    if given == 0 {
        default
    } else {
        given
    }
}

/// Fewer tasks where they share less memory.
fn workers(input: &RunInput, full: u64) -> u64 {
    if input.scale == 1 {
        full
    } else {
        full / 4
    }
}

/// The two sizes: name, and the parameters of limit and anonymous memory.
const SIZES: [(&str, &str, &str); 2] = [
    ("16g", "limit_mib", "anon_mib"),
    ("48g", "large_limit_mib", "large_anon_mib"),
];

fn host(input: &RunInput, size: &str) -> Result<Host, ExperimentError> {
    let kinds = [
        ("round", ReadAhead::Fixed(READ_ROUND)),
        ("windows", ReadAhead::Windows { kb: READ_AHEAD_KB }),
    ];
    Ok(Host {
        name: format!("{size}."),
        scale: Some(input.scale),
        cpus: cpus_threads(input)?.0,
        devices: vec![DeviceKind::Ramdisk],
        read_ahead: input.word("read_ahead", &kinds, "round or windows")?,
        stop_at_oom: true,
        ..Host::default()
    })
}

/// The sizes to run.
fn sizes(input: &RunInput) -> Result<Vec<&'static str>, ExperimentError> {
    let words = [
        ("16g", (true, false)),
        ("48g", (false, true)),
        ("both", (true, true)),
    ];
    let (small, large) = input.word("sizes", &words, "16g, 48g or both")?;
    let wanted = [small, large];
    let why = "this size does not run (sizes)";
    for ((_, limit, anon), wanted) in SIZES.iter().zip(wanted) {
        if !wanted {
            input.refuse(&[limit, anon], why)?;
        }
    }
    if !small {
        input.refuse(&["closer"], why)?;
    }
    let names = SIZES.iter().zip(wanted).filter(|(_, w)| *w);
    Ok(names.map(|((name, ..), _)| *name).collect())
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    let one = |size| host(&at_its_scale(input, size)?, size);
    sizes(input)?.into_iter().map(one).collect()
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let mut r = RunResult::new(&input.variant, input.seed);
    let wanted = sizes(input)?;
    // The two sizes are machines of their own and can run side by side.
    let one = |(size, limit, anon)| {
        let mut part = RunResult::new(&input.variant, input.seed);
        if wanted.contains(&size) {
            run_one(&at_its_scale(input, size)?, size, (limit, anon), &mut part)?;
        }
        Ok::<_, ExperimentError>(part)
    };
    let (small, large) = rayon::join(|| one(SIZES[0]), || one(SIZES[1]));
    for part in [small?, large?] {
        r.counters.extend(part.counters);
        r.series.extend(part.series);
        r.histograms.extend(part.histograms);
    }
    Ok(r)
}

/// The run with the scale of this size.
fn at_its_scale(input: &RunInput, size: &str) -> Result<RunInput, ExperimentError> {
    let closer = if size == SIZES[0].0 {
        input.number("closer")?.max(1)
    } else {
        1
    };
    Ok(RunInput {
        scale: (input.scale / closer).max(1),
        ..input.clone()
    })
}

fn run_one(
    input: &RunInput,
    size: &str,
    (limit, anon): (&str, &str),
    r: &mut RunResult,
) -> Result<(), ExperimentError> {
    let n = |name| input.number(name);
    let pages = |name| Ok::<_, ExperimentError>(input.pages(name)?.max(64));
    let legacy = n("legacy")? == 1;
    let readers = or(n("readers")?, workers(input, if legacy { 64 } else { 96 }));
    let (_, threads) = cpus_threads(input)?;
    let (limit, anon, file_pages) = (pages(limit)?, pages(anon)?, pages("file_mib")?);
    if anon / threads < 64 {
        return Err(input.too_little("pages a thread", anon / threads, 512));
    }
    let ms = 1_000_000;
    let mut rig = Rig::new(input, host(input, size)?)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(limit)?;
    let shared = Rc::new(Load {
        slack_ns: input.cost("timer_slack_ns"),
        touch_ns: input.cost("script_touch_page_ns"),
        pause_ns: n("pause_ms")? * ms / input.scale,
        wait_ns: or(n("wait_ms")?, if legacy { 3000 } else { 1000 }) * ms / input.scale,
        stride: if legacy { LEGACY_STRIDE } else { 1 },
        file_pages: file_pages as u32,
        cold: Cell::new(readers),
        warm: WaitQueue::new(&machine.sim),
        writing: Cell::new(0),
        joined: WaitQueue::new(&machine.sim),
        rounds: (n("rounds")? * input.effort_permille / 1000).max(1),
        threads,
        done: Cell::new(0),
        warm_at: Cell::new(0),
        fruitless: Cell::new(0),
        failure: rig.failure(),
        memcg,
    });
    let file = machine.create_file(0, file_pages as u32);
    for i in 0..readers {
        let mm = machine.create_mm(memcg);
        let map = machine.mmap(mm, file, 0, file_pages as u32, MappingFlags::empty());
        let draw = Stream::new(input.seed, "aging-oom", i);
        let s = shared.clone();
        let start = if legacy { i as u32 } else { 0 };
        machine.spawn("reader", Affinity::Any, mm, move |m, ctx| {
            reader(m, ctx, s, map, start, draw)
        });
    }
    let mm = machine.create_mm(memcg);
    let region = machine.create_anon(anon as u32);
    let s = shared.clone();
    let warm = if legacy { 12_000 * ms / input.scale } else { 0 };
    machine.spawn("filler", Affinity::Any, mm, move |m, ctx| {
        filler(m, ctx, s, region, anon as u32, warm)
    });
    rig.run_or_oom("a reader or writer of the aging OOM")?;
    report(size, &shared, &rig, mm, limit, r);
    rig.put_samples(&format!("{size}."), r);
    Ok(())
}

fn report(size: &str, s: &Load, rig: &Rig, filler: MmId, limit: u64, r: &mut RunResult) {
    let counts = rig.counts(s.memcg);
    let w = rig.machine().world();
    let mut set = |name: &str, value: u64| r.set(format!("{size}.{name}"), value);
    let oom = w.ooms().first();
    let percent = |pages: u64| pages * 100 / limit.max(1);
    set("rounds", s.done.get());
    set("finished", u64::from(s.done.get() == s.rounds));
    set("oom_round", oom.map_or(0, |_| s.done.get() + 1));
    set("oom_usage_percent", oom.map_or(0, |o| percent(o.usage)));
    set("oom_anon_percent", oom.map_or(0, |o| percent(o.anon)));
    set(
        "oom_evictable_file_percent",
        oom.map_or(0, |o| percent(o.evictable_file)),
    );
    set("oom_failcnt", oom.map_or(0, |o| o.failcnt));
    set(
        "oom_kills_filler",
        oom.map_or(0, |o| u64::from(o.victim == filler)),
    );
    let fruitless = w.engine.memcgs.live(s.memcg, Counter::ZeroProgress) - s.fruitless.get();
    set("zero_progress_last_round", fruitless.max(0) as u64);
    let rounds = s.done.get().max(1);
    let elapsed = rig.now().saturating_sub(s.warm_at.get());
    set("round_us", elapsed / rounds / 1000);
    set(
        "refault_file_per_round",
        counts.get(Counter::RefaultFile) / rounds,
    );
    counts.put(&format!("{size}."), COUNTED, r);
}

const COUNTED: &[Counter] = &[
    Counter::RefaultFile,
    Counter::Pgfault,
    Counter::Pgmajfault,
    Counter::Pgactivate,
    Counter::Pgrefill,
    Counter::EventsMax,
    Counter::OomKill,
    Counter::ZeroProgress,
    Counter::AbortAfterAging,
    Counter::AgingRuns,
    Counter::WalkPtes,
    Counter::WalkPromoted,
    Counter::LimitReclaim,
];

/// Acceptance rows (`docs/reference/experiments.md#aging-oom`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let mut rows = Vec::new();
    for size in ["16g", "48g"] {
        for v in [CLASSIC, after] {
            let key = format!("{size}.finished");
            let row = Claim::value(format!("{size}: {v} finishes all rounds"), &key, v)
                .always(Band::exactly(1.0))
                .published("finished 128 rounds");
            rows.push(row.part(size));
        }
        let b = before.to_string();
        rows.push(
            Claim::predicate(
                format!("{size}: {before} is killed before round 41, file pages evictable"),
                move |s| killed_with_file_left(s, &b, size),
            )
            .for_seeds(4, 5)
            .published("killed after 10 to 20 rounds")
            .part(size),
        );
        let key = format!("{size}.abort_after_aging");
        rows.push(
            Claim::value(
                format!("{size}: {after} never leaves the loop for having aged"),
                &key,
                after,
            )
            .always(Band::exactly(0.0))
            .part(size),
        );
        let a = after.to_string();
        rows.push(
            Claim::derived(
                format!("{size}: file refaults a round, {after} / {CLASSIC}"),
                move |s| {
                    let key = format!("{size}.refault_file_per_round");
                    Ok(s.get(&a, &key)? / s.get(CLASSIC, &key)?.max(1.0))
                },
            )
            .direction_within(Band::at_most(1.3))
            .part(size),
        );
    }
    rows
}

/// Killed early, with at least a tenth of the limit in file pages that could have been freed, after
/// as many fruitless attempts as a charge makes.
fn killed_with_file_left(s: &SeedView<'_>, before: &str, size: &str) -> Result<bool, ReportError> {
    let get = |name: &str| s.get(before, &format!("{size}.{name}"));
    let round = get("oom_round")?;
    Ok((1.0..=40.0).contains(&round)
        && get("oom_evictable_file_percent")? >= 10.0
        && get("zero_progress_last_round")? >= 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Variant;

    fn input(scale: u64, closer: &str) -> RunInput {
        let switches = Variant::parse("base", &[]).unwrap().switches;
        RunInput {
            scale,
            params: vec![("closer".into(), closer.into())],
            ..EXPERIMENT.input("base", switches)
        }
    }

    #[test]
    fn only_the_first_size_is_closer_and_none_is_beyond_full_size() {
        let scale = |scale, closer, size| at_its_scale(&input(scale, closer), size).unwrap().scale;
        assert_eq!([scale(64, "2", "16g"), scale(64, "2", "48g")], [32, 64]);
        assert_eq!([scale(64, "0", "16g"), scale(1, "2", "16g")], [64, 1]);
        // So many tasks as at full size.
        let tasks = |scale| {
            let of_size = at_its_scale(&input(scale, "2"), "16g").unwrap();
            cpus_threads(&of_size).unwrap()
        };
        assert_eq!([tasks(2), tasks(4)], [(96, 96), (24, 24)]);
    }
}
