//! What an experiment is, and what a run of it is given: the declaration that rig, runner and reports
//! share. The published ones are in [`crate::experiments`].

mod bounds;
mod costs;
mod effort;
mod error;
mod host;
mod input;

pub(crate) use bounds::{most_pages, MEMBERS_MAX};
pub use costs::{Costs, Deviation};
pub use effort::{Effort, Quick};
pub use error::ExperimentError;
pub use host::{DirtySettings, Host, READ_AHEAD_KB};
pub(crate) use input::MIB;
pub use input::{Asked, ParamDoc, RunInput, REGION_MIN};

use coldset_engine::Switches;
use coldset_report::{Claim, RunResult};

/// What gives the machines of a run.
pub type Hosts = dyn Fn(&RunInput) -> Result<Vec<Host>, ExperimentError> + Send + Sync;
/// What runs an experiment once.
pub type Run = dyn Fn(&RunInput) -> Result<RunResult, ExperimentError> + Send + Sync;
/// What gives the acceptance rows for a pair of variants: before, after.
pub type Claims = dyn Fn(&str, &str) -> Vec<Claim> + Send + Sync;

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
    /// What a run is for `verify --quick`.
    pub quick: Quick,
    /// Denominator of the default scale.
    pub scale: u64,
    /// What `--param` can set.
    pub params: &'static [ParamDoc],
    /// Rows of the table of costs that its load charges; the machine's own need no mention.
    pub costs: &'static [&'static str],
    /// Rows of the table that are different here.
    pub deviations: &'static [Deviation],
    /// The machines of a run.
    pub hosts: &'static Hosts,
    /// Runs it once.
    pub run: &'static Run,
    /// Its acceptance rows for a pair of variants.
    pub claims: &'static Claims,
    /// Counters of the mechanism table, in order.
    pub mechanism: &'static [&'static str],
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
            declared: self.params,
            ..RunInput::new(variant, switches)
        }
    }

    /// That a run would take the parameters, as far as that is known without one.
    ///
    /// # Errors
    /// [`ExperimentError::Param`], [`ExperimentError::TooLarge`], or machines that cannot be.
    pub fn check(&self, input: &RunInput) -> Result<(), ExperimentError> {
        input.check_given()?;
        (self.hosts)(input).map(drop)
    }

    /// Runs it once, if the parameters fit.
    ///
    /// # Errors
    /// [`ExperimentError::TooLarge`], or whatever ends the run.
    pub fn run_once(&self, input: &RunInput) -> Result<RunResult, ExperimentError> {
        input.check_given()?;
        (self.run)(input)
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
