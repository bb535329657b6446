//! What sizes of memory would come to: `mrc`, `advise`.

use crate::common::{circle, json_of, lab, mean, message_of, sample, stdout_of, temporary};
use serde_json::Value;

#[test]
fn miss_ratio_curves() {
    let base = "mrc SAMPLE --policies lru,v5,opt --sizes 100pages,25%";
    let json = json_of(&format!("{base} --json -")[..], 0);
    let misses =
        |curve: usize, point: usize| json["curves"][curve]["points"][point]["misses"].clone();
    // As the bounds and the misses of a replay under the same limit.
    let replay = json_of("replay SAMPLE --memory 25% --variants v5 --json -", 0);
    let bounds = &replay["bounds"];
    assert_eq!(misses(0, 1), bounds["lru_misses"]);
    assert_eq!(misses(2, 1), bounds["opt_misses"]);
    assert_eq!(misses(1, 0).as_f64(), Some(mean(&replay, "v5", "misses")));
    let absences = "mrc SAMPLE --policies lru,opt --sizes 25% --count absences --json -";
    let absences = json_of(absences, 0);
    assert_eq!(absences["curves"][0]["points"][0]["misses"], 13_914);
    assert_eq!(absences["curves"][1]["points"][0]["misses"], 7_413);
    // The kernel's policy has no figure for 100 pages.
    assert_eq!(json["curves"][1]["points"][0]["pages"], 553);
    let text = stdout_of(base, 0);
    assert!(
        text.contains("miss ratio\n") && text.contains("l lru, v v5, o opt"),
        "{text}"
    );
    let wrong = message_of("mrc SAMPLE --policies v5 --sample 1%", 2);
    assert!(wrong.contains("without --sample"), "{wrong}");
}

#[test]
fn advice_agrees_with_replays_and_fits_80_columns() {
    let page = temporary("advice.html");
    let name = page.to_str().expect("UTF-8");
    let text = stdout_of("advise SAMPLE --memory 50% --for v73,classic", 0);
    let sample = sample();
    let made = ["advise", &sample, "--memory", "50%", "--report", name];
    assert!(lab(&made).status.success());
    // The first line has the path.
    let mut lines = text.lines().skip(1);
    assert!(lines.all(|l| l.chars().count() <= 80), "{text}");
    let replay = json_of(
        "replay SAMPLE --memory 50% --variants v73,classic --json -",
        0,
    );
    let advice = json_of("advise SAMPLE --memory 50% --for v73,classic --json -", 0);
    let level = &advice["levels"][1];
    assert_eq!(level["pages"], 1_106);
    for (i, kernel) in ["v73", "classic"].into_iter().enumerate() {
        let cost = &level["cases"][i]["cost"];
        assert_eq!(
            cost["reads"].as_f64(),
            Some(mean(&replay, kernel, "misses"))
        );
        assert_eq!(
            cost["time_ns"].as_f64(),
            Some(mean(&replay, kernel, "time_ns"))
        );
    }
    let opt = replay["bounds"]["opt_misses"].as_f64();
    assert_eq!(level["opt_reads"].as_f64(), opt);
    let page = std::fs::read_to_string(page).expect("written");
    for part in [
        "Heat of pages",
        "anonymous region 0",
        "knee",
        "50 % less memory",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let peak = json_of(
        "advise SAMPLE --today peak --memory 50% --for v73 --json -",
        0,
    );
    assert_eq!(peak["today_pages"], 2_213);
    for (line, least) in [
        ("advise SAMPLE --memory 1%", "133 pages (532 KiB)"),
        ("replay SAMPLE --memory 1%", "128 pages (512 KiB)"),
    ] {
        assert_eq!(
            message_of(line, 2),
            format!(
                "coldset: memory '1%' cannot be used: write {least} or more; it is 22 pages, and the trace has 2213 \
                 different pages\n"
            )
        );
    }
    assert_eq!(
        message_of("advise SAMPLE --today 0pages", 2),
        "coldset: today '0 pages' cannot be used: write 133 pages (532 KiB) or more; the trace has 2213 different pages\n"
    );
    let unknown = message_of("advise SAMPLE --today some", 2);
    assert!(
        unknown.contains("--today") || unknown.contains("today"),
        "{unknown}"
    );
}

/// Of the sizes that nobody asked for, those that are too small are left out.
#[test]
fn advice_on_a_small_trace_needs_no_options() {
    let trace = temporary("small.txt");
    std::fs::write(&trace, circle(300, 3)).expect("written");
    let line = format!("advise {} --columns page --for v73", trace.display());
    let said = stdout_of(line.as_str(), 0);
    assert!(
        said.contains("\nSizes below 133 pages (532 KiB) are left out.\n"),
        "{said}"
    );
    let json = json_of(format!("{line} --json -").as_str(), 0);
    let levels = json["levels"].as_array().expect("levels").iter();
    let pages: Vec<_> = levels.map(|l| l["pages"].as_u64()).collect();
    assert_eq!(pages, [Some(300), Some(210), Some(150)]);
    // None of them is left: what is to be given is said, and no size is named that nobody has given.
    std::fs::write(&trace, circle(140, 3)).expect("written");
    assert_eq!(
        message_of(line.as_str(), 2),
        "coldset: --memory is needed: 70%, the largest that is tried without it, is 98 pages, and 133 pages (532 KiB) \
         are the least\n"
    );
}

/// A file that is read in order, twice: what is read ahead is not waited for, and `replay` says the same.
#[test]
fn advice_reads_ahead() {
    let trace = temporary("order.csv");
    let rows: String = (0..6000).map(|i| format!("{}\n", i % 3000)).collect();
    std::fs::write(&trace, rows).expect("written");
    let trace = trace.to_str().expect("UTF-8");
    let advise = |more: &str| {
        let line = format!("advise {trace} --columns page --for v73 --memory 50% {more}");
        json_of(line.trim(), 0)["levels"][1]["cases"][0]["cost"].clone()
    };
    let alone = advise("--json -");
    let ahead = advise("--read-ahead-kb 128 --json -");
    // All of it, twice, but for the last window.
    assert_eq!(alone["reads"], 6000.0);
    let reads = ahead["reads"].as_f64().expect("reads");
    assert!((5_900.0..=6_000.0).contains(&reads), "{ahead}");
    let time = |cost: &Value| cost["time_ns"].as_f64().expect("time");
    assert!(time(&ahead) * 20.0 < time(&alone), "{alone} {ahead}");
    let line = format!(
        "replay {trace} --columns page --variants v73 --memory 50% --read-ahead-kb 128 --json -"
    );
    let replay = json_of(line.as_str(), 0);
    assert_eq!(time(&ahead), mean(&replay, "v73", "time_ns"));
    let text = stdout_of(
        format!("advise {trace} --columns page --read-ahead-kb 128").as_str(),
        0,
    );
    assert!(
        text.lines()
            .next()
            .is_some_and(|l| l.ends_with("read-ahead of 128 KiB")),
        "{text}"
    );
    let said = message_of("advise SAMPLE --read-ahead-kb 128", 2);
    assert!(said.contains("no reads through descriptors"), "{said}");
}
