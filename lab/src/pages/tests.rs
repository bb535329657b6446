use super::variants::{changes, difference};
use super::*;
use crate::runner::{replay_all, Progress, ReplayPlan, Size, SwapSpec, Variant};
use crate::traces::{Op, OpKind, Trace};
use coldset_report::html::Page;

#[test]
fn what_differs_is_said_in_the_words_of_patches_and_switches() {
    let variants = Variant::parse_all(&["base", "v5"], &[]).unwrap();
    let list = changes(&variants);
    assert!(
        list.iter()
            .any(|p| p.starts_with("Patch ") && p.contains("smaller_batch: off \u{2192} on")),
        "{list:?}"
    );
}

#[test]
fn all_parameters_are_listed_with_their_marks() {
    let mut used = coldset_machine::Params::default();
    used.set("nvme_read_lat_ns", 12_345).unwrap();
    let page = Page {
        sections: vec![costs(&used)],
        ..Page::default()
    };
    let page = page.render();
    for info in used.describe() {
        assert!(page.contains(&format!("<td class=\"code\">{}</td>", info.name)));
    }
    assert!(page.contains("12,345") && page.contains("changed for this run; the default is"));
    assert!(page.contains("1 changed for this run."));
}

/// Random uses of `pages` pages, each twice as often as the one above it.
fn uses(kind: OpKind, pages: u32) -> Trace {
    let mut state = 1u64;
    let op = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (a, b) = ((state >> 33) as u32 % pages, (state >> 17) as u32 % pages);
        Op {
            kind,
            object: 0,
            task: 0,
            page: a.min(b),
        }
    };
    Trace::from_ops((0..20_000).map(op).collect())
}

/// The summary of a replay.
fn summary_of(trace: &Trace, variants: &[&str], memory: &[Size], swap: SwapSpec) -> String {
    let variants = Variant::parse_all(variants, &[]).unwrap();
    let mut plan = ReplayPlan::new(variants.clone(), Size::Percent(50.0));
    plan.memory = memory.to_vec();
    plan.swap = Some(swap);
    plan.settings.kernel_memory = false;
    let tables = replay_all(trace, &plan, |_| Progress::silent()).unwrap();
    let page = replay("t", "", &variants, &tables, "{}".into(), "c");
    let (_, rest) = page.split_once("<section id=\"summary\">").unwrap();
    rest.split_once("</section>").unwrap().0.to_owned()
}

/// Under a limit where both are killed there is nothing equal about them.
#[test]
fn the_headline_of_a_replay_says_who_was_killed() {
    let trace = uses(OpKind::AnonWrite, 1000);
    let sizes = [Size::Percent(40.0), Size::Percent(110.0)];
    let said = summary_of(&trace, &["base", "v5"], &sizes, SwapSpec::None);
    let headline = "<p class=\"headline\">base is killed for lack of memory under 1 of 2 limits, v5 is killed for lack of memory \
                    under 1 of 2 limits. v5 misses as often as base.</p>";
    assert!(said.contains(headline), "{said}");
    // No page can leave memory: exact LRU and OPT would be killed as well.
    assert!(!said.contains("exact LRU"), "{said}");
    let said = summary_of(&trace, &["base", "v5"], &sizes[..1], SwapSpec::None);
    let headline = "<p class=\"headline\">base is killed for lack of memory, v5 is killed for lack of memory.</p>";
    assert!(said.contains(headline), "{said}");
}

#[test]
fn the_headline_of_a_replay_says_where_it_is_the_other_way_round() {
    let trace = uses(OpKind::Pread, 1000);
    let sizes = [20.0, 80.0, 95.0].map(Size::Percent);
    let said = summary_of(&trace, &["arc", "v5"], &sizes, SwapSpec::None);
    assert!(
        said.contains("v5 misses less than arc with memory 7"),
        "{said}"
    );
    let count = "Likewise under 2 of 3 limits, the other way round under 1.</p>";
    assert!(said.contains(count), "{said}");
    // Fewer misses do not come of what locks and loops take.
    assert!(
        said.contains("Why v5 misses less: fewer pages are needed again"),
        "{said}"
    );
    let (_, why) = said.split_once("Why v5").unwrap();
    let (why, _) = why.split_once(". The counters").unwrap();
    assert!(!why.contains("lock") && !why.contains("batches"), "{why}");
}

#[test]
fn equal_variants_are_called_so() {
    let variants = Variant::parse_all(&["v5", "v5+smaller_batch=on"], &[]).unwrap();
    let (heading, list) = difference(&variants).unwrap();
    assert!(list.is_empty());
    assert_eq!(
        heading,
        "v5 and v5+smaller_batch=on are the same set of switches."
    );
}

/// Of 32 pages read ahead of each request most are read in vain: more than one for each access, and that is no per cent.
#[test]
fn more_reads_than_accesses_are_called_so() {
    let trace = uses(OpKind::Pread, 1000);
    let variants = Variant::parse_all(&["classic", "v5"], &[]).unwrap();
    let mut plan = ReplayPlan::new(variants.clone(), Size::Percent(20.0));
    plan.memory = vec![Size::Percent(20.0)];
    plan.settings.read_ahead = coldset_machine::ReadAhead::Fixed(32);
    plan.settings.kernel_memory = false;
    let tables = replay_all(&trace, &plan, |_| Progress::silent()).unwrap();
    let ratio = |v: &str| tables[0].result.variants[v]["miss_ratio"].mean.as_f64();
    assert!(ratio("v5") > 1.0 && ratio("classic") > 1.0);
    let page = replay("t", "", &variants, &tables, "{}".into(), "c");
    let headline = format!(
        "{:.2} per access against {:.2} per access (",
        ratio("v5"),
        ratio("classic")
    );
    assert!(page.contains(&headline), "{headline}");
    // And the marks of the chart stand where they are.
    let chart = &crate::charts::replay(&tables)[0];
    let rows = chart.spec["data"]["values"].as_str().unwrap();
    for variant in ["v5", "classic"] {
        let row = rows
            .lines()
            .find(|r| r.ends_with(&format!("{variant},mark")))
            .unwrap();
        let drawn: f64 = row.split(',').nth(1).unwrap().parse().unwrap();
        assert!((drawn / 100.0 / ratio(variant) - 1.0).abs() < 1e-3, "{row}");
    }
}
