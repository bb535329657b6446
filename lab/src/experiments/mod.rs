//! The published experiments (`docs/reference/experiments.md`), one file each.
//!
//! An experiment is a generator, its parameters and its acceptance rows. It knows nothing of
//! variants: the runner hands it switches, and the rows name "before" and "after" only.

pub mod aging_oom;
pub mod android_cold_start;
pub mod android_heavy;
pub mod browser;
pub mod dead_folios;
pub mod fairness;
pub mod fio_mmap;
pub mod kernel_build;
pub mod memcg_heat;
pub mod mongodb;
pub mod mysql;
pub mod phone;
pub mod slow_io;
pub mod throttling_oom;
pub mod tlb_stress;

use crate::rig::{Costs, Deviation, Effort, Host};
use coldset_engine::memcg::MemcgError;
use coldset_engine::Switches;
use coldset_machine::device::DeviceKind;
use coldset_machine::{MachineError, OpError, Params, SwapConfig};
use coldset_report::{Claim, RunResult};

/// One parameter of an experiment, settable with `--param name=value`.
#[derive(Clone, Copy, Debug)]
pub struct ParamDoc {
    /// Name.
    pub name: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// Meaning, with unit.
    pub doc: &'static str,
}

impl ParamDoc {
    /// The same parameter with another default.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }
}

/// The reclaim-loop series (`docs/rules/series.md`).
const SERIES: &str = "\"mm/mglru: improve reclaim loop and dirty folio handling\", Kairui Song, linux-mm, version 5, 12 April 2026";
/// Measurements on phones, in its thread.
const ANDROID: &str = "two replies to \"[PATCH v5 00/14] mm/mglru: improve reclaim loop and dirty folio handling\", linux-mm, April 2026";

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub doc: &'static str,
    /// Where its figures were published, by title and date.
    pub source: &'static str,
    /// Variant that stands for "before".
    pub before: &'static str,
    /// Variant that stands for "after".
    pub after: &'static str,
    /// Further variants that are run by default, shown between the two.
    pub extra: &'static [&'static str],
    /// What the effort 1 is of the published run.
    pub effort: Effort,
    /// Denominator of the default scale.
    pub scale: u64,
    /// Parameters.
    pub params: &'static [ParamDoc],
    /// Rows of the table of costs that its load charges; the machine's own need no mention.
    pub costs: &'static [&'static str],
    /// Rows of the table that are different here.
    pub deviations: &'static [Deviation],
    /// The machines of a run.
    pub hosts: fn(&RunInput) -> Result<Vec<Host>, ExperimentError>,
    /// Runs it once.
    pub run: fn(&RunInput) -> Result<RunResult, ExperimentError>,
    /// Its acceptance rows for a pair of variants.
    pub claims: fn(before: &str, after: &str) -> Vec<Claim>,
    /// Counters of the mechanism table, in order.
    pub mechanism: &'static [&'static str],
}

/// Fewest pages of a region that is scaled down.
pub const REGION_MIN: u64 = 64;

/// All experiments, in the order in which they are listed.
pub const EXPERIMENTS: &[Experiment] = &[
    mongodb::EXPERIMENT,
    fairness::EXPERIMENT,
    aging_oom::EXPERIMENT,
    throttling_oom::EXPERIMENT,
    mysql::EXPERIMENT,
    fio_mmap::EXPERIMENT,
    kernel_build::EXPERIMENT,
    slow_io::EXPERIMENT,
    tlb_stress::EXPERIMENT,
    android_cold_start::EXPERIMENT,
    android_heavy::EXPERIMENT,
    memcg_heat::EXPERIMENT,
    dead_folios::EXPERIMENT,
];

/// What one run is given.
#[derive(Clone, Debug)]
pub struct RunInput {
    /// Name of the variant, for the result only.
    pub variant: String,
    /// Its switches.
    pub switches: Switches,
    /// Seed.
    pub seed: u64,
    /// Denominator of the scale.
    pub scale: u64,
    /// Effort in thousandths: operations are multiplied by it.
    pub effort_permille: u64,
    /// The table of costs.
    pub costs: Costs,
    /// What is different from it here.
    pub deviations: &'static [Deviation],
    /// Rows that the load may charge.
    pub charged: &'static [&'static str],
    /// Values of the experiment's parameters that differ from their defaults.
    pub params: Vec<(String, String)>,
    /// Samples over virtual time to keep of each machine, at most; 0 = none.
    pub sample_points: usize,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The machine cannot be built.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Memcg settings.
    #[error(transparent)]
    Memcg(#[from] MemcgError),
    /// A draw cannot be built.
    #[error(transparent)]
    Draw(#[from] crate::draw::DrawError),
    /// An operation of the workload failed.
    #[error("{what}: {error}")]
    Op {
        /// What was being done.
        what: &'static str,
        /// Failure.
        error: OpError,
    },
    /// A parameter has a value that cannot be used.
    #[error("parameter '{name}' does not take '{value}': {expected}")]
    Param {
        /// Name.
        name: String,
        /// Value.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// A parameter that changes nothing as the others are.
    #[error("--param {name} has no effect: {why}; leave it out")]
    Unused {
        /// Name.
        name: &'static str,
        /// Why it has none.
        why: &'static str,
    },
    /// The scale leaves too little of the experiment.
    #[error("scale 1/{scale} leaves {what} of {left}; use 1/{max} or larger")]
    Scale {
        /// Denominator.
        scale: u64,
        /// What becomes too small.
        what: &'static str,
        /// What is left.
        left: u64,
        /// Greatest usable denominator.
        max: u64,
    },
}

impl std::fmt::Debug for Experiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Experiment({})", self.name)
    }
}

