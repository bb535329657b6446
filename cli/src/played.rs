//! What `play` says in JSON, read: by itself, and by the host of a guest.

use coldset_lab::report::{human, Align, Number, Table};
use indexmap::IndexMap;
use serde_json::Value;

/// The runs of what a machine played.
fn runs(played: &Value) -> &[Value] {
    played["runs"].as_array().map_or(&[], Vec::as_slice)
}

/// How long the accesses of the first run took, by kind.
pub fn latencies(played: &Value) -> Table {
    let right = |name| (name, Align::Right);
    let names = ["accesses", "mean, us", "p50", "p99", "p99.9", "longest"];
    let mut columns = vec![("", Align::Left)];
    columns.extend(names.map(right));
    let mut table = Table::new(columns);
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1000.0);
    let first = runs(played)
        .first()
        .and_then(|run| run["latencies"].as_object());
    for (kind, figures) in first.into_iter().flatten() {
        let get = |name: &str| figures[name].as_u64().unwrap_or(0);
        let Some(mean) = get("sum_ns").checked_div(get("count")) else {
            continue;
        };
        let row = [kind.clone(), human(get("count") as f64), us(mean)];
        let rest = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| us(get(name)));
        table.row(row.into_iter().chain(rest).collect::<Vec<String>>());
    }
    table
}

/// What befell the runs, a line each: killed, disturbed.
pub fn remarks(played: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (n, run) in (1..).zip(runs(played)) {
        out.extend(killed(run).map(|what| format!("run {n}: {what}")));
        let all = run["disturbed"].as_array().into_iter().flatten();
        let said: Vec<&str> = all.filter_map(|d| d["text"].as_str()).collect();
        if !said.is_empty() {
            out.push(format!("run {n} was disturbed: {}", said.join("; ")));
        }
    }
    out
}

/// How a run was cut short.
fn killed(run: &Value) -> Option<String> {
    let after = run["killed_after"].as_u64()?;
    let several = run["tasks"].as_array().is_some_and(|t| t.len() > 1);
    let all = run["killed_tasks"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let who = match (run["killed_task"].as_u64(), all) {
        (_, [_, _, ..]) => {
            let numbers: Vec<String> = all.iter().map(Value::to_string).collect();
            format!("tasks {} were killed", numbers.join(", "))
        }
        (Some(task), _) if several => format!("task {task} was killed"),
        _ => "killed".into(),
    };
    let of = if several { " of all tasks" } else { "" };
    Some(format!(
        "{who} for lack of memory after {} accesses{of}",
        human(after as f64)
    ))
}

/// The counters of the first run over its accesses, from nothing, and its generations.
pub fn series(played: &Value) -> IndexMap<String, Vec<(u64, Number)>> {
    let mut out: IndexMap<String, Vec<(u64, Number)>> = IndexMap::new();
    let points = runs(played)
        .first()
        .and_then(|run| run["points"].as_array());
    for point in points.into_iter().flatten() {
        let Some(access) = point["access"].as_u64() else {
            continue;
        };
        let counters = point["counters"].as_object().into_iter().flatten();
        for (name, value) in counters.filter_map(|(name, v)| Some((name, v.as_u64()?))) {
            let line = out
                .entry(name.clone())
                .or_insert_with(|| vec![(0, Number::Int(0))]);
            line.push((access, Number::Int(value)));
        }
        for (name, pages) in generations(&point["lru_gen"]) {
            out.entry(name)
                .or_default()
                .push((access, Number::Int(pages)));
        }
    }
    out
}

/// Pages of each generation as the lab calls them, `gen0_file` the youngest; of all groups and nodes together.
fn generations(lists: &Value) -> IndexMap<String, u64> {
    let mut out = IndexMap::new();
    for lruvec in lists.as_array().into_iter().flatten() {
        let all = lruvec["generations"].as_array().into_iter().flatten();
        // The youngest is the last.
        for (age, generation) in all.rev().enumerate() {
            for kind in ["file", "anon"] {
                let pages = generation[kind].as_u64().unwrap_or(0);
                *out.entry(format!("gen{age}_{kind}")).or_insert(0) += pages;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_is_read_back() {
        let generation =
            |seq: u64, file: u64| json!({"seq": seq, "age_ms": 1, "anon": 2, "file": file});
        let lists = json!([
            {"memcg": "/g", "node": 0, "generations": [generation(4, 30), generation(5, 7)]},
            {"memcg": "/g", "node": 1, "generations": [generation(9, 1)]},
        ]);
        let point = |access: u64| json!({"access": access, "counters": {"pgscan": access * 2}, "lru_gen": lists});
        let run = json!({
            "points": [point(10), point(20)],
            "latencies": {"pread": {"count": 4, "sum_ns": 8000, "p50_ns": 1000, "p99_ns": 5000, "p999_ns": 5000, "max_ns": 5500}},
            "killed_after": 1900,
            "disturbed": [{"name": "drop_slab", "count": 1, "text": "slabs were dropped 1 time"}],
        });
        let played = json!({"runs": [run]});
        let series = series(&played);
        let at = |name: &str| {
            series[name]
                .iter()
                .map(|(a, n)| (*a, n.as_f64()))
                .collect::<Vec<_>>()
        };
        assert_eq!(at("pgscan"), [(0, 0.0), (10, 20.0), (20, 40.0)]);
        assert_eq!(at("gen0_file"), [(10, 8.0), (20, 8.0)]);
        assert_eq!(at("gen1_file"), [(10, 30.0), (20, 30.0)]);
        assert_eq!(at("gen0_anon"), [(10, 4.0), (20, 4.0)]);
        let text = latencies(&played).text(crate::lab::style(false));
        assert!(
            text.contains("pread") && text.contains("2.00") && text.contains("5.50"),
            "{text}"
        );
        let expected = [
            "run 1: killed for lack of memory after 1,900 accesses",
            "run 1 was disturbed: slabs were dropped 1 time",
        ];
        assert_eq!(remarks(&played), expected);
        assert!(remarks(&Value::Null).is_empty() && super::series(&Value::Null).is_empty());
    }
}
