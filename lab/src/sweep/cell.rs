//! One configuration under one seed, and its key.

use super::version::{hex, version};
use crate::experiment::{Costs, Experiment};
use crate::runner::{experiment, show_effort, show_scale, RunnerError, Variant};
use crate::traces::Trace;
use crate::workload;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// A limit as it was written and in pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// As written.
    pub text: String,
    /// What that comes to for the trace.
    pub pages: u64,
}

/// A file with a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadFile {
    /// The file from the root.
    pub path: PathBuf,
    /// Hash of what it says.
    pub content: String,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// An experiment.
    Experiment {
        /// Which one, as in `lab list`; or the file of a workload as it was written.
        name: String,
        /// The workload, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workload: Option<WorkloadFile>,
        /// Denominator of the scale.
        scale: u64,
        /// Effort in thousandths.
        effort_permille: u64,
        /// Parameters that are given.
        params: Vec<(String, String)>,
        /// Costs that are given.
        costs: Vec<(String, u64)>,
    },
    /// A trace under a limit.
    Replay {
        /// File as it was written.
        trace: String,
        /// The same from the root.
        path: PathBuf,
        /// Hash of its references.
        content: String,
        /// Limit.
        memory: Memory,
        /// Swap; none: zram as large as the trace if it has anonymous memory.
        swap: Option<String>,
        /// 0 to 200.
        swappiness: u16,
        /// Index nodes and page tables count against the limit.
        kernel_memory: bool,
        /// Costs that are given.
        costs: Vec<(String, u64)>,
    },
}

/// One configuration under one seed. It can be sent to another process as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// What is run.
    pub what: What,
    /// Variant as it was written.
    pub variant: String,
    /// Switches `NAME=VALUE` set before the variant's own.
    pub set: Vec<String>,
    /// Seed; 0 for replays, which draw nothing.
    pub seed: u64,
    /// Hash of all that decides the result.
    pub key: String,
}

/// Hash of the references of a trace, whatever file they come from.
pub(super) fn content(trace: &Trace) -> String {
    let mut hash = Sha256::new();
    for chunk in trace.ops().chunks(1 << 12) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|op| op.to_bytes()).collect();
        hash.update(&bytes);
    }
    hex(&hash.finalize())
}

fn object<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let map: Map<String, Value> = pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    Value::Object(map)
}

impl What {
    /// The experiment; none of a replay.
    ///
    /// # Errors
    /// Unknown names, a workload that cannot be read any more, or says something else by now.
    pub(super) fn experiment(&self) -> Result<Option<&'static Experiment>, RunnerError> {
        let Self::Experiment { name, workload, .. } = self else {
            return Ok(None);
        };
        let Some(file) = workload else {
            return experiment(name).map(Some);
        };
        match workload::fingerprint(&file.path)? {
            same if same == file.content => Ok(Some(workload::read(&file.path)?)),
            _ => Err(RunnerError::value(
                "workload",
                name,
                "it as it was when the sweep began: it has changed since; start the sweep again",
            )),
        }
    }
}

impl Cell {
    pub(super) fn new(what: &What, variant: &str, set: &[String], seed: u64) -> Self {
        Self {
            what: what.clone(),
            variant: variant.to_owned(),
            set: set.to_vec(),
            seed,
            key: String::new(),
        }
    }

    /// Computes the key.
    ///
    /// # Errors
    /// Unknown names or values.
    pub(super) fn seal(&mut self) -> Result<(), RunnerError> {
        self.key = self.key_of(version())?;
        Ok(())
    }

    /// Hash of the whole configuration: every switch, cost and parameter by its value, wherever
    /// it came from, the contents of the trace, and the version of the program. Names of variants
    /// and files are not in it.
    ///
    /// # Errors
    /// Unknown names or values.
    pub fn key_of(&self, version: &str) -> Result<String, RunnerError> {
        let text = self.canonical(version)?.to_string();
        Ok(hex(&Sha256::digest(text)))
    }

