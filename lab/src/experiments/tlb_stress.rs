//! stress-ng's vm workers (`docs/reference/experiments.md#tlb-stress`): sixteen processes sweep over four times as much
//! anonymous memory as their memcg may have, so that nearly every page reclaimed is dirty and mapped,
//! and its TLB flush is what reclaim costs other CPUs.

use crate::draw::Stream;
use crate::experiment::{
    Deviation, Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput, MEMBERS_MAX,
    MIB,
};
use crate::rig::{Counts, Failure, Rig};
use coldset_engine::{Counter, MmId};
use coldset_machine::sim::{Affinity, CpuMask, TimeClass, TIME_CLASSES};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, SwapConfig};
use coldset_report::{Band, Claim, RunResult};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tlb-stress",
    doc: "stress-ng vm: sweeps over anonymous memory four times the limit, 16 CPUs, TLB shootdowns",
    source:
        "\"mm: batch TLB flushing for dirty folios in vmscan\", Zhang Peng, linux-mm, 9 March 2026",
    before: "base",
    after: "base+tlbbatch",
    extra: &[],
    effort: Effort::Part("60 s", 1),
    quick: Quick::WHOLE,
    scale: 64,
    params: PARAMS,
    costs: &["stress_sweep_page_ns", "fork_ns"],
    deviations: DEVIATIONS,
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "unmap_pending",
        "unmap_flush_dirty",
        "unmap_flush_free",
        "unmap_flush_end",
        "unmap_flush_mm",
        "nr_tlb_remote_flush",
        "nr_tlb_remote_flush_received",
        "nr_tlb_local_flush_all",
        "nr_tlb_local_flush_one",
        "tlb_lazy_skipped",
        "tlb_stale_hits",
        "dirty_batches",
        "dirty_batched",
        "dirty_batch_locked",
        "dirty_batch_writeback",
        "dirty_batch_lru",
        "dirty_batch_mapped",
        "dirty_batch_pinned",
        "dirty_batch_clean",
        "race.dirty_batched",
        "race.rejections",
        "race.tlb_stale_hits",
        "race.pages_checked",
    ],
};

/// Parameters at scale 1; times and sizes shrink with the scale.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("limit_mib", "512", "limit of the memcg, MiB"),
    ParamDoc::new("total_mib", "2048", "memory of all processes together, MiB"),
    ParamDoc::new("procs", "16", "processes, not scaled").up_to(MEMBERS_MAX),
    ParamDoc::new("cpus", "16", "CPUs, not scaled"),
    ParamDoc::new("swap", "zram", "swap: zram, or a device of `coldset lab list`"),
    ParamDoc::new("swap_mib", "8192", "size of swap, MiB"),
    ParamDoc::new("page_cluster", "3", "vm.page-cluster: a fault reads up to 2^this pages from a swap device"),
    ParamDoc::new("sweeps", "in-place", "in-place: each pass changes a page's words in place; inversion: it verifies the page, then writes it; separate: passes that write and passes that verify").one_of("in-place, inversion or separate"),
    ParamDoc::new("batch", "31", "add and free batch of a CPU, folios, 1 to 31: so many of a process lie side by side on the lists, and one flush serves so many that are freed"),
    ParamDoc::new("time_ms", "60000", "time, ms, before effort"),
    ParamDoc::new("mask_mean_permille", "1900", "CPUs, in thousandths, that a flush of one address space hits: processes wander over so many and one"),
];

/// Pages of a bogo operation: 4,096 words of 8 bytes.
const BOGO_PAGES: u64 = 8;
/// Times that the processes move on to their next CPUs. One that reclaims moves later than the rest,
/// and two share a CPU until it does: too many moves would be a load of their own.
const MOVES: u64 = 20;
/// The run with forced races is so much shorter.
const RACE_SHARE: u64 = 8;
/// Its machine.
const RACE: &str = "race.";

const DEVIATIONS: &[Deviation] = &[
    Deviation {
        name: "resched_in_lists_enabled",
        value: 1,
        machine: "",
        why:
            "a reclaimer that sorts through a list of hundreds is no lump of time to the other CPUs",
        source: "resolution of the simulation",
    },
    Deviation {
        name: "sim_quantum_ns",
        value: 1_000,
        machine: RACE,
        why: "races are forced: tasks must meet in the middle of what they do",
        source: "resolution of the simulation",
    },
];

