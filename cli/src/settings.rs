//! What a measurement was made with, for its JSON: by option, as the option takes it. What is as by default is null, but
//! for what the defaults of `play` and `kernel play` differ in.

use crate::args::{GuestArgs, PlayArgs, TaskArgs};
use clap::ValueEnum;
use serde_json::{json, Map, Value};

/// Of `play`.
pub fn of_play(args: &PlayArgs) -> Value {
    let mut all = of_tasks(&args.tasks);
    all["limit"] = word(args.limit, "cgroup");
    all["high"] = json!(args.high);
    all["swap_max"] = json!(args.swap_max);
    all["exact_access"] = json!(args.exact_access);
    all["near"] = json!(args.runs.near);
    all
}

/// Of `kernel play`.
pub fn of_guests(args: &GuestArgs) -> Value {
    let mut all = of_tasks(&args.tasks);
    all["limit"] = word(args.limit, "cgroup");
    all["multi_gen"] = args.multi_gen.map_or(Value::Null, |on| word(on, ""));
    all["zram"] = json!(args.zram);
    all["swappiness"] = other_than(args.swappiness, 60);
    all["fault_around"] = other_than(args.fault_around.as_str(), "4KiB");
    all["read_ahead_kb"] = other_than(args.read_ahead_kb, 128);
    all["file_system"] = word(args.file_system, "ext4");
    all["exact_access"] = json!(args.exact_access);
    all["near"] = json!(args.runs.near);
    all["cpus"] = other_than(args.cpus, 1);
    all["guest_memory"] = json!(args.guest_memory);
    all["guest_nodes"] = other_than(args.guest_nodes, 1);
    all["dirty_ratio"] = json!(args.dirty_ratio);
    all["dirty_background_ratio"] = json!(args.dirty_background_ratio);
    all["dirty_limits"] = word(args.dirty_limits, "memcg");
    all["monitor"] = word(args.monitor, "off");
    all["append"] = other_than(args.append.as_str(), "");
    all["virtual_time"] = other_than(args.virtual_time, false);
    all["disk_us"] = other_than(args.disk_us, 80);
    all
}

fn of_tasks(args: &TaskArgs) -> Value {
    let low = args.low.iter().map(|low| match low.split_once('=') {
        Some((task, size)) => (task.to_owned(), size.into()),
        None => ("cgroup".to_owned(), low.as_str().into()),
    });
    json!({
        "order": args.order.to_string(),
        "tasks": word(args.tasks, ""),
        "pace": word(args.pace, "none"),
        "low": low.collect::<Map<String, Value>>(),
    })
}

/// The name of a choice, unless it is the default.
fn word(choice: impl ValueEnum, default: &str) -> Value {
    let name = choice.to_possible_value().map(|v| v.get_name().to_owned());
    json!(name.filter(|name| name != default))
}

fn other_than<T: PartialEq + serde::Serialize>(value: T, default: T) -> Value {
    json!((value != default).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::play_args;

    #[test]
    fn what_is_not_as_by_default_is_told() {
        let of = |words: &[&str]| {
            let all = ["coldset", "play", "trace", "--memory=1000pages"];
            let all = all.iter().chain(words).map(|&word| word.to_owned());
            of_play(&play_args(all).expect("arguments"))
        };
        let plain = of(&[]);
        assert_eq!(plain["order"], "strict");
        assert_eq!(plain["tasks"], "processes");
        assert_eq!(plain["exact_access"], 0);
        assert!(plain["high"].is_null() && plain["limit"].is_null() && plain["pace"].is_null());
        let other = of(&[
            "--order=per-task",
            "--tasks=threads",
            "--exact-access=64",
            "--low=0=4MiB",
            "--high=2MiB",
        ]);
        assert_eq!(other["order"], "per-task");
        assert_eq!(other["tasks"], "threads");
        assert_eq!(other["exact_access"], 64);
        assert_eq!(other["low"]["0"], "4MiB");
        assert_eq!(other["high"], "2MiB");
    }
}
