//! What one run is given.

use super::bounds::{self, most_pages};
use super::costs::{Costs, Deviation};
use super::error::ExperimentError;
use super::host::Host;
use crate::recording::Recording;
use coldset_engine::Switches;
use coldset_machine::device::DeviceKind;
use coldset_machine::{Params, SwapConfig};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// One parameter of an experiment, settable with `--param name=value`.
#[derive(Clone, Copy, Debug)]
pub struct ParamDoc {
    /// What comes before the `=`.
    pub name: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// Meaning, with unit.
    pub doc: &'static str,
    /// Greatest value; none: by the unit that the name ends in.
    most: Option<u64>,
    takes: Takes,
}

/// What can be told of a value before the run asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// A whole number.
    Whole,
    /// A number, which may have a fraction.
    Decimal,
    /// One of a few words, as a message lists them: `none, zram or disk`.
    Words(&'static str),
    /// Nothing: the run, or what says which machines it has, looks at it.
    Anything,
}

impl Takes {
    /// What goes with a default.
    const fn like(default: &str) -> Self {
        let (text, mut points, mut i) = (default.as_bytes(), 0, 0);
        while i < text.len() {
            match text[i] {
                b'0'..=b'9' => {}
                b'.' => points += 1,
                _ => return Self::Anything,
            }
            i += 1;
        }
        match points {
            0 if i > 0 => Self::Whole,
            1 if i > 1 => Self::Decimal,
            _ => Self::Anything,
        }
    }

    /// What is expected instead of a value that is not taken.
    fn instead_of(self, value: &str) -> Option<&'static str> {
        let (taken, expected) = match self {
            Self::Whole => (value.parse::<u64>().is_ok(), "a whole number"),
            Self::Decimal => (value.parse().is_ok_and(f64::is_finite), "a number"),
            Self::Words(list) => {
                let mut words = list.split(", ").flat_map(|words| words.split(" or "));
                (words.any(|word| word == value), list)
            }
            Self::Anything => (true, ""),
        };
        (!taken).then_some(expected)
    }
}

impl ParamDoc {
    /// A parameter. Where its default is a number, it takes nothing else.
    #[must_use]
    pub const fn new(name: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            default,
            doc,
            most: None,
            takes: Takes::like(default),
        }
    }

    /// The same parameter, one of a few words, such as `none, zram or disk`.
    #[must_use]
    pub const fn one_of(self, words: &'static str) -> Self {
        let takes = Takes::Words(words);
        Self { takes, ..self }
    }

    /// The same parameter, a number that may have a fraction.
    #[must_use]
    pub const fn decimal(self) -> Self {
        let takes = Takes::Decimal;
        Self { takes, ..self }
    }

    /// The same parameter, of whose values nothing is known before a run.
    #[must_use]
    pub const fn anything(self) -> Self {
        let takes = Takes::Anything;
        Self { takes, ..self }
    }

    /// The same parameter, a number that may be so great.
    #[must_use]
    pub const fn up_to(self, most: u64) -> Self {
        Self {
            most: Some(most),
            ..self
        }
    }

    /// The same parameter with another default.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }
}

/// Pages of a MiB.
pub(crate) const MIB: u64 = 256;

/// Fewest pages of a region that is scaled down.
pub const REGION_MIN: u64 = 64;

/// Names of the parameters that runs have asked for; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<Mutex<BTreeSet<String>>>);

impl Asked {
    fn note(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            names.insert(name.to_owned());
        }
    }

    /// The first of `params` that nothing has asked for, so that its value has changed nothing.
    pub fn never<'a>(&self, params: &'a [(String, String)]) -> Option<&'a str> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut given = params.iter().map(|(name, _)| name.as_str());
        given.find(|name| !names.contains(*name))
    }
}

