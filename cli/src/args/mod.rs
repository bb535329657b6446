//! The command line.

mod advise;
mod checks;
mod docs;
mod experiments;
mod export;
mod forms;
mod kernel;
mod play;
mod runs;
mod sweep;
mod tasks;
mod top;
mod traces;
mod validate;

pub use checks::{FidelityArgs, FuzzArgs, RacesArgs};
pub use docs::{CompletionsArgs, ManArgs, ReferenceArgs};
pub use experiments::{
    AblateArgs, CompareArgs, PlanArgs, RunArgs, SensitivityArg, SizeArgs, VerifyArgs,
};
pub use export::{ExportArgs, WorkArgs};
pub use forms::{FormArgs, PointsArgs};
pub use kernel::{GuestArgs, KernelCommand, KernelPlayArgs};
pub use play::{PlayArgs, PlayWorkerArgs};
pub use sweep::{SweepArgs, SweepWorkerArgs};
pub use tasks::{TaskArgs, TasksArg};
pub use top::TopArgs;
pub use traces::{
    AccessArg, BoundsArg, ConvertArgs, DirtyLimitsArg, FileSystemArg, InspectArgs, LimitArg,
    MrcArgs, OnOff, PaceArg, ReplayArgs, ThpArg, TraceArgs,
};

pub use advise::AdviseArgs;
pub use runs::RunsArgs;
pub use validate::ValidateArgs;

use crate::output::{harmless, tell};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Page reclaim as a library: experiments, replays and checks; pools of running programs.
#[derive(Parser, Debug)]
#[command(
    name = "coldset",
    version,
    propagate_version = true,
    after_help = "\
Examples:
  coldset lab list
  coldset lab run mongodb --report mongodb.html
  coldset lab replay data/sqlite.pageops.zst --memory 25%
  coldset play data/sqlite.pageops.zst --memory 25% --variants v618
  coldset top 4711

Exit codes: 0 good, 1 a claim or a case is out of band, 2 usage, 3 environment."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Groups of commands.
#[allow(clippy::large_enum_variant, reason = "there is one, for a moment")]
#[derive(Subcommand, Debug)]
pub enum Command {
    /// The lab: policies side by side on a simulated machine
    #[command(after_help = "\
Examples:
  coldset lab run mongodb --seeds 3             an experiment, before and after
  coldset lab run mongodb --variants base,base+smaller_batch=on,v5
  coldset lab replay TRACE --memory 64MiB       a recorded trace over the policies
  coldset lab fidelity                          beside the counters of a real kernel")]
    Lab {
        /// What to do in the lab.
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Do what a trace says on the kernel that runs here, and count
    Play(PlayArgs),
    /// Other kernels, in virtual machines
    #[command(after_help = "\
Examples:
  coldset kernel list
  coldset kernel play trace.pageops --memory 16MiB --kernel debian:6.18,debian:7.2 --variants v618,v72")]
    Kernel {
        /// What to do with them.
        #[command(subcommand)]
        command: KernelCommand,
    },
    /// The first process of such a machine
    #[command(hide = true)]
    KernelGuest,
    /// The process that does the accesses of `play`
    #[command(hide = true)]
    PlayWorker(PlayWorkerArgs),
    /// Pools of running processes: budget, rates, latencies, groups with their generations
    Top(TopArgs),
    /// Completions of this command for a shell
    Completions(CompletionsArgs),
    /// Manual pages of this command and all below it
    Man(ManArgs),
    /// The reference of the documentation, from the tables of the code
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

/// Commands of the lab.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// List experiments, variants, switches, trace formats and devices
    List(ListArgs),
    /// Run an experiment over variants and seeds and judge its claims
    Run(RunArgs),
    /// Run all experiments and print one acceptance table
    Verify(VerifyArgs),
    /// Which change carries the gain: each patch alone, and each taken away
    Ablate(AblateArgs),
    /// Run a whole grid of configurations; it can be interrupted and resumed
    Sweep(SweepArgs),
    /// Compute cells of a sweep, named on standard input
    #[command(hide = true)]
    SweepWorker(SweepWorkerArgs),
    /// Compare two results that run has written as JSON, seed by seed
    Compare(CompareArgs),
    /// Replay a trace over variants, beside exact LRU and OPT
    Replay(ReplayArgs),
    /// Miss-ratio curves of policies over sizes of memory
    Mrc(MrcArgs),
    /// What less memory costs a trace: reads, swap traffic and time, against today's
    Advise(AdviseArgs),
    /// Replay a trace and show what the lists hold at a point of it
    Inspect(InspectArgs),
    /// Replay what ran on a real kernel and compare the counters
    Fidelity(FidelityArgs),
    /// Play a trace on kernels and replay it: prediction beside measurement, and the changes between kernels
    Validate(ValidateArgs),
    /// List the costs of the simulated machine, or the switches of a variant
    Params(ParamsArgs),
    /// Write what the tasks of an experiment do as a trace, for real kernels
    Export(ExportArgs),
    /// Convert a trace of any known format to pageops
    Convert(ConvertArgs),
    /// Throw random operations at a simulated machine and check it all the time
    Fuzz(FuzzArgs),
    /// Explore all interleavings of dirty eviction with writers, pins, truncation and others
    Races(RacesArgs),
}

/// Arguments of `list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab list
  coldset lab list --params            experiments with their parameters
  coldset lab list --switches          every switch, with its values
  coldset lab list --json | jq .variants")]
pub struct ListArgs {
    /// Also list the parameters of the experiments
    #[arg(long)]
    pub params: bool,
    /// Also list every switch with the values it takes
    #[arg(long)]
    pub switches: bool,
    /// As JSON, with everything
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `params`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset lab params
  coldset lab params nvme                  costs with \"nvme\" in their name
  coldset lab params --switches v5         what variant v5 is made of
  coldset lab params --switches base,v5    the switches in which they differ

Marks: P published, A assumed (claims must not depend on it), S a setting of the model.")]
pub struct ParamsArgs {
    /// Only those with this in their name
    #[arg(value_name = "TEXT")]
    pub filter: Option<String>,
    /// Switches of a variant; of several, those in which they differ
    #[arg(long, value_name = "VARIANT,...", value_delimiter = ',')]
    pub switches: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses the arguments. Help goes to standard output; a mistake is one line.
///
/// # Errors
/// The exit code, everything said.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, u8> {
    use clap::error::ErrorKind;
    read(arguments).map_err(|error| {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed pipe is no failure.
                let _ = error.print();
                0
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                2
            }
            _ => {
                tell(&format!("coldset: {}", one_line(&error)));
                2
            }
        }
    })
}

