//! Curves against the bounds, against each other and against their samples.

mod gone;

use super::*;
use crate::bounds::{lru, opt, Count, Sequence};
use crate::replay::ReplaySettings;
use crate::runner::{replay_all, with_jobs, Progress, ReplayPlan, Size, Variant};
use crate::traces::{load, Op, OpKind, Trace, TraceOptions};
use coldset_engine::policies::ListKind;
use proptest::prelude::*;
use std::path::Path;

fn switches(name: &str) -> coldset_engine::Switches {
    Variant::parse(name, &[]).unwrap().switches
}

/// The trace of the repository.
fn sqlite() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/sqlite.pageops.zst");
    load(path, None, &TraceOptions::default()).unwrap()
}

/// Reads of a file.
fn reads(pages: impl Iterator<Item = u32>) -> Trace {
    let op = |page| Op {
        kind: OpKind::Pread,
        object: 0,
        task: 0,
        page,
    };
    Trace::from_ops(pages.map(op).collect())
}

fn plan(policies: &[&str], sizes: &[Size], sample: Option<&str>) -> MrcPlan {
    let names: Vec<String> = policies.iter().map(|p| (*p).to_owned()).collect();
    let sample = sample.map(|s| Sample::parse(s).unwrap());
    MrcPlan {
        policies: MrcPlan::policies(&names, sample.as_ref(), Count::Reads).unwrap(),
        sizes: sizes.to_vec(),
        points: 6,
        sample,
        count: Count::Reads,
        kernel_memory: true,
    }
}

fn run(trace: &Trace, plan: &MrcPlan) -> Curves {
    curves(trace, plan, |_| Progress::silent()).unwrap()
}

/// Every policy of the literature.
fn lists() -> Vec<&'static str> {
    ListKind::ALL.iter().map(|kind| kind.name()).collect()
}

#[test]
fn the_engines_lru_is_lru() {
    let trace = sqlite();
    let sequence = Sequence::of_trace(&trace, Count::Reads, true).unwrap();
    let all = run(&trace, &plan(&["lru", "lru-stack"], &[], None));
    assert_eq!(all.curves[0].points, all.curves[1].points);
    for point in &all.curves[0].points {
        let misses = cache::misses(&switches("lru"), &sequence, point.pages);
        assert_eq!(misses, point.misses, "{} pages", point.pages);
        let one = plan(&["lru"], &[Size::Pages(point.pages)], None);
        assert_eq!(run(&trace, &one).curves[0].points, [*point]);
    }
    assert_eq!(all.sizes.len(), 6);
    assert_eq!(*all.sizes.last().unwrap(), all.unique_pages);
}

#[test]
fn what_fits_reads_once_and_replays_need_room() {
    let sqlite = sqlite();
    let sizes = [Size::Pages(100), Size::Percent(110.0)];
    let policies = [&lists()[..], &["classic", "v5", "opt"]].concat();
    // The trace is of anonymous memory: what fits is never read.
    let as_reads = reads(sqlite.ops().iter().map(|op| op.page));
    for (trace, least) in [(&sqlite, 0), (&as_reads, sqlite.unique_pages)] {
        let all = run(trace, &plan(&policies, &sizes, None));
        for curve in &all.curves {
            let last = curve.points.last().unwrap();
            assert_eq!(last.misses, least, "{}", curve.policy);
            let replayed = ["classic", "v5"].contains(&curve.policy.as_str());
            let points = 2 - usize::from(replayed);
            assert_eq!(curve.points.len(), points, "{}", curve.policy);
        }
    }
    let absences = MrcPlan {
        count: Count::Absences,
        ..plan(&lists(), &[Size::Percent(100.0)], None)
    };
    let all = run(&sqlite, &absences);
    for curve in &all.curves {
        assert_eq!(curve.points[0].misses, sqlite.unique_pages);
    }
}

