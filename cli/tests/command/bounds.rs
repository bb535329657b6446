//! Experiments too large for this computer: one line that names the parameter, and the largest value that fits.

use crate::common::{json_of, message_of};

fn message(experiment: &str, param: &str, value: &str) -> String {
    message_of(
        format!("run {experiment} --seeds 1 --jobs 1 --param {param}={value}").as_str(),
        2,
    )
}

/// The number at the end of a message.
fn largest(said: &str) -> Option<u64> {
    let (_, number) = said.split_once("the largest value that fits is ")?;
    number.trim().parse().ok()
}

/// Of each experiment sizes, times, and numbers of what takes memory of its own.
const PARAMS: &[(&str, &str)] = &[
    (
        "mongodb",
        "limit_mib cache_mib heap_mib records threads checkpoint_s",
    ),
    ("fairness", "ram_mib chunk_mib swap_mib duration_s"),
    ("aging-oom", "anon_mib file_mib readers rounds wait_ms"),
    ("throttling-oom", "limit_mib blocks start_ms"),
    ("mysql", "tables other_mib thread_kib threads time_s"),
    ("fio-mmap", "file_mib jobs run_ms"),
    ("kernel-build", "tree_mib text_mib jobs units directories"),
    ("slow-io", "records cache_mib ops_per_block"),
    ("tlb-stress", "total_mib swap_mib time_ms"),
    ("android-cold-start", "ram_mib zram_mib apps rounds"),
    (
        "android-heavy",
        "zram_mib camera_anon_mib camera_file_mib use_s",
    ),
    ("memcg-heat", "chunk_mib swap_mib duration_s"),
    ("dead-folios", "cache_mib short_mib folios pages longest_us"),
];

#[test]
fn a_parameter_that_is_too_large_is_named() {
    let list = json_of("list --json", 0);
    let experiments = list["experiments"].as_array().unwrap();
    let names = experiments.iter().map(|e| e["name"].as_str().unwrap());
    assert!(names.eq(PARAMS.iter().map(|(name, _)| *name)));
    for (experiment, params) in PARAMS {
        for param in params.split(' ') {
            let value = "1000000000000000000";
            let said = message(experiment, param, value);
            assert!(
                said.contains(&format!("parameter '{param}' does not take '{value}'")),
                "{experiment}: {said}"
            );
            let largest = largest(&said).unwrap_or_else(|| panic!("{experiment}: {said}"));
            // One more is one too many.
            let more = message(experiment, param, &(largest + 1).to_string());
            assert_eq!(self::largest(&more), Some(largest), "{experiment}: {more}");
        }
    }
}

/// Each buffer would fit, all of them do not.
#[test]
fn regions_that_are_too_large_together_are_refused() {
    let said = message("fairness", "chunk_mib", "4000000");
    assert!(
        said.contains("pages of files and memory") && said.contains("(chunk_mib=4000000)"),
        "{said}"
    );
}