/// Reads a command line. A negative number is the value of the option before it, whose message says what may be there.
fn read(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> clap::error::Result<Cli> {
    fn with_negative(command: clap::Command) -> clap::Command {
        let option =
            |arg: clap::Arg| match arg.get_long().is_some() && arg.get_action().takes_values() {
                true => arg.allow_negative_numbers(true),
                false => arg,
            };
        command.mut_args(option).mut_subcommands(with_negative)
    }
    let arguments = arguments.into_iter().map(Into::into);
    let matches = with_negative(Cli::command()).try_get_matches_from(joined(arguments))?;
    Cli::from_arg_matches(&matches)
}

/// The same for what begins as a negative number, such as `-5MiB`, which would be an unknown option: it is joined to the
/// option before it, up to `--`.
fn joined(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut out, mut ended): (Vec<OsString>, bool) = (Vec::new(), false);
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        let digit = |c: char| c.is_ascii_digit();
        let is_negative = text.strip_prefix('-').is_some_and(|t| t.starts_with(digit));
        ended |= text == "--";
        match out.last_mut().filter(|last| takes_next(last)) {
            Some(option) if is_negative && !ended => {
                option.push("=");
                option.push(argument);
            }
            _ => out.push(argument),
        }
    }
    out
}

/// An option without its value, if it has one.
fn takes_next(word: &OsString) -> bool {
    let name = word.to_str().and_then(|w| w.strip_prefix("--"));
    name.is_some_and(|name| !name.is_empty() && !name.contains('='))
}

/// The arguments of `play`, from the words of its command line.
///
/// # Errors
/// The mistake, in one line.
pub fn play_args(words: impl IntoIterator<Item = String>) -> Result<PlayArgs, String> {
    match read(words) {
        Ok(Cli {
            command: Command::Play(args),
        }) => Ok(args),
        Ok(_) => Err("not the command play".into()),
        Err(error) => Err(one_line(&error)),
    }
}

/// The message of the parser without its usage text.
fn one_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let parts: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let line = parts.join("; ").replace(":; ", ": ").replace("tip: ", "");
    format!("{} (see --help)", harmless(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_negative_is_the_value_of_the_option_before() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (given, read) in [
            (
                "play x --memory -5MiB --low -1",
                "play x --memory=-5MiB --low=-1",
            ),
            ("play -5 --memory=4 -5", "play -5 --memory=4 -5"),
            ("play-worker --all -- --x -5", "play-worker --all -- --x -5"),
            ("play --memory -x", "play --memory -x"),
        ] {
            assert_eq!(joined(words(given).into_iter()), words(read));
        }
    }

    #[test]
    fn mistakes_take_one_line() {
        let message = |args: &[&str]| one_line(&read(args).unwrap_err());
        assert_eq!(
            message(&["coldset", "lab", "run"]),
            "the following required arguments were not provided: <EXPERIMENT> (see --help)"
        );
        let near = message(&["coldset", "lab", "run", "x", "--sedes", "3"]);
        assert!(near.contains("--seeds") && !near.contains('\n'), "{near}");
        assert_eq!(
            message(&["coldset", "lab", "replay", "x", "--swappiness", "-1"]),
            "invalid value '-1' for '--swappiness <N>': -1 is not in 0..=200 (see --help)"
        );
        let near = message(&["coldset", "lab", "replya"]);
        assert!(near.contains("'replay'") && !near.contains('\n'), "{near}");
    }
}
