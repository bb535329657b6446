//! Two results of `lab replay`, `play` or `kernel play` side by side, in any mixture.

use super::{CompareError, Verdict};
use crate::tables::Variants;
use crate::{CounterSummary, Number};
use indexmap::IndexMap;
use serde_json::{Map, Value};

/// The counters of a kernel or of a variant.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    /// A kernel did it.
    played: bool,
    counters: IndexMap<String, CounterSummary>,
    /// Counters that are of the whole machine.
    machine_wide: Vec<String>,
}

impl Column {
    /// Accesses until it was killed for lack of memory; none: it was not.
    fn killed(&self) -> Option<u64> {
        let after = self.counters.get(KILLED_AFTER)?;
        Some(after.mean.as_f64() as u64)
    }
}

/// The counter that only a replay has that was killed for lack of memory.
const KILLED_AFTER: &str = "killed_after";
/// Counters that are of a replay that was killed as of any other.
const OF_KILLING: [&str; 2] = [KILLED_AFTER, "events_oom_kill"];

/// What a file of `lab replay`, `play` or `kernel play` holds.
#[derive(Clone, Debug)]
pub struct ReadReplays {
    /// Name of the file.
    pub name: String,
    trace: Option<String>,
    memory: Option<u64>,
    /// What it was made with, if its version of the program says so.
    settings: Option<Map<String, Value>>,
    /// Under several limits, which follow the names of the columns.
    several: bool,
    /// The limits, if there are several.
    limits: Vec<u64>,
    columns: Vec<Column>,
}

impl ReadReplays {
    /// Whether `value` is such a file.
    pub(super) fn is_one(value: &Value) -> bool {
        ["bounds", "replays", "played"]
            .iter()
            .any(|field| value.get(field).is_some())
    }

    pub(super) fn parse(name: &str, value: &Value) -> Result<Self, String> {
        let mut file = Self {
            name: name.into(),
            trace: value["trace"].as_str().map(str::to_owned),
            memory: value["memory_pages"].as_u64(),
            settings: value.get("settings").and_then(Value::as_object).cloned(),
            several: value.get("replays").is_some(),
            limits: Vec::new(),
            columns: Vec::new(),
        };
        match value.get("replays") {
            Some(tables) => {
                let tables = tables.as_array().ok_or("\"replays\" is no list")?;
                for (i, table) in (1..).zip(tables) {
                    let limit = match memory(table) {
                        Some(pages) => {
                            file.limits.push(pages);
                            under(pages)
                        }
                        None => format!(", table {i}"),
                    };
                    file.add(table, &Value::Null, &limit)?;
                }
            }
            None => {
                file.memory = file.memory.or(memory(value));
                file.add(value, &value["played"], "")?;
            }
        }
        match file.columns.is_empty() {
            true => Err("no variants in it".into()),
            false => Ok(file),
        }
    }

    /// Adds the columns of a table; `limit` follows their names.
    fn add(&mut self, table: &Value, played: &Value, limit: &str) -> Result<(), String> {
        let variants = table.get("variants").and_then(Value::as_object);
        let variants = variants.ok_or("no \"variants\" in it")?;
        // One machine, whose column is the first one; or machines by the names of their columns.
        let one = played.get("machine").is_some_and(Value::is_string);
        for (i, (name, counters)) in variants.iter().enumerate() {
            let own = if one && i == 0 {
                Some(played)
            } else {
                played.get(name)
            };
            let own = own.filter(|own| own.is_object());
            let words = own.and_then(|own| own["machine_wide"].as_array());
            let words = words.into_iter().flatten().filter_map(Value::as_str);
            self.columns.push(Column {
                name: format!("{name}{limit}"),
                played: own.is_some(),
                counters: counters_of(name, counters)?,
                machine_wide: words.map(str::to_owned).collect(),
            });
        }
        Ok(())
    }

