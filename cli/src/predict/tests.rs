use super::near::LIMITS;
use super::setting::{pages_around, zram_of};
use super::times::times;
use super::{beside, limits_near, nearby, Beside, Look, Setting, PAGE};
use crate::args::RunsArgs;
use coldset_lab::experiment::DirtySettings;
use coldset_lab::replay::Clock;
use coldset_lab::runner::{Size, SwapSpec};
use coldset_lab::traces::{Event, Op, OpKind, Step, StepKind, Trace};
use coldset_machine::device::DeviceKind;
use coldset_machine::FileSystem;
use coldset_play::machine::Description;
use indexmap::IndexMap;
use serde_json::json;
use std::path::Path;

const HALF: Size = Size::Percent(50.0);

/// Anonymous memory and a file, in turn and several times round.
fn trace() -> Trace {
    let op = |kind, object, page| Op {
        kind,
        object,
        task: 0,
        page,
    };
    let round = |_| {
        (0..1000).flat_map(move |page| [op(OpKind::AnonWrite, 0, page), op(OpKind::Pread, 1, page)])
    };
    Trace::from_ops((0..4).flat_map(round).collect())
}

fn predicted(setting: Setting) -> Beside {
    beside(
        &trace(),
        &["v618".into()],
        setting,
        IndexMap::new(),
        Look::default(),
    )
    .unwrap()
}

fn counter(b: &Beside, name: &str) -> f64 {
    b.table.result.variants["v618"][name].mean.as_f64()
}

fn machine(swap: &[(&str, u64)]) -> Description {
    let mut here = Description::here(Path::new("/"));
    here.swap = swap.iter().map(|(n, kib)| ((*n).into(), *kib)).collect();
    here.swappiness = Some(60);
    here.fault_around = Some(4096);
    here
}

#[test]
fn a_prediction_follows_the_swap_of_the_run() {
    let with = predicted(Setting::of_guest(HALF, 1000, 60, 4096));
    assert!(counter(&with, "pswpout") > 100.0 && with.lines().len() == 1);
    // A thousand pages of anonymous memory fit into a limit of as many only without the kernel's own.
    let without = predicted(Setting::of_guest(HALF, 0, 60, 4096));
    assert_eq!(counter(&without, "events_oom_kill"), 1.0);
    let lines = without.lines();
    assert!(
        lines[0].contains("no swap") && lines[1].starts_with("v618: out of memory at access "),
        "{lines:?}"
    );
    assert!(without.json()["ended"]["v618"].is_string());
}

#[test]
fn limits_nearby_are_predictions_of_their_own() {
    let setting = Setting::of_guest(HALF, 1000, 60, 4096);
    let near = nearby(&trace(), "v618", &setting).unwrap();
    let limits = limits_near(1000, LIMITS);
    assert_eq!(limits, [996, 997, 998, 999, 1000, 1001, 1002, 1003, 1004]);
    assert_eq!(near.len(), limits.len());
    for (limit, column) in limits.into_iter().zip(&near) {
        let alone = Setting {
            memory: Size::Pages(limit),
            ..setting.clone()
        };
        assert_eq!(&predicted(alone).table.result.variants["v618"], column);
    }
}

#[test]
fn each_run_is_predicted_with_the_memory_that_it_had() {
    let run = |free: u64, ms: u64| {
        let zone = json!({"free": free, "kept": 0, "min": 8, "low": 10, "high": 12});
        let counters = json!({"used_pages": 0, "pgscan": 1});
        let point = json!({"zones": [zone], "counters": counters, "access": 100, "time_ms": ms});
        json!({"zones": [zone], "points": [point]})
    };
    let runs = RunsArgs {
        repeat: 2,
        near: None,
    };
    let setting = Setting::of_guest(HALF, 2000, 60, 4096).limited_by_machine();
    let of = |played| {
        let setting = setting.clone().on_machine_of(&played);
        setting.at_times_of(&played, runs)
    };
    let setting = of(json!({"runs": [run(1200, 10), run(1800, 30)]}));
    let near = nearby(&trace(), "v618", &setting).unwrap();
    let stolen: Vec<f64> = near.iter().map(|c| c["pgsteal"].mean.as_f64()).collect();
    // The runs take turns.
    let turns = stolen.windows(2).map(|w| w[0] > w[1]);
    assert!(
        turns.eq([true, false].into_iter().cycle().take(8)),
        "{stolen:?}"
    );
    let json = predicted(setting).json();
    assert_eq!(json["room"]["pages"], 1500);
    assert_eq!(json["rooms"][1]["pages"], 1800);
    assert_eq!(json["clocks"], json!(["0:0,100:0.01", "0:0,100:0.03"]));
    // At the times of others, where somebody was killed.
    let mut killed = json!({"runs": [run(1200, 10), run(1800, 30)]});
    killed["runs"][0]["killed_after"] = json!(77);
    let json = predicted(of(killed)).json();
    assert_eq!(json["clocks"], json!(["0:0,100:0.03", "0:0,100:0.03"]));
}