    fn canonical(&self, version: &str) -> Result<Value, RunnerError> {
        let switches = self.read_variant()?.switches.describe();
        let switches = object(switches.iter().map(|s| (s.name, json!(s.value))));
        let what = match &self.what {
            What::Experiment {
                name,
                workload,
                scale,
                effort_permille,
                params,
                ..
            } => {
                let given = |name: &str| params.iter().rev().find(|(n, _)| n == name);
                let experiment = match workload {
                    Some(file) => workload::read(&file.path)?,
                    None => experiment(name)?,
                };
                let name = match workload {
                    Some(file) => json!({"workload": file.content}),
                    None => json!(name),
                };
                let params = experiment.params.iter().map(|p| {
                    let value = given(p.name).map_or(p.default, |(_, v)| v.as_str());
                    (p.name, json!(value))
                });
                let costs = self.costs()?.on("", experiment.deviations).describe();
                let costs = object(costs.iter().map(|c| (c.name, json!(c.value))));
                json!({"experiment": name, "scale": scale, "effort_permille": effort_permille,
                       "params": object(params), "costs": costs})
            }
            What::Replay {
                content,
                memory,
                swap,
                swappiness,
                kernel_memory,
                ..
            } => {
                let costs = self.costs()?.on("", &[]).describe();
                let costs = object(costs.iter().map(|c| (c.name, json!(c.value))));
                json!({"trace": content, "memory_pages": memory.pages, "swap": swap,
                       "swappiness": swappiness, "kernel_memory": kernel_memory, "costs": costs})
            }
        };
        Ok(json!({"version": version, "run": what, "switches": switches, "seed": self.seed}))
    }

    /// The variant with the common switches.
    ///
    /// # Errors
    /// Unknown names or values.
    pub fn read_variant(&self) -> Result<Variant, RunnerError> {
        Variant::parse(&self.variant, &self.set)
    }

    /// Costs of the machine.
    ///
    /// # Errors
    /// Unknown names or values.
    pub fn costs(&self) -> Result<Costs, RunnerError> {
        let mut all = Costs::default();
        let (What::Experiment { costs, .. } | What::Replay { costs, .. }) = &self.what;
        for (name, value) in costs {
            all.set(name, *value)?;
        }
        Ok(all)
    }

    /// What is run, for tables: the experiment, or `replay`.
    #[must_use]
    pub fn experiment(&self) -> &str {
        match &self.what {
            What::Experiment { name, .. } => name,
            What::Replay { .. } => "replay",
        }
    }

    /// The file of its trace or of its workload; none: it reads none.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.what {
            What::Experiment { workload, .. } => workload.as_ref().map(|file| &*file.path),
            What::Replay { path, .. } => Some(path),
        }
    }

    /// Counters worth a look first, by name.
    #[must_use]
    pub fn headline(&self) -> Vec<String> {
        match &self.what {
            What::Experiment { .. } => match self.what.experiment() {
                Ok(Some(experiment)) => super::table::headline(experiment),
                _ => Vec::new(),
            },
            What::Replay { .. } => ["misses", "miss_ratio", "pgscan", "pgsteal"]
                .map(String::from)
                .to_vec(),
        }
    }

    /// All settings as they were written, by name, in order: `variant`, `seed`, and for
    /// instance `scale`, `set smaller_batch`, `cost nvme_read_lat_ns`, `param threads`.
    #[must_use]
    pub fn settings(&self) -> IndexMap<String, String> {
        let mut out = IndexMap::new();
        let mut put = |name: String, value: String| {
            out.insert(name, value);
        };
        match &self.what {
            What::Experiment {
                scale,
                effort_permille,
                params,
                costs,
                ..
            } => {
                put("scale".into(), show_scale(*scale));
                put("effort".into(), show_effort(*effort_permille));
                for (name, value) in params {
                    put(format!("param {name}"), value.clone());
                }
                for (name, value) in costs {
                    put(format!("cost {name}"), value.to_string());
                }
            }
            What::Replay {
                trace,
                memory,
                swap,
                swappiness,
                kernel_memory,
                costs,
                ..
            } => {
                put("trace".into(), trace.clone());
                put("memory".into(), memory.text.clone());
                put("swap".into(), swap.clone().unwrap_or_default());
                put("swappiness".into(), swappiness.to_string());
                let on = if *kernel_memory { "on" } else { "off" };
                put("kernel_memory".into(), on.into());
                for (name, value) in costs {
                    put(format!("cost {name}"), value.to_string());
                }
            }
        }
        for assignment in &self.set {
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            put(format!("set {name}"), value.to_owned());
        }
        put("variant".into(), self.variant.clone());
        put("seed".into(), self.seed.to_string());
        out
    }

    /// In one line, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        let defaults = ["", "60", "on"];
        let settings: Vec<String> = self
            .settings()
            .iter()
            .filter(|(name, value)| match name.as_str() {
                "swap" | "swappiness" | "kernel_memory" => !defaults.contains(&value.as_str()),
                "seed" => self.seed != 0,
                _ => true,
            })
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{}: {}", self.experiment(), settings.join(", "))
    }
}