/// One trace, one size, one way of counting: one answer.
#[test]
fn a_curve_has_the_misses_of_a_replay() {
    let trace = sqlite();
    let kernels = ["classic", "base", "v5", "v612"];
    let names: Vec<String> = kernels.map(str::to_owned).into();
    for kernel_memory in [true, false] {
        let plan = MrcPlan {
            kernel_memory,
            ..plan(&kernels, &[Size::Percent(25.0), Size::Percent(60.0)], None)
        };
        let all = run(&trace, &plan);
        assert_eq!(all.kernel_pages.unwrap() > 0, kernel_memory);
        let replays = ReplayPlan {
            settings: ReplaySettings {
                kernel_memory,
                ..ReplaySettings::default()
            },
            memory: plan.sizes.clone(),
            bounds: true,
            ..ReplayPlan::new(Variant::parse_all(&names, &[]).unwrap(), Size::Pages(0))
        };
        let tables = replay_all(&trace, &replays, |_| Progress::silent()).unwrap();
        for (i, table) in tables.iter().enumerate() {
            for curve in &all.curves {
                let replayed = &table.result.variants[&curve.policy]["misses"];
                assert_eq!(replayed.mean.as_f64() as u64, curve.points[i].misses);
                let best = table.result.bounds["opt_misses"].as_f64() as u64;
                assert!(curve.points[i].misses > best, "{}", curve.policy);
            }
        }
    }
}

#[test]
fn threads_do_not_matter() {
    let trace = sqlite();
    let plan = plan(&["arc", "v5", "opt", "lru-stack"], &[], None);
    let one = with_jobs(Some(1), || run(&trace, &plan)).unwrap();
    let four = with_jobs(Some(4), || run(&trace, &plan)).unwrap();
    assert_eq!(one, four);
}

/// The stated error holds for every policy and size of the trace.
#[test]
fn exact_ratios_are_within_the_errors_of_samples() {
    let trace = sqlite();
    let trace = reads(trace.ops().iter().map(|op| op.page));
    let policies = [&lists()[..], &["opt"]].concat();
    let sizes: Vec<Size> = [5.0, 10.0, 20.0, 35.0, 60.0, 100.0]
        .map(Size::Percent)
        .into();
    let exact = run(&trace, &plan(&policies, &sizes, None));
    for rate in ["10%", "20%"] {
        let sampled = run(&trace, &plan(&policies, &sizes, Some(rate)));
        let s = sampled.sampled.unwrap();
        assert!(s.pages > exact.unique_pages * 9 / 10, "{s:?}");
        assert!(s.largest_error < 0.03, "{s:?}");
        for (e, s) in exact.curves.iter().zip(&sampled.curves) {
            assert!(s.points.len() >= 5, "{}", s.policy);
            for p in &s.points {
                let of = e.points.iter().find(|q| q.pages == p.pages).unwrap();
                let off = (p.miss_ratio - of.miss_ratio).abs();
                assert!(
                    off <= p.error.unwrap(),
                    "{} {rate}: {p:?} of {of:?}",
                    s.policy
                );
                assert!(
                    p.error.unwrap() < 0.5 * of.miss_ratio,
                    "{}: {p:?}",
                    s.policy
                );
            }
        }
    }
}

/// With room for all pages only first uses miss, which no sample needs to tell; an interval is no wider than ratios are.
#[test]
fn what_is_known_is_not_estimated() {
    let trace = reads((0..5000).map(|i| i % 300));
    let sizes = [Size::Pages(290), Size::Percent(100.0), Size::Pages(400)];
    let curves = run(&trace, &plan(&["lru", "sieve"], &sizes, Some("10%")));
    for curve in &curves.curves {
        let at = |pages| *curve.points.iter().find(|p| p.pages == pages).unwrap();
        for pages in [300, 400] {
            assert_eq!((at(pages).misses, at(pages).error), (300, Some(0.0)));
        }
        let near = at(290);
        let error = near.error.unwrap();
        assert!(
            near.miss_ratio >= 0.06 && near.miss_ratio <= 1.0,
            "{near:?}"
        );
        assert!(error <= 0.94, "{near:?}");
        assert!(near.miss_ratio + error >= 1.0 || near.miss_ratio - error <= 0.06);
    }
    let text = super::render_mrc(&curves, coldset_report::Style::Plain);
    assert!(text.contains("6.000 %"), "{text}");
    assert!(
        text.contains("of sieve, 3 of 15 such points were"),
        "{text}"
    );
    let lru = run(&trace, &plan(&["lru"], &sizes, Some("10%")));
    let text = super::render_mrc(&lru, coldset_report::Style::Plain);
    assert!(!text.contains("sieve"), "{text}");
}