/// What one run is given.
#[derive(Clone, Debug)]
pub struct RunInput {
    /// Name of the variant, for the result only.
    pub variant: String,
    /// Its switches.
    pub switches: Switches,
    /// Of all draws of the run.
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
    /// The experiment's parameters.
    pub declared: &'static [ParamDoc],
    /// Values of them that differ from their defaults.
    pub params: Vec<(String, String)>,
    /// Those that have been asked for.
    pub asked: Asked,
    /// Samples over virtual time to keep of each machine, at most; 0 = none.
    pub sample_points: usize,
    /// Is told what tasks do.
    pub recording: Option<Arc<Recording>>,
}

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
            declared: &[],
            params: Vec::new(),
            asked: Asked::default(),
            sample_points: 0,
            recording: None,
        }
    }

    /// The costs of one of its machines.
    pub fn costs_on(&self, machine: &str) -> Params {
        self.costs.on(machine, self.deviations)
    }

    /// Denominator of the scale of one of its machines.
    pub fn scale_on(&self, machine: &Host) -> u64 {
        machine.scale.unwrap_or(self.scale)
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
    pub fn text(&self, name: &str) -> &str {
        self.asked.note(name);
        self.params
            .iter()
            .rev()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .or_else(|| {
                self.declared
                    .iter()
                    .find(|d| d.name == name)
                    .map(|d| d.default)
            })
            .expect("declared parameter")
    }

    /// A parameter that is a whole number.
    ///
    /// # Errors
    /// If it is not, or greater than what a machine, or its time, has room for.
    pub fn number(&self, name: &str) -> Result<u64, ExperimentError> {
        let text = self.text(name);
        let number = text.parse();
        let number = number.map_err(|_| self.wrong(name, "a whole number"))?;
        self.fits(name, number)
    }

    /// `number`, which was given for a parameter. Defaults are not looked at: what they ask for is what there was.
    ///
    /// # Errors
    /// [`ExperimentError::TooLarge`].
    pub fn fits(&self, name: &str, number: u64) -> Result<u64, ExperimentError> {
        let declared = self.declared.iter().find(|d| d.name == name);
        let most = declared.and_then(|d| d.most);
        let most = most.unwrap_or_else(|| bounds::most(name, self.scale, most_pages()));
        let given = self.params.iter().any(|(n, _)| n == name);
        match given && number > most {
            true => Err(ExperimentError::TooLarge {
                name: name.into(),
                value: number,
                most,
            }),
            false => Ok(number),
        }
    }

    /// That all values that were given can be used, as far as that is known before minutes have passed until one of them is
    /// asked for.
    ///
    /// # Errors
    /// [`ExperimentError::Param`] or [`ExperimentError::TooLarge`] with the first that cannot.
    pub(super) fn check_given(&self) -> Result<(), ExperimentError> {
        for (name, value) in &self.params {
            let declared = self.declared.iter().find(|d| d.name == name);
            if let Some(expected) = declared.and_then(|d| d.takes.instead_of(value)) {
                return Err(ExperimentError::Param {
                    name: name.clone(),
                    value: value.clone(),
                    expected,
                });
            }
            for number in value.split(',').filter_map(|word| word.trim().parse().ok()) {
                self.fits(name, number)?;
            }
        }
        Ok(())
    }

    /// A share in per cent.
    ///
    /// # Errors
    /// [`ExperimentError::Param`] if it is no whole number up to 100.
    pub fn percent(&self, name: &str) -> Result<u64, ExperimentError> {
        let percent = self.number(name)?;
        match percent {
            0..=100 => Ok(percent),
            _ => Err(self.wrong(name, "a whole number up to 100")),
        }
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
        name: &str,
        words: &[(&str, T)],
        expected: &'static str,
    ) -> Result<T, ExperimentError> {
        let text = self.text(name);
        let found = words.iter().find(|(word, _)| *word == text);
        found
            .map(|&(_, value)| value)
            .ok_or_else(|| self.wrong(name, expected))
    }

    /// A parameter that is a device.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn device(&self, name: &str) -> Result<DeviceKind, ExperimentError> {
        let device = self.text(name).parse();
        device.map_err(|_| self.wrong(name, "a device of `coldset lab list`"))
    }

    /// That a parameter cannot be what it is.
    pub fn wrong(&self, name: &str, expected: &'static str) -> ExperimentError {
        ExperimentError::Param {
            name: name.into(),
            value: self.text(name).into(),
            expected,
        }
    }

    /// That the scale leaves only `left` of something; `max` is the greatest usable denominator.
    pub fn too_little(&self, what: &'static str, left: u64, max: u64) -> ExperimentError {
        ExperimentError::Scale {
            scale: self.scale,
            what,
            left,
            max,
        }
    }

    /// A parameter in MiB as pages at this scale.
    ///
    /// # Errors
    /// If it is no whole number.
    pub fn pages(&self, name: &str) -> Result<u64, ExperimentError> {
        Ok(self.number(name)? * MIB / self.scale)
    }

    /// A parameter in MiB as the pages of a region at this scale, at least [`REGION_MIN`].
    ///
    /// # Errors
    /// If it is no whole number.
    pub fn region(&self, name: &str) -> Result<u64, ExperimentError> {
        Ok(self.pages(name)?.max(REGION_MIN))
    }

    /// A host by the parameters `cpus`, `swap_mib` and `zram`, its algorithm.
    ///
    /// # Errors
    /// A value that is no whole number.
    pub fn zram_host(&self) -> Result<Host, ExperimentError> {
        Ok(Host {
            cpus: self.number("cpus")?,
            swap: SwapConfig::Zram {
                pages: self.region("swap_mib")?.min(u64::from(u32::MAX)) as u32,
                algorithm: self.text("zram").into(),
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
