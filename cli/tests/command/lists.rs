//! `list`, `params`, help and version.

use crate::common::{json_of, lab, stdout_of};
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn list_names_everything() {
    let text = stdout_of("list --switches --params", 0);
    for name in [
        "mongodb",
        "1/64",
        "gen-after",
        "mglru-6.12",
        "smaller_batch",
        "oracle-general",
        "nvme-fast",
        "limit_mib",
        "d_pread_cyc",
    ] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
    assert!(!stdout_of("list", 0).contains("smaller_batch"));
    let json = json_of("list --json", 0);
    for (part, name) in [
        ("experiments", "fio-mmap"),
        ("variants", "v5"),
        ("switches", "scan_budget"),
        ("formats", "pageops"),
        ("devices", "hdd"),
    ] {
        let entries = json[part].as_array().expect(part);
        assert!(
            entries.iter().any(|e| e["name"] == name),
            "{name} in {part}"
        );
    }
}

#[test]
fn list_names_what_an_experiment_changes_in_the_costs_and_how_much_of_the_original_it_runs() {
    let text = stdout_of("list", 0);
    assert!(text.contains("1/8 of the published 600 s"), "{text}");
    let json = json_of("list --json", 0);
    let deviations = |name: &str| {
        let all = json["experiments"].as_array().expect("experiments");
        let experiment = all.iter().find(|e| e["name"] == name).expect(name);
        experiment["deviations"].as_array().expect("list").clone()
    };
    assert!(deviations("mysql").is_empty());
    let of = deviations("throttling-oom");
    let tick = of.iter().find(|d| d["name"] == "timer_hz").expect("tick");
    assert_eq!(
        (&tick["value"], &tick["table"]),
        (&250.into(), &1000.into())
    );
    for experiment in json["experiments"].as_array().expect("experiments") {
        for d in experiment["deviations"].as_array().expect("list") {
            for part in ["name", "why", "source"] {
                assert_ne!(d[part], "", "{d}");
            }
            assert!(text.contains(d["name"].as_str().expect("name")), "{d}");
        }
    }
    let replay = json["replay"]["deviations"].as_array().expect("list");
    assert!(replay.iter().any(|d| d["name"] == "shrinker_call_ns"));
}

#[test]
fn params_have_value_unit_mark_and_source() {
    let text = stdout_of("params nvme_read_lat", 0);
    assert!(
        text.contains("nvme_read_lat_ns") && !text.contains("timer_hz"),
        "{text}"
    );
    let json = json_of("params --json", 0);
    let costs = json["costs"].as_array().expect("costs");
    let hz = costs
        .iter()
        .find(|c| c["name"] == "timer_hz")
        .expect("timer_hz");
    assert_eq!(
        (&hz["value"], &hz["unit"], &hz["mark"]),
        (&1000.into(), &"1/s".into(), &"S".into())
    );
    for cost in costs {
        assert!(
            ["P", "A", "S"].contains(&cost["mark"].as_str().expect("mark")),
            "{cost}"
        );
        assert_ne!(cost["source"], "", "{cost}");
    }
}

#[test]
fn params_show_where_variants_differ() {
    let one = json_of("params --switches v5 --json", 0);
    let two = json_of("params --switches base,base+smaller_batch=on --json", 0);
    assert!(one["switches"].as_array().expect("switches").len() > 20);
    let rows = two["switches"].as_array().expect("switches");
    assert_eq!(rows.len(), 1, "{two}");
    assert_eq!(rows[0]["name"], "smaller_batch");
    assert_eq!(rows[0]["values"]["base"], "off");
    assert_eq!(rows[0]["values"]["base+smaller_batch=on"], "on");
}

#[test]
fn every_command_has_help_with_examples() {
    for command in [
        "list", "run", "replay", "fidelity", "params", "convert", "fuzz",
    ] {
        let text = stdout_of(&[command, "--help"], 0);
        assert!(text.contains("Examples:"), "{command}");
        assert!(
            text.contains(&format!("  coldset lab {command}")),
            "{command}"
        );
    }
    assert!(stdout_of("--version", 0).contains(env!("CARGO_PKG_VERSION")));
    let bare = lab(&[]);
    assert_eq!(bare.status.code(), Some(2));
}

#[test]
fn a_closed_pipe_is_quiet() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coldset"))
        .args(["lab", "params", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    drop(child.stdout.take());
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut said)
        .expect("UTF-8");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(said, "");
}
