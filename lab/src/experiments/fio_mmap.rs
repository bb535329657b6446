//! fio, random reads through mappings (`docs/reference/experiments.md#fio-mmap`): sixteen jobs, a file each, on a RAM disk,
//! in a memcg a fifth of the size of the files. The published result is "no difference".

use crate::draw::{FioZipf, Stream};
use crate::experiment::{
    Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput, MEMBERS_MAX,
};
use crate::rig::{Counts, Failure, Rig};
use coldset_engine::{Counter, MemcgId};
use coldset_machine::device::DeviceKind;
use coldset_machine::sim::{Affinity, TimeClass};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId};
use coldset_report::{Band, Claim, RunResult};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fio-mmap",
    doc: "fio random reads through mappings of files on a RAM disk, uniform and zipf",
    source: super::published::SERIES,
    before: "base",
    after: "v5",
    extra: &[],
    effort: Effort::Part("300 s", EFFORT_DIVISOR),
    quick: Quick {
        effort_permille: 62,
        params: &[("ramp_ms", "5000")],
    },
    scale: 64,
    params: PARAMS,
    costs: &["buffered_io_page_ns"],
    deviations: &[],
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "uniform.hit_percent",
        "uniform.pgmajfault",
        "uniform.pgscan",
        "uniform.pgsteal",
        "uniform.pgactivate",
        "uniform.aging_runs",
        "zipf.hit_percent",
        "zipf.pgmajfault",
        "zipf.pgscan",
        "zipf.pgsteal",
        "zipf.pgactivate",
        "zipf.aging_runs",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("limit_mib", "10240", "limit of the memcg, uniform, MiB"),
    ParamDoc::new("zipf_limit_mib", "12288", "limit of the memcg, zipf, MiB"),
    ParamDoc::new("jobs", "16", "jobs, not scaled").up_to(MEMBERS_MAX),
    ParamDoc::new("file_mib", "3072", "size of a job's file, MiB"),
    ParamDoc::new(
        "theta_permille",
        "0",
        "zipf theta in thousandths; 0 = 1200 at full size, 1350 (scale-true) below",
    ),
    ParamDoc::new(
        "no_recency",
        "on",
        "mappings advised random: accessed bits are ignored (on, off)",
    )
    .one_of("on or off"),
    ParamDoc::new("ramp_ms", "60000", "time before measuring, ms"),
    ParamDoc::new("run_ms", "300000", "measured time, ms, before effort"),
    ParamDoc::new("cpus", "96", "CPUs, not scaled"),
];

/// The measured time is a quarter of the published one (`docs/reference/experiments.md#fio-mmap`, effort 1/4).
const EFFORT_DIVISOR: u64 = 4;

#[derive(Clone)]
enum Pages {
    Uniform(u64),
    Zipf(Rc<FioZipf>),
}

/// What the jobs of one run share.
struct Jobs {
    from: u64,
    until: u64,
    op_ns: u64,
    ops: Cell<u64>,
    left: Cell<u64>,
    failure: Failure,
    /// Counters when measuring began.
    start: OnceCell<Counts>,
    memcg: MemcgId,
}

async fn job(m: Machine, ctx: Ctx, s: Rc<Jobs>, map: MappingId, pages: Pages, mut draw: Stream) {
    let mut ops = 0;
    loop {
        let now = ctx.now();
        if now >= s.until {
            break;
        }
        if now >= s.from {
            s.start.get_or_init(|| {
                m.phase(&ctx, 1);
                Counts::of_memcg(&m, s.memcg)
            });
            ops += 1;
        }
        let page = match &pages {
            Pages::Uniform(n) => draw.below(*n),
            Pages::Zipf(z) => z.draw(&mut draw),
        };
        if let Err(e) = m.access(&ctx, map, page as u32, false).await {
            return s.failure.stop(e);
        }
        ctx.charge(TimeClass::User, s.op_ns);
        ctx.maybe_settle().await;
    }
    s.ops.set(s.ops.get() + ops);
    s.left.set(s.left.get() - 1);
    if s.left.get() == 0 {
        m.sim.stop();
    }
}

/// The two distributions, a machine each, and the parameters that limit them.
const PARTS: [(&str, &str); 2] = [("uniform", "limit_mib"), ("zipf", "zipf_limit_mib")];

fn host(input: &RunInput, dist: &str) -> Result<Host, ExperimentError> {
    Ok(Host {
        name: format!("{dist}."),
        cpus: input.number("cpus")?,
        devices: vec![DeviceKind::Ramdisk],
        ..Host::default()
    })
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    PARTS.iter().map(|(dist, _)| host(input, dist)).collect()
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let mut r = RunResult::new(&input.variant, input.seed);
    for (dist, limit) in PARTS {
        run_one(input, dist, limit, &mut r)?;
    }
    Ok(r)
}