    /// The columns called as those of a file with several limits are.
    fn named_by_limit(&self) -> Self {
        let mut named = self.clone();
        if let (false, Some(pages)) = (self.several, self.memory) {
            for column in &mut named.columns {
                column.name += &under(pages);
            }
        }
        named
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// "zipf.pageops replayed with v618".
    fn what(&self, column: &Column) -> String {
        let trace = self.trace.as_deref().unwrap_or("a trace");
        match column.played {
            true => format!("{trace} played on {}", column.name),
            false => format!("{trace} replayed with {}", column.name),
        }
    }
}

/// The limit, behind the name of a column.
fn under(pages: u64) -> String {
    format!(", {pages} pages")
}

fn memory(table: &Value) -> Option<u64> {
    table["bounds"]["memory_pages"].as_u64()
}

fn counters_of(name: &str, counters: &Value) -> Result<IndexMap<String, CounterSummary>, String> {
    let wrong = |counter: &str| format!("counter {counter} of {name} has no numbers");
    let all: &Map<String, Value> = counters
        .as_object()
        .ok_or_else(|| format!("variant {name} is no object"))?;
    let mut out = IndexMap::new();
    for (counter, summary) in all {
        let runs = summary.get("per_seed").and_then(Value::as_array);
        let runs = runs.ok_or_else(|| wrong(counter))?;
        let runs: Option<Vec<Number>> = runs.iter().map(super::read::number).collect();
        let summary = runs.and_then(CounterSummary::of);
        out.insert(counter.clone(), summary.ok_or_else(|| wrong(counter))?);
    }
    Ok(out)
}

/// A counter that both have.
#[derive(Clone, Debug)]
pub struct ReplayRow {
    /// Its name.
    pub counter: String,
    /// In the first file.
    pub before: CounterSummary,
    /// In the second one.
    pub after: CounterSummary,
    /// From before to after, a share of before; none from 0.
    pub change: Option<f64>,
    /// What came of it.
    pub verdict: Verdict,
}

/// A column of each file.
#[derive(Clone, Debug)]
pub struct ComparedColumns {
    /// Their names.
    pub names: [String; 2],
    /// What they are, in words.
    pub what: [String; 2],
    /// Counters that both have, those that matter most first.
    pub rows: Vec<ReplayRow>,
    /// Names among them that are of a whole machine in either.
    pub machine_wide: Vec<String>,
    /// Counters that one of the two has.
    pub alone: [Vec<String>; 2],
    /// Accesses after which the replay was killed for lack of memory. Unless both did as much, the only counters that are
    /// compared are those of the killing.
    pub killed: [Option<u64>; 2],
}

impl ComparedColumns {
    /// Both sides by name.
    pub(crate) fn sides(&self) -> Variants {
        let side = |of: fn(&ReplayRow) -> &CounterSummary| {
            let each = self.rows.iter().map(|r| (r.counter.clone(), of(r).clone()));
            each.collect()
        };
        Variants::from([
            ("before".to_owned(), side(|r| &r.before)),
            ("after".to_owned(), side(|r| &r.after)),
        ])
    }
}

/// Two files.
#[derive(Clone, Debug)]
pub struct ReplayComparison {
    /// Names of the files.
    pub files: [String; 2],
    /// What differs in how they were made: name, before, after.
    pub differing: Vec<(String, String, String)>,
    /// Columns that are compared as the first of each file, or its first kernel: no name was in both.
    pub by_place: Option<[String; 2]>,
    /// The columns that are compared.
    pub columns: Vec<ComparedColumns>,
    /// Columns of one file only, with its name.
    pub alone: Vec<(String, String)>,
}

/// Compares two files: columns of the same name, and if either has several limits, of the same limit. Kernels are
/// compared in any case: where no name is in both, the first of each; and so is the first column of each where nothing
/// else is.
///
/// # Errors
/// No counter in common.
pub fn compare_replays(
    before: &ReadReplays,
    after: &ReadReplays,
) -> Result<ReplayComparison, CompareError> {
    match before.several == after.several {
        true => compare_columns(before, after),
        false => compare_columns(&before.named_by_limit(), &after.named_by_limit()),
    }
}

fn compare_columns<'a>(
    before: &'a ReadReplays,
    after: &'a ReadReplays,
) -> Result<ReplayComparison, CompareError> {
    let named = before.columns.iter();
    let mut pairs: Vec<(&Column, &Column)> = named
        .filter_map(|b| Some((b, after.column(&b.name)?)))
        .collect();
    let kernel = |file: &'a ReadReplays| file.columns.iter().find(|c| c.played);
    let mut first = match pairs.iter().any(|(b, a)| b.played && a.played) {
        true => None,
        false => kernel(before).zip(kernel(after)),
    };
    if pairs.is_empty() && first.is_none() {
        first = before.columns.first().zip(after.columns.first());
    }
    let by_place = first.map(|(b, a)| [b.name.clone(), a.name.clone()]);
    pairs.splice(0..0, first);
    let columns: Vec<ComparedColumns> = pairs
        .iter()
        .map(|(b, a)| one((before, b), (after, a)))
        .collect();
    if columns.iter().all(|c| c.rows.is_empty()) {
        return Err(CompareError::NoCounter);
    }
    let mut alone = Vec::new();
    for (file, side) in [(before, 0), (after, 1)] {
        let compared = |c: &&Column| columns.iter().any(|done| done.names[side] == c.name);
        let rest = file.columns.iter().filter(|c| !compared(c));
        alone.extend(rest.map(|c| (c.name.clone(), file.name.clone())));
    }
    let said = |text: Option<String>| text.unwrap_or_else(|| "not said".into());
    let of = |file: &ReadReplays| {
        let limits: Vec<String> = file
            .memory
            .iter()
            .chain(&file.limits)
            .map(u64::to_string)
            .collect();
        let pages = (!limits.is_empty()).then(|| format!("{} pages", limits.join(", ")));
        [("trace", said(file.trace.clone())), ("memory", said(pages))]
    };
    let headers = of(before).into_iter().zip(of(after));
    let mut differing: Vec<(String, String, String)> = headers
        .filter(|((_, b), (_, a))| b != a)
        .map(|((name, b), (_, a))| (name.to_owned(), b, a))
        .collect();
    // A replay and a measurement have other options.
    let played = |file: &ReadReplays| file.columns.iter().any(|c| c.played);
    let settings = before.settings.as_ref().zip(after.settings.as_ref());
    if let Some((b, a)) = settings.filter(|_| played(before) == played(after)) {
        differing.extend(differing_settings(b, a));
    }
    Ok(ReplayComparison {
        files: [before.name.clone(), after.name.clone()],
        differing,
        by_place,
        columns,
        alone,
    })
}

