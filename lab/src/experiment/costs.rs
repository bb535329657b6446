//! What a run costs: the table of the machine, what an experiment declares to be different, and what
//! the command line says.

use coldset_machine::params::ParamError;
use coldset_machine::Params;

/// A row of the table of costs that is different in one experiment. There is no other way for an
/// experiment to change a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// The row.
    pub name: &'static str,
    /// Its value here.
    pub value: u64,
    /// The only machine of the run that has it, by [`super::Host::name`]; empty: all of them.
    pub machine: &'static str,
    /// Why the table does not do.
    pub why: &'static str,
    /// Where the value comes from.
    pub source: &'static str,
}

impl Deviation {
    /// For a report.
    #[must_use]
    pub fn shown(&self) -> coldset_report::Deviation {
        coldset_report::Deviation {
            name: format!("{}{}", self.machine, self.name),
            value: self.value,
            table: Params::default().get(self.name).unwrap_or_default(),
            why: self.why.into(),
            source: self.source.into(),
        }
    }
}

/// The table of costs, and which of its rows somebody has set for this run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    table: Params,
    set: Vec<&'static str>,
}

impl Costs {
    /// Sets a row. It wins over a deviation of the whole run.
    ///
    /// # Errors
    /// No such row, or a value that the machine cannot have.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), ParamError> {
        self.table.set(name, value)?;
        let name = Params::NAMES.iter().find(|n| **n == name);
        self.set.extend(name.filter(|n| !self.set.contains(n)));
        Ok(())
    }

    /// As set, before any deviation.
    pub fn table(&self) -> &Params {
        &self.table
    }

    /// The rows that were set, in the order of setting.
    pub fn were_set(&self) -> &[&'static str] {
        &self.set
    }

    /// The same with their values.
    pub fn rows_set(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let value = |&row: &&'static str| (row, self.table.get(row).expect("a row of the table"));
        self.set.iter().map(value)
    }

    /// All assumed rows times `num / den`: see [`Params::scaled_assumed`].
    #[must_use]
    pub fn scaled_assumed(&self, num: u64, den: u64) -> Self {
        Self {
            table: self.table.scaled_assumed(num, den),
            set: self.set.clone(),
        }
    }

    /// What holds on one machine of an experiment. A deviation of that machine alone makes it what it
    /// is, a control for instance, and holds in any case; one of the whole run is a default.
    ///
    /// # Panics
    /// If a deviation is about no row, or sets one to what it cannot be.
    #[must_use]
    pub fn on(&self, machine: &str, deviations: &[Deviation]) -> Params {
        let mut params = self.table.clone();
        let holds = |d: &&Deviation| match d.machine {
            "" => !self.set.contains(&d.name),
            own => own == machine,
        };
        for d in deviations.iter().filter(holds) {
            params.set(d.name, d.value).expect("a row and its value");
        }
        params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn deviation(name: &'static str, value: u64, machine: &'static str) -> Deviation {
        Deviation {
            name,
            value,
            machine,
            why: "",
            source: "",
        }
    }

    const TICK: Deviation = deviation("timer_hz", 250, "");
    const CONTROL: Deviation = deviation("delay_write_ns", 0, "control.");

    #[test]
    fn what_was_set_wins_over_the_run_and_not_over_a_control() {
        let mut costs = Costs::default();
        let both = [TICK, CONTROL];
        assert_eq!(costs.on("", &both).timer_hz, 250);
        assert_eq!(costs.on("", &both).delay_write_ns, 1_000_000_000);
        assert_eq!(costs.on("control.", &both).delay_write_ns, 0);
        // The table's own value, said aloud, is no deviation any more.
        costs.set("timer_hz", 1000).unwrap();
        costs.set("delay_write_ns", 7).unwrap();
        assert_eq!(costs.on("", &both).timer_hz, 1000);
        assert_eq!(costs.on("", &both).delay_write_ns, 7);
        assert_eq!(costs.on("control.", &both).delay_write_ns, 0);
        assert_eq!(costs.were_set(), ["timer_hz", "delay_write_ns"]);
        assert!(costs.set("timer_hx", 1).is_err());
    }
}