/// What a pass does with each page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mix {
    /// Changes its words in place: the first access is a store.
    InPlace,
    /// Verifies it, then writes it.
    Inversion,
    /// Writes it; the next pass only verifies.
    Separate,
}

/// What the processes of one run share.
struct Sweeps {
    until: u64,
    mix: Mix,
    /// How long a process stays on a CPU, ns.
    stay: u64,
    sweep_ns: u64,
    pages: u32,
    touched: Cell<u64>,
    left: Cell<u64>,
    failure: Failure,
    times: RefCell<[u64; TIME_CLASSES]>,
}

impl Sweeps {
    /// One load or store of a page. False at the end of the run.
    async fn page(&self, m: &Machine, ctx: &Ctx, map: MappingId, page: u32, write: bool) -> bool {
        if ctx.now() >= self.until {
            return false;
        }
        if let Err(e) = m.access(ctx, map, page, write).await {
            self.failure.stop(e);
            return false;
        }
        ctx.charge(TimeClass::User, self.sweep_ns);
        ctx.maybe_settle().await;
        true
    }

    fn ended(&self, m: &Machine, ctx: &Ctx) {
        if let Some(task) = ctx.task() {
            let times = task.times();
            for (sum, ns) in self.times.borrow_mut().iter_mut().zip(times.0) {
                *sum += ns;
            }
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            m.sim.stop();
        }
    }
}

/// Moves to another CPU.
async fn move_to(ctx: &Ctx, cpu: u16) {
    if let Some(task) = ctx.task() {
        task.set_affinity(CpuMask::single(cpu));
        // It moves when it is scheduled next.
        ctx.sleep_until(TimeClass::Idle, ctx.now() + 1).await;
    }
}

/// Sweeps up twice, down twice. In place and with inversion every page that is swapped in is dirty again
/// when it goes; else every other sweep only verifies, and half of the pages go as they came. All processes move on to the next of their CPUs at the same
/// times, so that each has one to itself.
async fn worker(m: Machine, ctx: Ctx, s: Rc<Sweeps>, map: MappingId, home: Vec<u16>, begin: u64) {
    let n = s.pages;
    ctx.sleep_until(TimeClass::Idle, begin).await;
    let (mut sweep, mut at) = (0, 0);
    'run: loop {
        let (even, up) = (sweep % 2 == 0, sweep % 4 < 2);
        for i in 0..n {
            let now = (ctx.now() / s.stay) as usize % home.len();
            if now != at {
                at = now;
                move_to(&ctx, home[at]).await;
            }
            let page = if up { i } else { n - 1 - i };
            let loads = s.mix == Mix::Inversion;
            let verified = !loads || s.page(&m, &ctx, map, page, false).await;
            let stores = s.mix != Mix::Separate || even;
            if !verified || !s.page(&m, &ctx, map, page, stores).await {
                break 'run;
            }
            s.touched.set(s.touched.get() + 1);
        }
        sweep += 1;
    }
    s.ended(&m, &ctx);
}

/// A second thread of a process: stores here and there, wherever the scheduler puts it.
async fn meddler(m: Machine, ctx: Ctx, s: Rc<Sweeps>, map: MappingId, mut draw: Stream) {
    loop {
        let page = draw.below(s.pages.into()) as u32;
        let write = draw.chance(2, 3);
        if !s.page(&m, &ctx, map, page, write).await {
            break;
        }
    }
    s.ended(&m, &ctx);
}