/// Where the public traces are at hand: at least 19 of 20 ratios are within their errors.
#[test]
fn public_traces_are_within_the_errors_of_samples() {
    let Some(folder) = std::env::var_os("COLDSET_TRACES") else {
        eprintln!("skipped: COLDSET_TRACES does not name a folder with the public traces");
        return;
    };
    let (mut all, mut out) = (0, Vec::new());
    for name in [
        "lirs/sprite.trace.gz",
        "lirs/multi3.trace.gz",
        "cache2k/web12.trace.xz",
    ] {
        let trace = load(
            Path::new(&folder).join(name),
            None,
            &TraceOptions::default(),
        )
        .unwrap();
        let policies = [&lists()[..], &["opt"]].concat();
        let exact = run(&trace, &plan(&policies, &[], None));
        let sampled = run(&trace, &plan(&policies, &[], Some("5%")));
        for (e, s) in exact.curves.iter().zip(&sampled.curves) {
            for p in &s.points {
                let of = e.points.iter().find(|q| q.pages == p.pages).unwrap();
                all += 1;
                if (p.miss_ratio - of.miss_ratio).abs() > p.error.unwrap() {
                    out.push((name, s.policy.clone(), *p, of.miss_ratio));
                }
            }
        }
    }
    assert!(out.len() * 20 <= all, "{} of {all}: {out:?}", out.len());
}

#[test]
fn mistakes_are_named() {
    let parse = |names: &[&str], sample: Option<&str>| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let sample = sample.map(|s| Sample::parse(s).unwrap());
        MrcPlan::policies(&names, sample.as_ref(), Count::Reads).map_err(|e| e.to_string())
    };
    assert!(parse(&["arcc"], None).unwrap_err().contains("'arc'"));
    assert!(parse(&["lru", "opt", "lru"], None)
        .unwrap_err()
        .contains("twice"));
    let batched = parse(&["v5"], Some("1%")).unwrap_err();
    assert!(batched.contains("without --sample"), "{batched}");
    assert!(!parse(&[], Some("1%"))
        .unwrap()
        .iter()
        .any(|p| p.kernel().is_some()));
    let names = ["v5".to_owned()];
    let counted = MrcPlan::policies(&names, None, Count::Absences).unwrap_err();
    assert!(counted.to_string().contains("--count reads"), "{counted}");
    for bad in ["0", "0.3", "x", "-1%", "1/0", "nan"] {
        assert!(Sample::parse(bad).is_err(), "{bad}");
    }
    let rate = |t| Sample::parse(t).unwrap();
    assert_eq!(rate("1%"), rate("0.01"));
    assert_eq!(rate("1/100"), rate("0.01"));
    let none = MrcPlan {
        sizes: vec![Size::Percent(0.1)],
        ..plan(&["lru"], &[], None)
    };
    assert!(none
        .pages(50)
        .unwrap_err()
        .to_string()
        .contains("50 different"));
}

#[test]
fn forms_agree() {
    let all = run(
        &reads((0..3000u32).map(|i| i * i % 331)),
        &plan(&["lru", "v5"], &[Size::Pages(20), Size::Pages(200)], None),
    );
    let text = render_mrc(&all, coldset_report::Style::Plain);
    let json: serde_json::Value = serde_json::from_str(&mrc_json(&all)).unwrap();
    let mut csv = Vec::new();
    mrc_table(&all).csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let misses = all.curves[0].points[0].misses;
    assert_eq!(json["curves"][0]["points"][0]["misses"], misses);
    assert!(csv.contains(&format!("lru,20,{misses},")), "{csv}");
    let ratio = format!("{:.3} %", 100.0 * misses as f64 / 3000.0);
    assert!(text.contains(&ratio) && text.contains("-"), "{text}");
    let note = "too small for a replay";
    assert!(text.contains(note), "{text}");
    let large = plan(&["lru", "v5"], &[Size::Pages(200)], None);
    let none = render_mrc(&run(&reads(0..300), &large), coldset_report::Style::Plain);
    assert!(!none.contains(note), "{none}");
    let lines = all.lines();
    assert_eq!((lines[0].points.len(), lines[1].points.len()), (2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn lists_are_exact_and_not_better_than_opt(
        ids in prop::collection::vec(prop_oneof![3 => 0u64..12, 1 => 0u64..80], 1..300),
        frames in 1u32..40,
    ) {
        let sequence = Sequence::new(ids).unwrap();
        let best = opt(&sequence, frames).misses;
        for name in lists() {
            let misses = cache::misses(&switches(name), &sequence, frames.into());
            prop_assert!(misses >= best, "{}", name);
            if name == "lru" {
                prop_assert_eq!(misses, lru(&sequence, frames).misses);
            }
        }
    }
}