impl Experiment {
    /// One run of it, everything at its default.
    #[must_use]
    pub fn input(&self, variant: &str, switches: Switches) -> RunInput {
        RunInput {
            scale: self.scale,
            deviations: self.deviations,
            charged: self.costs,
            ..RunInput::new(variant, switches)
        }
    }

    /// Variants of a run that names none: before, the further ones, after.
    #[must_use]
    pub fn default_variants(&self) -> Vec<&'static str> {
        let mut names = vec![self.before];
        names.extend(self.extra);
        names.push(self.after);
        names
    }
}

/// Pages of a MiB.
pub(crate) const MIB: u64 = 256;

impl RunInput {
    /// A run at full size and effort, on the costs of the table.
    #[must_use]
    pub fn new(variant: &str, switches: Switches) -> Self {
        Self {
            variant: variant.into(),
            switches,
            seed: 1,
            scale: 1,
            effort_permille: 1000,
            costs: Costs::default(),
            deviations: &[],
            charged: &[],
            params: Vec::new(),
            sample_points: 0,
        }
    }

    /// The costs of one of its machines.
    pub fn costs_on(&self, machine: &str) -> Params {
        self.costs.on(machine, self.deviations)
    }

    /// A cost that the load charges.
    ///
    /// # Panics
    /// If the experiment does not declare it.
    pub fn cost(&self, name: &str) -> u64 {
        assert!(self.charged.contains(&name), "declare the cost {name}");
        self.costs_on("").get(name).expect("a row of the table")
    }

    /// The text of a parameter: as given, or its default.
    pub fn text<'a>(&'a self, docs: &'a [ParamDoc], name: &str) -> &'a str {
        self.params
            .iter()
            .rev()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .or_else(|| docs.iter().find(|d| d.name == name).map(|d| d.default))
            .expect("declared parameter")
    }

    /// A parameter that is a whole number.
    ///
    /// # Errors
    /// If it is not.
    pub fn number(&self, docs: &[ParamDoc], name: &str) -> Result<u64, ExperimentError> {
        let text = self.text(docs, name);
        text.parse()
            .map_err(|_| self.wrong(docs, name, "a whole number"))
    }

    /// That nobody has set parameters which change nothing, because of `why`.
    ///
    /// # Errors
    /// [`ExperimentError::Unused`] with the first one that is set.
    pub fn refuse(&self, names: &[&'static str], why: &'static str) -> Result<(), ExperimentError> {
        let set = |name: &&&'static str| self.params.iter().any(|(n, _)| n == **name);
        match names.iter().find(set) {
            Some(name) => Err(ExperimentError::Unused { name, why }),
            None => Ok(()),
        }
    }

    /// A parameter that is one of a few words.
    ///
    /// # Errors
    /// If it is none of them; `expected` lists them.
    pub fn word<T: Copy>(
        &self,
        docs: &[ParamDoc],
        name: &str,
        words: &[(&str, T)],
        expected: &'static str,
    ) -> Result<T, ExperimentError> {
        let text = self.text(docs, name);
        let found = words.iter().find(|(word, _)| *word == text);
        found
            .map(|&(_, value)| value)
            .ok_or_else(|| self.wrong(docs, name, expected))
    }

    /// A parameter that is a device.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn device(&self, docs: &[ParamDoc], name: &str) -> Result<DeviceKind, ExperimentError> {
        let device = self.text(docs, name).parse();
        device.map_err(|_| self.wrong(docs, name, "a device of `coldset lab list`"))
    }

    /// That a parameter cannot be what it is.
    pub fn wrong(&self, docs: &[ParamDoc], name: &str, expected: &'static str) -> ExperimentError {
        ExperimentError::Param {
            name: name.into(),
            value: self.text(docs, name).into(),
            expected,
        }
    }

    /// A parameter in MiB as pages at this scale.
    ///
    /// # Errors
    /// If it is no whole number.
    pub fn pages(&self, docs: &[ParamDoc], name: &str) -> Result<u64, ExperimentError> {
        Ok(self.number(docs, name)? * MIB / self.scale)
    }

    /// A parameter in MiB as the pages of a region at this scale, at least [`REGION_MIN`].
    ///
    /// # Errors
    /// If it is no whole number.
    pub fn region(&self, docs: &[ParamDoc], name: &str) -> Result<u64, ExperimentError> {
        Ok(self.pages(docs, name)?.max(REGION_MIN))
    }

    /// A host by the parameters `cpus`, `swap_mib` and `zram`, its algorithm.
    ///
    /// # Errors
    /// A value that is no whole number.
    pub fn zram_host(&self, docs: &[ParamDoc]) -> Result<Host, ExperimentError> {
        Ok(Host {
            cpus: self.number(docs, "cpus")?,
            swap: SwapConfig::Zram {
                pages: self.region(docs, "swap_mib")?.min(u64::from(u32::MAX)) as u32,
                algorithm: self.text(docs, "zram").into(),
            },
            ..Host::default()
        })
    }

    /// `n` at this scale, at least 1.
    pub fn scaled(&self, n: u64) -> u64 {
        (n / self.scale).max(1)
    }

    /// Operations at this scale and effort, at least 1.
    pub fn operations(&self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.effort_permille) / 1000 / u128::from(self.scale)).max(1)
            as u64
    }
}