fn host(input: &RunInput, name: &str) -> Result<Host, ExperimentError> {
    let n = |name| input.number(name);
    let pages = input.pages("swap_mib")? as u32;
    if input.text("swap") == "zram" {
        input.refuse(&["page_cluster"], "zram is not read ahead from (swap=zram)")?;
    }
    Ok(Host {
        name: name.into(),
        cpus: n("cpus")?,
        batch: n("batch")?,
        page_cluster: n("page_cluster")?.min(8) as u32,
        swap: match input.text("swap") {
            "zram" => SwapConfig::Zram {
                pages,
                algorithm: "lzo-rle".into(),
            },
            device => SwapConfig::Disk {
                pages,
                device: device
                    .parse()
                    .map_err(|_| input.wrong("swap", "zram or a device of `coldset lab list`"))?,
            },
        },
        ..Host::default()
    })
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    ["", RACE]
        .map(|name| host(input, name))
        .into_iter()
        .collect()
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let mut r = RunResult::new(&input.variant, input.seed);
    for host in hosts(input)? {
        run_one(input, host, &mut r)?;
    }
    Ok(r)
}

/// How many CPUs each process wanders over, so that a reclaimer on any CPU finds `mean` thousandths
/// of others in the mask of the average process.
fn homes(procs: u64, cpus: u16, mean_permille: u64) -> Vec<Vec<u16>> {
    let n = u64::from(cpus);
    // The reclaimer's own CPU is in a mask of k with probability k/n.
    let others = 1000 * (n - 1).max(1);
    let total = ((procs * mean_permille * n + others / 2) / others).clamp(procs, procs * n);
    (0..procs)
        .map(|p| {
            let k = total / procs + u64::from(p < total % procs);
            (0..k).map(|i| ((p + i) % n) as u16).collect()
        })
        .collect()
}

fn run_one(input: &RunInput, host: Host, r: &mut RunResult) -> Result<(), ExperimentError> {
    let n = |name| input.number(name);
    let procs = n("procs")?.max(1);
    let pages = n("total_mib")? * MIB / procs / input.scale;
    let limit = input.pages("limit_mib")?;
    if pages < 64 || limit < 256 {
        return Err(input.too_little("pages a process", pages, 256));
    }
    let words = [
        ("in-place", Mix::InPlace),
        ("inversion", Mix::Inversion),
        ("separate", Mix::Separate),
    ];
    let mix = input.word("sweeps", &words, "in-place, inversion or separate")?;
    let race = host.name == RACE;
    let cpus = host.cpus.clamp(1, 256) as u16;
    let mut rig = Rig::new(input, host)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(limit)?;
    let ms = 1_000_000;
    let share = if race { RACE_SHARE } else { 1 };
    let time = n("time_ms")? * ms / input.scale * input.effort_permille / 1000 / share;
    let threads = if race { 2 * procs } else { procs };
    let shared = Rc::new(Sweeps {
        until: time.max(ms),
        mix,
        stay: (time / MOVES).max(ms / 10),
        sweep_ns: input.cost("stress_sweep_page_ns"),
        pages: pages as u32,
        touched: Cell::new(0),
        left: Cell::new(threads),
        failure: rig.failure(),
        times: RefCell::new([0; TIME_CLASSES]),
    });
    let forked = input.cost("fork_ns") * procs;
    let mut mms: Vec<MmId> = Vec::new();
    for (p, home) in homes(procs, cpus, n("mask_mean_permille")?)
        .into_iter()
        .enumerate()
    {
        let region = machine.create_anon(pages as u32);
        let mm = machine.create_mm(memcg);
        mms.push(mm);
        let map = machine.mmap(mm, region, 0, pages as u32, MappingFlags::empty());
        let s = shared.clone();
        let first = Affinity::Mask(CpuMask::single(home[0]));
        // They are forked one after the other.
        let begin = Stream::new(input.seed, "tlb-stress", p as u64).below(forked.max(1));
        machine.spawn("stress-ng-vm", first, mm, move |m, ctx| {
            worker(m, ctx, s, map, home, begin)
        });
        if race {
            let s = shared.clone();
            let draw = Stream::new(input.seed, "tlb-stress-race", p as u64);
            machine.spawn("meddler", Affinity::Any, mm, move |m, ctx| {
                meddler(m, ctx, s, map, draw)
            });
        }
    }
    rig.run("stress-ng vm worker")?;
    let counts = rig.vmstat();
    if race {
        // Every page, in memory or in swap, holds what was stored last; loads have looked before.
        machine.world().check();
        r.set("race.pages_checked", pages * procs);
        r.set("race.dirty_batched", counts.get(Counter::DirtyBatched));
        r.set("race.tlb_stale_hits", counts.get(Counter::TlbStaleHits));
        let rejections: u64 = REJECTIONS.iter().map(|&c| counts.get(c)).sum();
        r.set("race.rejections", rejections);
    } else {
        let w = machine.world();
        let masks: u64 = mms.iter().map(|&m| u64::from(w.cpumask(m).count())).sum();
        drop(w);
        let mask = masks as f64 / procs as f64;
        report(&shared, &counts, mask, time.max(ms), r);
        rig.put_samples("", r);
    }
    Ok(())
}

