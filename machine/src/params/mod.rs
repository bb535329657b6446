//! Every cost of the simulated machine, by name, with its origin (`docs/rules/machine.md`;
//! `docs/rules/tlb.md#cost`; `docs/rules/machine.md#costs`). One set serves all experiments.

mod table;

#[cfg(test)]
mod tests;

use coldset_nearest::did_you_mean;

pub use table::Params;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Published; the source text says where.
    Published,
    /// Assumed. A claim must keep its sign when these are halved and doubled.
    Assumed,
    /// A setting of the model, such as HZ. It is neither measured nor varied.
    Setting,
}

impl Mark {
    /// The letter used in reports: P, A or S.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Published => 'P',
            Self::Assumed => 'A',
            Self::Setting => 'S',
        }
    }
}

/// One parameter as a report shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParamInfo {
    /// The name; its last part is the unit.
    pub name: &'static str,
    /// The value in use.
    pub value: u64,
    /// The value of [`Params::default`].
    pub default: u64,
    /// Published, assumed, or a setting.
    pub mark: Mark,
    /// The unit of the value.
    pub unit: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
    /// What the parameter is.
    pub what: &'static str,
    /// Charged by the loads of experiments; the machine itself does not read it.
    pub load: bool,
}

/// Why a parameter could not be set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParamError {
    /// No parameter has this name.
    #[error("no parameter is named '{name}'{hint}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The most similar name there is, or where the names are.
        hint: String,
    },
    /// The value is outside of what the model can work with.
    #[error("parameter '{name}' must be {min} to {max} {unit}, not {value}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// The value asked for.
        value: u64,
        /// The smallest value allowed.
        min: u64,
        /// The greatest value allowed.
        max: u64,
        /// The unit.
        unit: &'static str,
    },
}

/// The endings of parameter names, and the units they stand for.
const UNITS: [(&str, &str); 13] = [
    ("_bytes_per_s", "B/s"),
    ("_ns", "ns"),
    ("_bytes", "B"),
    ("_percent", "%"),
    ("_permille", "1/1000"),
    ("_ppm", "1/1000000"),
    ("_hz", "1/s"),
    ("_channels", "channels"),
    ("_pages", "pages"),
    ("_slots", "slots"),
    ("_ptes", "PTEs"),
    ("_requests", "requests"),
    ("_enabled", "0/1"),
];

/// The greatest value of any parameter: 10^15, so that sums of costs cannot overflow.
const MAX_VALUE: u64 = 1_000_000_000_000_000;

fn unit_of(name: &str) -> &'static str {
    let found = UNITS.iter().find(|(ending, _)| name.ends_with(ending));
    found.map_or("", |&(_, unit)| unit)
}

/// What the model can work with: divisors are not zero, shares are at most the whole.
fn range_of(name: &str) -> (u64, u64) {
    match (name, unit_of(name)) {
        ("zram_huge_class_bytes", _) => (0, 4096),
        ("zram_pool_overhead_permille", _) => (1000, 4000),
        ("pcp_batch_pages", _) => (1, 1 << 20),
        (_, "B/s") => (1, MAX_VALUE),
        (_, "channels") => (1, 1024),
        (_, "%") => (1, 100),
        (_, "0/1") => (0, 1),
        // Kernel memory may be pages, where jitter is a share.
        ("kernel_base_page_ppm", _) => (0, 1_000_000_000),
        (_, "1/1000000") => (0, 1_000_000),
        // A tick must last at least a nanosecond.
        (_, "1/s") => (1, 1_000_000_000),
        _ => (0, MAX_VALUE),
    }
}

impl Params {
    /// The value of a parameter.
    ///
    /// # Errors
    /// [`ParamError::Unknown`] with the most similar name.
    pub fn get(&self, name: &str) -> Result<u64, ParamError> {
        let found = self.describe().into_iter().find(|info| info.name == name);
        found.map(|info| info.value).ok_or_else(|| unknown(name))
    }

    /// Sets a parameter by name.
    ///
    /// # Errors
    /// [`ParamError::Unknown`] with the most similar name, [`ParamError::OutOfRange`] with the
    /// range. The parameters are unchanged then.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), ParamError> {
        let info = self.describe().into_iter().find(|info| info.name == name);
        let info = info.ok_or_else(|| unknown(name))?;
        let (min, max) = range_of(info.name);
        if !(min..=max).contains(&value) {
            return Err(ParamError::OutOfRange {
                name: info.name,
                value,
                min,
                max,
                unit: info.unit,
            });
        }
        *self.field_mut(name).expect("a described field") = value;
        Ok(())
    }

    /// The same parameters with every assumed value times `num / den`, rounded down but kept in
    /// range and not made zero: the sensitivity runs (`docs/rules/machine.md#costs`) use 1/2 and 2/1.
    ///
    /// # Panics
    /// If `den` is 0.
    #[must_use]
    pub fn scaled_assumed(&self, num: u64, den: u64) -> Self {
        assert!(den > 0, "a factor needs a denominator above 0");
        let mut scaled = self.clone();
        for info in self.describe() {
            if info.mark != Mark::Assumed || info.value == 0 {
                continue;
            }
            let (min, max) = range_of(info.name);
            let value = u128::from(info.value) * u128::from(num) / u128::from(den);
            let value = u64::try_from(value).unwrap_or(max).clamp(min.max(1), max);
            *scaled.field_mut(info.name).expect("a described field") = value;
        }
        scaled
    }
}

fn unknown(name: &str) -> ParamError {
    let mut hint = did_you_mean(name, Params::NAMES.iter().copied());
    if hint.is_empty() {
        hint.push_str("; list the parameters to see their names");
    }
    ParamError::Unknown {
        name: name.to_owned(),
        hint,
    }
}