#[test]
fn a_prediction_follows_swappiness() {
    // Hardly more than the anonymous memory needs.
    let memory = Size::Percent(53.0);
    let swapped = |n| {
        let setting = Setting::of_guest(memory, 1000, n, 4096);
        counter(&predicted(setting), "pswpout")
    };
    let (much, little) = (swapped(200), swapped(10));
    assert!(much > little + 50.0, "{much} and {little}");
}

#[test]
fn a_prediction_is_of_the_machine() {
    let of = |swap: &[(&str, u64)], most| Setting::of_machine(HALF, &machine(swap), most).swap;
    assert_eq!(of(&[], None), SwapSpec::None);
    assert_eq!(of(&[("/dev/zram0", 4000)], None), zram_of(1000));
    assert_eq!(of(&[("/dev/zram0", 4000)], Some(40 * PAGE)), zram_of(40));
    assert_eq!(of(&[("/dev/zram0", 4000)], Some(0)), SwapSpec::None);
    let disk = SwapSpec::Disk(Size::Pages(1500), DeviceKind::Nvme);
    assert_eq!(of(&[("/dev/sda2", 4000), ("/swap", 2000)], None), disk);
    let mixed = Setting::of_machine(HALF, &machine(&[("/dev/zram0", 40), ("/swap", 20)]), None);
    assert_eq!((mixed.swap, mixed.without.len()), (zram_of(15), 1));
}

#[test]
fn settings_that_are_not_read_are_the_usual_ones() {
    let mut here = machine(&[]);
    (here.swappiness, here.fault_around) = (Some(150), Some(16 << 10));
    let plan = Setting::of_machine(HALF, &here, None).plan(&trace(), Vec::new());
    assert_eq!(
        (plan.settings.swappiness, plan.settings.fault_around),
        (150, 4)
    );
    (here.swappiness, here.fault_around) = (None, None);
    let setting = Setting::of_machine(HALF, &here, None);
    let plan = setting.plan(&trace(), Vec::new());
    assert_eq!(
        (plan.settings.swappiness, plan.settings.fault_around),
        (60, 16)
    );
    assert!(setting.assumed);
}

#[test]
fn what_the_lab_cannot_take_is_said() {
    let mut setting = Setting::of_guest(HALF, 1000, 60, 4096);
    setting.leave_out("memory.high");
    let one = predicted(setting.clone());
    assert!(
        one.text()
            .ends_with("\nmemory.high is not in the prediction\n"),
        "{}",
        one.text()
    );
    setting.leave_out("memory.low");
    let two = predicted(setting);
    assert!(two
        .text()
        .ends_with("\nmemory.high and memory.low are not in the prediction\n"));
    assert_eq!(two.json()["not_in_it"][1], "memory.low");
}