/// What `ns` of sweeping have brought; the address spaces were on `mask` CPUs each.
fn report(s: &Sweeps, counts: &Counts, mask: f64, ns: u64, r: &mut RunResult) {
    let touched = s.touched.get();
    let seconds = ns as f64 / 1e9;
    r.set("bogo_ops", touched as f64 / BOGO_PAGES as f64 / seconds);
    let shootdowns = counts.get(Counter::TlbRemoteFlushReceived);
    let ipis = counts.get(Counter::CallIpis);
    let (scan, steal) = (
        counts.get(Counter::PgscanAnon),
        counts.get(Counter::PgstealAnon),
    );
    r.set("tlb_shootdowns", shootdowns);
    r.set("call_ipis", ipis);
    r.set("pgscan_anon", scan);
    r.set("pgsteal_anon", steal);
    let per = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    r.set("shootdowns_per_steal", per(shootdowns, steal));
    r.set("ipis_per_shootdown", per(ipis, shootdowns));
    r.set("steal_per_scan", per(steal, scan));
    r.set("steals_per_page", per(steal, touched));
    r.set("mask_cpus", mask);
    let times = s.times.borrow();
    let all: u64 = times.iter().sum();
    for class in TimeClass::ALL {
        let ns = times[class as usize];
        if ns > 0 {
            r.set(
                format!("time.{}_percent", class.name()),
                100.0 * per(ns, all),
            );
        }
    }
    for &c in COUNTED.iter().chain(&REJECTIONS) {
        r.set(c.name(), counts.get(c));
    }
}

const COUNTED: &[Counter] = &[
    Counter::Pgfault,
    Counter::Pgmajfault,
    Counter::Pswpin,
    Counter::Pswpout,
    Counter::SwapRa,
    Counter::SwapRaHit,
    Counter::RefaultAnon,
    Counter::AgingRuns,
    Counter::ZeroProgress,
    Counter::OomKill,
    Counter::UnmapPending,
    Counter::UnmapFlushDirty,
    Counter::UnmapFlushFree,
    Counter::UnmapFlushEnd,
    Counter::UnmapFlushMm,
    Counter::TlbRemoteFlush,
    Counter::TlbRemoteFlushReceived,
    Counter::TlbLocalFlushAll,
    Counter::TlbLocalFlushOne,
    Counter::TlbLazySkipped,
    Counter::TlbStaleHits,
    Counter::DirtyBatches,
    Counter::DirtyBatched,
];

/// Folios turned away when a batch is locked again.
const REJECTIONS: [Counter; 6] = [
    Counter::DirtyBatchLocked,
    Counter::DirtyBatchWriteback,
    Counter::DirtyBatchLru,
    Counter::DirtyBatchMapped,
    Counter::DirtyBatchPinned,
    Counter::DirtyBatchClean,
];

/// Where it is shown that the published interrupts wait longer than a CPU's do.
const INTERRUPTS: &str = "docs/acceptance.md#tlb-stress-interrupts";