fn run_one(
    input: &RunInput,
    dist: &str,
    limit: &str,
    r: &mut RunResult,
) -> Result<(), ExperimentError> {
    let n = |name| input.number(name);
    let pages = input.pages("file_mib")?;
    if pages < 1024 {
        return Err(input.too_little("pages a file", pages, 768));
    }
    let mut rig = Rig::new(input, host(input, dist)?)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(input.pages(limit)?)?;
    let advice = [
        ("on", MappingFlags::NO_RECENCY),
        ("off", MappingFlags::empty()),
    ];
    let flags = input.word("no_recency", &advice, "on or off")?;
    let theta = match n("theta_permille")? {
        0 if input.scale == 1 => 1.2,
        0 => 1.35,
        t => t as f64 / 1000.0,
    };
    let ms = 1_000_000;
    let from = n("ramp_ms")? * ms / input.scale;
    let window = n("run_ms")? * ms / input.scale / EFFORT_DIVISOR * input.effort_permille / 1000;
    let jobs = n("jobs")?.max(1);
    let shared = Rc::new(Jobs {
        from,
        until: from + window.max(ms),
        op_ns: input.cost("buffered_io_page_ns"),
        ops: Cell::new(0),
        left: Cell::new(jobs),
        failure: rig.failure(),
        start: OnceCell::new(),
        memcg,
    });
    let zipf = (dist == "zipf")
        .then(|| FioZipf::new(pages, theta, 0))
        .transpose()?;
    for j in 0..jobs {
        let file = machine.create_file(0, pages as u32);
        let mm = machine.create_mm(memcg);
        let map = machine.mmap(mm, file, 0, pages as u32, flags);
        let mut draw = Stream::new(input.seed, dist, j);
        let choice = match &zipf {
            Some(z) => Pages::Zipf(Rc::new(z.with_offset(draw.below(pages)))),
            None => Pages::Uniform(pages),
        };
        let s = shared.clone();
        machine.spawn("fio", Affinity::Any, mm, move |m, ctx| {
            job(m, ctx, s, map, choice, draw)
        });
    }
    rig.run("fio job")?;
    let start = shared.start.get().cloned().unwrap_or_default();
    let counts = rig.counts(memcg).since(&start);
    let ops = shared.ops.get().max(1);
    let name = |c: &str| format!("{dist}.{c}");
    r.set(
        name("throughput"),
        ops as f64 * 4096.0 / 1e6 / (window as f64 / 1e9),
    );
    r.set(
        name("hit_percent"),
        100.0 * (1.0 - counts.get(Counter::Pgmajfault) as f64 / ops as f64),
    );
    counts.put(&name(""), COUNTED, r);
    r.set(name("ops"), ops);
    rig.put_samples(&name(""), r);
    Ok(())
}

const COUNTED: &[Counter] = &[
    Counter::RefaultFile,
    Counter::RefaultAnon,
    Counter::Pgmajfault,
    Counter::Pgfault,
    Counter::Pgactivate,
    Counter::Pgrefill,
    Counter::AgingRuns,
    Counter::WalkPtes,
    Counter::LimitReclaim,
    Counter::ZeroProgress,
    Counter::OomKill,
];

/// Acceptance rows (`docs/reference/experiments.md#fio-mmap`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let mut rows = vec![
        Claim::ratio("throughput, uniform", "uniform.throughput", before, after)
            .noise_of(0.02)
            .published_pair(9196.481429, 9256.105)
            .unit("MB/s")
            .higher_is_better(),
        Claim::ratio("throughput, zipf", "zipf.throughput", before, after)
            .noise_of(0.02)
            .published_pair(75912.75, 75907.46)
            .unit("MB/s")
            .higher_is_better(),
        Claim::ratio(
            "file refaults, uniform",
            "uniform.workingset_refault_file",
            before,
            after,
        )
        .noise_of(0.05)
        .unit("pages"),
        Claim::ratio(
            "file refaults, zipf",
            "zipf.workingset_refault_file",
            before,
            after,
        )
        .noise_of(0.05)
        .unit("pages"),
    ];
    for v in [before, after] {
        rows.push(
            Claim::value(format!("hit ratio, uniform, {v}"), "uniform.hit_percent", v)
                .always(Band::around(20.8, 1.0))
                .published(20.8)
                .restates("limit_mib")
                .unit("%"),
        );
        let name = v.to_string();
        rows.push(
            Claim::derived(format!("zipf / uniform throughput, {v}"), move |s| {
                Ok(s.get(&name, "zipf.throughput")? / s.get(&name, "uniform.throughput")?.max(1.0))
            })
            .within(5.0, 12.0)
            .published(8.2),
        );
    }
    rows
}
