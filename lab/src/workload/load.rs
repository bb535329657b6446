//! From a file to an experiment.

use super::claims::{self, ClaimSpec};
use super::description::Description;
use super::fields::{Fields, Item, Setting};
use super::results;
use super::tree::{self, Node};
use super::{run, WorkloadError};
use crate::experiment::{
    Deviation, Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput,
};
use crate::runner::{parse_scale, show_scale, Variant};
use coldset_machine::Params;
use coldset_report::{Claim, RunResult};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A workload as it was written.
struct Source {
    origin: String,
    tree: Node,
}

/// Every workload that this process has read, by origin, name and text. What is described lives as long as the
/// program, as a built-in experiment does, so that the same text costs its memory once.
static READ: Mutex<Option<HashMap<[String; 3], &'static Experiment>>> = Mutex::new(None);

/// The largest file that is read.
const LONGEST: u64 = 1 << 20;

fn broken(origin: &str, problem: String) -> WorkloadError {
    WorkloadError {
        origin: origin.into(),
        line: None,
        key: String::new(),
        problem,
    }
}

fn text_of(path: &Path) -> Result<String, WorkloadError> {
    let origin = path.display().to_string();
    let cannot = |e: std::io::Error| {
        broken(
            &origin,
            format!("cannot read the workload: {e}; name a file in TOML"),
        )
    };
    let length = std::fs::metadata(path).map_err(cannot)?.len();
    if length > LONGEST {
        let what = format!("{length} bytes are no workload; one has at most {LONGEST}");
        return Err(broken(&origin, what));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

/// The experiment that a file in TOML describes. Its name is that of the file unless it says another.
///
/// # Errors
/// A file that cannot be read, or with a mistake: its line, its key, and what to write.
pub fn read(path: &Path) -> Result<&'static Experiment, WorkloadError> {
    let text = text_of(path)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    of_toml(&path.display().to_string(), &stem, &text)
}

/// Hash of what a file says, for stored results.
///
/// # Errors
/// A file that cannot be read.
pub fn fingerprint(path: &Path) -> Result<String, WorkloadError> {
    let digest = Sha256::digest(text_of(path)?);
    Ok(digest.iter().map(|b| format!("{b:02x}")).collect())
}

/// The experiment that a text in TOML describes; `origin` is for messages, `name` its name unless it says another.
///
/// # Errors
/// As [`read`].
pub fn of_toml(origin: &str, name: &str, text: &str) -> Result<&'static Experiment, WorkloadError> {
    once([origin.into(), name.into(), text.into()], || {
        tree::of_toml(origin, text)
    })
}

/// The same of JSON; messages name the key, and no line.
///
/// # Errors
/// Text that is no JSON, or as [`read`].
pub fn of_json(origin: &str, name: &str, text: &str) -> Result<&'static Experiment, WorkloadError> {
    once([origin.into(), name.into(), text.into()], || {
        let json = serde_json::from_str(text).map_err(|e| broken(origin, e.to_string()))?;
        Ok(tree::of_json(&json))
    })
}

fn once(
    key: [String; 3],
    tree: impl FnOnce() -> Result<Node, WorkloadError>,
) -> Result<&'static Experiment, WorkloadError> {
    let mut all = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(&known) = all.get(&key) {
        return Ok(known);
    }
    let source = Source {
        origin: key[0].clone(),
        tree: tree()?,
    };
    let experiment = experiment(source, &key[1])?;
    all.insert(key, experiment);
    Ok(experiment)
}

fn leak(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

fn leak_all<T>(list: Vec<T>) -> &'static [T] {
    Box::leak(list.into_boxed_slice())
}

impl Source {
    /// What a run does.
    fn describe(&self, input: &RunInput) -> Result<Description, WorkloadError> {
        let setting = Setting {
            origin: &self.origin,
            scale: input.scale,
            effort_permille: input.effort_permille,
            params: input.declared.iter().map(|p| p.name).collect(),
            param: &|name| input.text(name).to_owned(),
        };
        Description::read(&setting, &self.tree)
    }

    fn hosts(&self, input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
        let machines = self.describe(input)?.machines;
        Ok(machines.into_iter().map(|m| m.host).collect())
    }

    fn run(&self, input: &RunInput, fixed: Option<u64>) -> Result<RunResult, ExperimentError> {
        if let Some(scale) = fixed.filter(|scale| *scale != input.scale) {
            let what = format!("it runs at scale {} only (fixed_scale)", show_scale(scale));
            return Err(broken(&self.origin, what).into());
        }
        let description = self.describe(input)?;
        let mut r = RunResult::new(&input.variant, input.seed);
        for machine in &description.machines {
            run::run(input, &description, machine, &mut r)?;
        }
        Ok(r)
    }
}

/// A parameter with its default.
fn params(top: &Fields<'_>) -> Result<Vec<ParamDoc>, WorkloadError> {
    let Some(table) = top.get("params")? else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for (name, item) in table.entries()? {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(good) {
            return Err(item.error("a parameter's name has letters, digits and _"));
        }
        let (default, about) = match item.is_table() {
            true => {
                let fields = item.table("params")?;
                (fields.need("default")?.word()?, fields.text("about", "")?)
            }
            false => (item.word()?, String::new()),
        };
        all.push(ParamDoc::new(leak(name), leak(default), leak(about)).anything());
    }
    Ok(all)
}