/// The device of the files says what its reads took, in all runs together.
#[test]
fn the_times_of_reads_are_those_of_the_device() {
    let run = |ms: u64, requests: u64| {
        let counters = |ms, requests| json!({"block_read_ticks": ms, "block_read_ios": requests});
        let point =
            |access, at, counters| json!({"access": access, "time_ms": at, "counters": counters});
        json!({"points": [point(50, 10, counters(ms / 2, requests / 4)), point(100, 20, counters(ms, requests))]})
    };
    let clock = |runs: &[serde_json::Value]| {
        let clock = times(&json!({ "runs": runs }));
        clock.map(|clock| clock.to_string())
    };
    let both = clock(&[run(30, 400), run(60, 500)]);
    let times = "0:0:0,50:0.01:112,100:0.02:450,read:0.0001";
    assert_eq!(both.as_deref(), Some(times));
    let none = clock(&[run(0, 0)]);
    assert_eq!(none.as_deref(), Some("0:0:0,50:0.01:0,100:0.02:0"));
    let no_time = clock(&[run(0, 3)]);
    assert_eq!(no_time.as_deref(), Some("0:0:0,50:0.01:0,100:0.02:3"));
}

/// How long the tasks slept is known beside the times, if reads take theirs in the replay as well.
#[test]
fn the_times_asleep_are_those_of_the_run() {
    let point = |access, at, asleep| {
        let counters = json!({"block_read_ticks": at / 2, "block_read_ios": 100});
        json!({"access": access, "time_ms": at, "asleep_us": asleep, "counters": counters})
    };
    let runs = [600, 800].map(|us| json!({"points": [point(50, 10, us), point(100, 20, 3_000)]}));
    let clock = |runs: &[serde_json::Value]| {
        let clock = times(&json!({ "runs": runs }));
        clock.map(|clock| clock.to_string())
    };
    let asleep = clock(&runs);
    let times = "0:0:0s,50:0.01:0.0007s,100:0.02:0.003s,read:0.0001";
    assert_eq!(asleep.as_deref(), Some(times));
    // The device does not say how long reads took, so the replay's take no time.
    let mut silent = runs[0].clone();
    for point in silent["points"].as_array_mut().unwrap() {
        point["counters"] = json!({});
    }
    assert_eq!(clock(&[silent]).as_deref(), Some("0:0,50:0.01,100:0.02"));
}

#[test]
fn times_are_those_of_runs_that_came_as_far() {
    let run = |points: &[(u64, u64)]| {
        let point = |&(access, ms): &(u64, u64)| json!({"access": access, "time_ms": ms});
        json!({"points": points.iter().map(point).collect::<Vec<_>>()})
    };
    let first = run(&[(50, 100), (80, 130), (80, 130), (100, 400)]);
    let second = run(&[(50, 300), (80, 330), (80, 330), (100, 500)]);
    let both = json!({"runs": [first, second]});
    let clock = times(&both).unwrap();
    assert_eq!(clock, Clock::parse("0:0,50:0.2,80:0.23,100:0.45").unwrap());
    let short = run(&[(50, 300)]);
    assert_eq!(times(&json!({"runs": [first, short]})), None);
    // Where others were killed, those that lived say when.
    let mut killed = short;
    killed["killed_after"] = json!(77);
    let lived = times(&json!({"runs": [killed, second]}));
    assert_eq!(
        lived,
        Some(Clock::parse("0:0,50:0.3,80:0.33,100:0.5").unwrap())
    );
    assert_eq!(times(&json!({"runs": [killed]})), None);
    assert_eq!(times(&json!({"runs": []})), None);
    let setting = Setting::of_guest(HALF, 1000, 60, 4096);
    let one = RunsArgs {
        repeat: 2,
        near: None,
    };
    let timed = predicted(setting.clone().at_times_of(&both, one));
    assert!(timed.text().contains("the times of the run"));
    assert_eq!(timed.json()["times_of_the_run"], true);
    assert_eq!(timed.json()["clock"], "0:0,50:0.2,80:0.23,100:0.45");
    // A slow device makes the times itself.
    let slow = setting
        .clone()
        .with_device(DirtySettings::default(), Some(1_000_000));
    assert_eq!(slow.clone().at_times_of(&both, one).clock, None);
    // Unless most of the time went to reads, which are known.
    let mut reading = both.clone();
    reading["runs"][0]["points"][3]["counters"] = json!({"block_read_ticks": 300});
    assert!(slow.at_times_of(&reading, one).clock.is_some());
    let fast = setting
        .clone()
        .with_device(DirtySettings::default(), Some(999_999));
    assert_eq!(fast.at_times_of(&both, one).clock, Some(clock));
    // Where each limit has a run, each prediction has the times of its own.
    let near = RunsArgs {
        repeat: 1,
        near: Some(LIMITS),
    };
    let run = |n: u64| {
        let mut run = run(&[(50, 10 * n), (100, 30 * n)]);
        run["first_fold_us"] = (n * 100_000).into();
        run
    };
    let single = json!({"runs": [run(2)]});
    let single = predicted(setting.clone().at_times_of(&single, one)).json();
    assert_eq!(single["clock"], "0:0,50:0.02,100:0.06,fold:0.2");
    let nine = json!({"runs": (1..10).map(run).collect::<Vec<_>>()});
    let setting = setting.at_times_of(&nine, near);
    let json = predicted(setting).json();
    assert_eq!(json["clocks"][0], "0:0,50:0.01,100:0.03,fold:0.1");
    assert_eq!(json["clocks"][8], "0:0,50:0.09,100:0.27,fold:0.9");
    assert_eq!(json["clock"], json["clocks"][4]);
}