/// Acceptance rows (`docs/reference/experiments.md#tlb-stress`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    vec![
        Claim::ratio("bogo operations", "bogo_ops", before, after)
            .within(1.10, 1.45)
            .published_pair(28238.63, 35833.97)
            .unit("ops/s")
            .higher_is_better(),
        Claim::ratio("TLB shootdowns", "tlb_shootdowns", before, after)
            .within(0.20, 0.45)
            .published_pair(55_428_953.0, 17_621_697.0)
            .lower_is_better(),
        Claim::ratio("function-call interrupts", "call_ipis", before, after)
            .within(0.30, 0.60)
            .published_pair(34_073_695.0, 14_498_768.0)
            .lower_is_better()
            .cannot(INTERRUPTS),
        Claim::ratio("pgscan_anon", "pgscan_anon", before, after)
            .within(1.0, 1.35)
            .published_pair(52_856_224.0, 60_252_894.0)
            .unit("pages"),
        Claim::ratio("pgsteal_anon", "pgsteal_anon", before, after)
            .within(1.0, 1.35)
            .published_pair(29_004_962.0, 34_054_753.0)
            .unit("pages"),
        Claim::value(
            "shootdowns per stolen page, before",
            "shootdowns_per_steal",
            before,
        )
        .within(1.5, 2.3)
        .published(1.911)
        .restates("mask_mean_permille"),
        Claim::value(
            "shootdowns per stolen page, after",
            "shootdowns_per_steal",
            after,
        )
        .within(0.40, 0.65)
        .published(0.517)
        .lower_is_better(),
        Claim::ratio("stolen per scanned page", "steal_per_scan", before, after)
            .within(0.9, 1.1)
            .published_pair(0.549, 0.565),
        Claim::value("forced races: folios turned away", "race.rejections", after)
            .always(Band::at_least(1.0)),
        Claim::predicate(
            "forced races: every page holds what was stored last",
            move |v| {
                let mut all = true;
                for name in [&b, &a] {
                    all &= v.get(name, "race.pages_checked")? > 0.0;
                    all &= v.get(name, "oom_kill")? == 0.0;
                }
                Ok(all)
            },
        )
        .always(Band::exactly(1.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_come_out_at_the_mean() {
        let h = homes(16, 16, 1900);
        let total: usize = h.iter().map(Vec::len).sum();
        assert_eq!(total, 32, "16 * 1.9 * 16/15, rounded");
        assert_eq!(h[15], [15, 0]);
        assert!(homes(16, 16, 0).iter().all(|h| h.len() == 1));
        assert!(homes(2, 1, 5000).iter().all(|h| h == &[0]));
    }

    fn tiny(variant: &str, swap: &str) -> RunResult {
        let switches = crate::runner::Variant::parse(variant, &[])
            .unwrap()
            .switches;
        let input = RunInput {
            effort_permille: 100,
            params: vec![("swap".into(), swap.into())],
            ..EXPERIMENT.input(variant, switches)
        };
        run(&input).unwrap()
    }

    #[test]
    fn races_are_met_and_survived_in_every_form() {
        for mode in ["v1", "v2", "8", "list", "locked"] {
            let r = tiny(&format!("base+batched_dirty_flush={mode}"), "ramdisk");
            let get = |name: &str| r.counters[name].as_f64();
            assert_eq!(get("race.pages_checked"), 8192.0, "{mode}");
            assert!(get("race.dirty_batched") > 1000.0, "{mode}");
            assert_eq!(get("race.rejections") > 0.0, mode != "locked", "{mode}");
        }
    }

    /// What Linux 7.2 does and 6.18 does not: `docs/systems/tlb-batching.md`.
    #[test]
    fn stores_that_drain_mix_the_processes_of_a_batch() {
        let targets = |cached: &str| {
            let variant = format!("base+tlbbatch+swap_cache_always={cached}");
            let r = tiny(&variant, "zram");
            r.counters["shootdowns_per_steal"].as_f64()
        };
        let (mixed, runs) = (targets("on"), targets("off"));
        assert!(mixed > 1.7 * runs, "{mixed} {runs}");
    }

    #[test]
    fn a_larger_batch_takes_fewer_flushes() {
        let flushes = |mode: &str| {
            let r = tiny(&format!("v5+batched_dirty_flush={mode}"), "zram");
            r.counters["unmap_flush_dirty"].as_f64() / r.counters["pgsteal_anon"].as_f64()
        };
        let [one, eight, full] = ["1", "8", "31"].map(flushes);
        assert!(
            one > 4.0 * eight && eight > 2.0 * full,
            "{one} {eight} {full}"
        );
    }
}