/// Settings of two replays that are not the same, in the order of the first. Limits are told apart by their pages.
fn differing_settings(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<(String, String, String)> {
    let [mut before, mut after] = [before, after].map(words);
    let names: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
    let mut take = |name: &str| {
        let of = |side: &mut IndexMap<String, String>| side.shift_remove(name);
        let (b, a) = (of(&mut before), of(&mut after));
        let word = |text: Option<String>| text.unwrap_or_else(|| "default".to_owned());
        (b != a).then(|| (name.to_owned(), word(b), word(a)))
    };
    names.iter().filter_map(|name| take(name)).collect()
}

/// Settings by name, in words. Of several things, such as costs, each has a name of its own; null is the default.
fn words(settings: &Map<String, Value>) -> IndexMap<String, String> {
    let mut out = IndexMap::new();
    for (name, value) in settings.iter().filter(|(name, _)| *name != "memory") {
        match value {
            Value::Object(all) => {
                out.extend(all.iter().map(|(of, v)| (format!("{name} {of}"), word(v))));
            }
            Value::Null => {}
            other => {
                out.insert(name.clone(), word(other));
            }
        }
    }
    out
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(word).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Counters that are shown first.
const FIRST: [&str; 10] = [
    "misses",
    "miss_ratio",
    "workingset_refault_file",
    "workingset_refault_anon",
    "pgscan",
    "pgsteal",
    "pgactivate",
    "pgrefill",
    "pswpin",
    "pswpout",
];

fn one(before: (&ReadReplays, &Column), after: (&ReadReplays, &Column)) -> ComparedColumns {
    let (b, a) = (before.1, after.1);
    let killed = [b.killed(), a.killed()];
    let comparable = |counter: &str| killed[0] == killed[1] || OF_KILLING.contains(&counter);
    let mut rows: Vec<ReplayRow> = b
        .counters
        .iter()
        .filter(|(counter, _)| comparable(counter))
        .filter_map(|(counter, from)| {
            let to = a.counters.get(counter)?;
            let (x, y) = (from.mean.as_f64(), to.mean.as_f64());
            Some(ReplayRow {
                counter: counter.clone(),
                before: from.clone(),
                after: to.clone(),
                change: (x != 0.0).then(|| y / x - 1.0),
                verdict: judge(from, to),
            })
        })
        .collect();
    rows.sort_by_key(|row| {
        FIRST
            .iter()
            .position(|c| *c == row.counter)
            .unwrap_or(FIRST.len())
    });
    let both = |c: &&String| rows.iter().any(|r| r.counter == **c);
    let rest = |own: &Column, other: &Column| -> Vec<String> {
        let names = own.counters.keys();
        names
            .filter(|c| !other.counters.contains_key(*c))
            .cloned()
            .collect()
    };
    let mut machine_wide: Vec<String> = Vec::new();
    for name in b.machine_wide.iter().chain(&a.machine_wide).filter(both) {
        if !machine_wide.contains(name) {
            machine_wide.push(name.clone());
        }
    }
    ComparedColumns {
        names: [b.name.clone(), a.name.clone()],
        what: [before.0.what(b), after.0.what(a)],
        machine_wide,
        alone: [rest(b, a), rest(a, b)],
        killed,
        rows,
    }
}

/// The least and the greatest of the runs.
fn range(summary: &CounterSummary) -> (f64, f64) {
    let runs = summary.per_seed.iter().map(|n| n.as_f64());
    runs.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| {
        (least.min(x), most.max(x))
    })
}

/// Half the distance of the least and the greatest of several runs, as a share of the mean.
pub(super) fn spread(summary: &CounterSummary) -> Option<f64> {
    let ((least, most), mean) = (range(summary), summary.mean.as_f64());
    (summary.per_seed.len() > 1 && mean > 0.0).then(|| (most - least) / 2.0 / mean)
}

/// Runs have no partner in the other file: what counts is whether their ranges overlap.
fn judge(before: &CounterSummary, after: &CounterSummary) -> Verdict {
    let (b, a) = (range(before), range(after));
    if b == a && before.mean == after.mean {
        Verdict::Equal
    } else if b.0 <= a.1 && a.0 <= b.1 {
        Verdict::Noise
    } else {
        Verdict::Changed
    }
}