fn deviations(top: &Fields<'_>, machines: &[&str]) -> Result<Vec<Deviation>, WorkloadError> {
    let mut all = Vec::new();
    for fields in &top.tables("costs")? {
        let item = fields.need("name")?;
        let name = item.text()?;
        let row = Params::NAMES.iter().find(|row| **row == name);
        let row = *row.ok_or_else(|| item.unknown("cost", Params::NAMES.iter().copied()))?;
        let value = fields.need("value")?;
        let n = value.number(0..=u64::MAX)?;
        let mut table = Params::default();
        table.set(row, n).map_err(|e| value.error(e.to_string()))?;
        let machine = fields.read("machine", |item| {
            let name = item.text()?;
            let known = machines.iter().copied().filter(|m| !m.is_empty());
            match known.clone().any(|m| m == name) {
                true => Ok(format!("{name}.")),
                false => Err(item.unknown("machine", known)),
            }
        })?;
        all.push(Deviation {
            name: row,
            value: n,
            machine: leak(machine.unwrap_or_default()),
            why: leak(fields.text("why", "the workload sets it")?),
            source: leak(fields.text("source", "not said")?),
        });
    }
    Ok(all)
}

fn effort(top: &Fields<'_>) -> Result<Effort, WorkloadError> {
    let Some(item) = top.get("effort")? else {
        return Ok(Effort::Own("what the file says"));
    };
    let fields = item.table("effort")?;
    let published = leak(fields.need("published")?.text()?);
    let part = fields.number("part", 1..=1_000_000, 1)?;
    Ok(match fields.flag("fixed", false)? {
        true => Effort::Fixed(published),
        false => Effort::Part(published, part),
    })
}

fn variant(item: &Item<'_>) -> Result<&'static str, WorkloadError> {
    let name = item.text()?;
    Variant::parse(&name, &[]).map_err(|e| item.error(e.to_string()))?;
    Ok(leak(name))
}

/// Makes an experiment of a tree, and finds every mistake in it that shows without running it.
fn experiment(source: Source, stem: &str) -> Result<&'static Experiment, WorkloadError> {
    let source: &'static Source = Box::leak(Box::new(source));
    let bare = Setting {
        origin: &source.origin,
        scale: 1,
        effort_permille: 1000,
        params: Vec::new(),
        param: &|_| String::new(),
    };
    let params = leak_all(params(&Fields::top(&bare, &source.tree)?)?);
    let setting = Setting {
        params: params.iter().map(|p| p.name).collect(),
        param: &|name| {
            let own = params.iter().find(|p| p.name == name);
            own.map_or_else(String::new, |p| p.default.to_owned())
        },
        ..bare
    };
    let top = Fields::top(&setting, &source.tree)?;
    let scale = top.read("scale", |item| {
        parse_scale(&item.word()?).map_err(|e| item.error(e.to_string()))
    })?;
    let setting = Setting {
        scale: scale.unwrap_or(1),
        params: setting.params.clone(),
        ..setting
    };
    let top = Fields::top(&setting, &source.tree)?;
    let description = Description::read(&setting, &source.tree)?;
    let machines: Vec<&str> = description
        .machines
        .iter()
        .map(|m| m.name.as_str())
        .collect();
    let names = results::names(&description.results, &description.machines);
    let specs: &'static [ClaimSpec] = leak_all(claims::read(&top, &names)?);
    let mechanism = match top.get("mechanism")? {
        None => names.clone(),
        Some(list) => {
            let mut all = Vec::new();
            for item in list.list()? {
                let name = item.text()?;
                if !names.contains(&name) {
                    return Err(item.unknown("result", names.iter().map(String::as_str)));
                }
                all.push(name);
            }
            all
        }
    };
    let extra = top.read("variants", |item| {
        item.list()?.iter().map(variant).collect()
    })?;
    let extra: Vec<&'static str> = extra.unwrap_or_default();
    let fixed = top.flag("fixed_scale", false)?.then_some(setting.scale);
    let experiment = Experiment {
        name: match top.read("name", Item::name)? {
            Some(name) => leak(name),
            None => leak(stem),
        },
        doc: leak(top.text("about", "")?),
        source: leak(top.text("source", &source.origin)?),
        before: top.read("before", variant)?.unwrap_or("base"),
        after: top.read("after", variant)?.unwrap_or("v5"),
        extra: leak_all(extra),
        effort: effort(&top)?,
        quick: Quick::WHOLE,
        scale: setting.scale,
        params,
        costs: leak_all(description.charged()),
        deviations: leak_all(deviations(&top, &machines)?),
        hosts: Box::leak(Box::new(move |input: &RunInput| source.hosts(input))),
        run: Box::leak(Box::new(move |input: &RunInput| source.run(input, fixed))),
        claims: Box::leak(Box::new(move |before: &str, after: &str| -> Vec<Claim> {
            specs.iter().map(|spec| spec.about(before, after)).collect()
        })),
        mechanism: leak_all(mechanism.into_iter().map(leak).collect()),
    };
    Ok(Box::leak(Box::new(experiment)))
}