#[test]
fn pages_round_a_fault_are_a_power_of_two() {
    for (bytes, pages) in [(0, 1), (4096, 1), (12_288, 2), (65_536, 16), (1 << 30, 512)] {
        assert_eq!(pages_around(bytes), pages, "{bytes}");
    }
}

#[test]
fn a_guest_in_virtual_time_shares_its_cpu_at_its_costs() {
    let usual = Setting::of_guest(HALF, 1000, 60, 4096);
    let setting = usual.clone().in_virtual_time();
    let settings = |s: &Setting| s.plan(&trace(), Vec::new()).settings;
    assert!(settings(&setting).shares_cpu);
    assert!(!settings(&setting.clone().with_cpus(2)).shares_cpu);
    assert!(!settings(&usual).shares_cpu);
    let cost = |s: &Setting| settings(s).costs.table().flush_page_ns;
    assert!(cost(&setting) > 10 * cost(&usual));
    // A slice ends where a timer ends it; else whoever has the CPU keeps it until it sleeps.
    let timed = |label| {
        let setting = setting.clone().on_kernel(label);
        settings(&setting).costs.table().sched_hrtick_enabled
    };
    assert_eq!(timed("7.2.13+deb14-cloud-amd64 mglru 0x7"), 1);
    assert_eq!(timed("6.18.15+deb13-cloud-amd64 mglru 0x7"), 0);
    let shown = predicted(setting);
    assert_eq!(shown.json()["costs"]["flush_page_ns"], 4_400);
    assert!(shown.lines()[0].contains("flush_page_ns 4400"));
    assert!(predicted(usual).json()["costs"].is_null());
}

/// A trace that says what a call was is played so, and read ahead; then the folios are those of the kernel's file system.
#[test]
fn folios_are_as_large_as_the_kernel_makes_them() {
    let call = Step {
        kind: StepKind::Call,
        object: 0,
        task: 0,
        value: 1,
    };
    let calls = trace().with_events(vec![Event { at: 0, step: call }]);
    let usual = Setting::of_guest(HALF, 1000, 60, 4096);
    let order = |setting: &Setting, trace: &Trace| {
        let plan = setting.plan(trace, Vec::new());
        plan.settings.large_folios
    };
    let recent = usual
        .clone()
        .on_kernel("6.18.15+deb13-cloud-amd64 mglru 0x7");
    assert_eq!(order(&recent, &calls), 8);
    assert_eq!(order(&recent, &trace()), 0, "played page by page");
    assert_eq!(order(&usual.on_kernel("6.12.117 mglru 0x7"), &calls), 0);
    let f2fs = recent.clone().with_file_system(FileSystem::F2fs);
    assert_eq!(order(&f2fs, &calls), 0);
    let shown = beside(
        &calls,
        &["v618".into()],
        recent,
        IndexMap::new(),
        Look::default(),
    );
    let shown = shown.unwrap();
    assert_eq!(shown.json()["large_folios"], true);
    assert!(shown.lines()[0].contains("large folios"));
}
