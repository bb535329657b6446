//! How often something is measured.

use crate::predict::limits_near;
use clap::Args;

/// Runs of a measurement.
#[derive(Args, Clone, Copy, Debug)]
pub struct RunsArgs {
    /// Runs, of which the mean and the spread are shown; those of a kernel are in one guest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// So many runs, each under a limit of its own, evenly spread from 0.4 % below --memory to 0.4 % above it: what a policy
    /// does may depend on a few pages
    #[arg(long, value_name = "N", conflicts_with = "repeat", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub near: Option<u32>,
}

impl RunsArgs {
    /// The limit of each run, pages.
    pub fn limits(self, memory: u64) -> Vec<u64> {
        match self.near {
            Some(count) => limits_near(memory, count),
            None => vec![memory; self.repeat as usize],
        }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.near.unwrap_or(self.repeat)
    }

    /// The same as a word of a command.
    pub fn argument(self) -> String {
        match self.near {
            Some(count) => format!("--near={count}"),
            None => format!("--repeat={}", self.repeat),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::args::play_args;

    #[test]
    fn runs_have_their_limits_in_a_guest_too() {
        let runs = |words: &[&str]| {
            let all = ["coldset", "play", "trace", "--memory=1000pages"];
            let all = all.iter().chain(words).map(|&word| word.to_owned());
            play_args(all).expect("arguments").runs
        };
        let near = runs(&["--near=5"]);
        assert_eq!(near.limits(1000), [996, 998, 1000, 1002, 1004]);
        assert_eq!(runs(&["--repeat=2"]).limits(1000), [1000, 1000]);
        // As a guest is told.
        assert_eq!(runs(&[&near.argument()]).limits(1000), near.limits(1000));
    }
}
