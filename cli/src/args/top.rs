//! `coldset top`.

use clap::Args;
use std::time::Duration;

/// Arguments of `top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  coldset top                      processes with pools; if there is one, that one
  coldset top 4711                 live; q quits, tab is the next pool, p pauses
  coldset top 4711 --once          one table, with rates over one second
  coldset top 4711 --json | jq '.pools[0].latency.miss.count'

A process is seen if it was started with COLDSET_OBSERVE=1 or makes its pool with
PoolConfig::observe. Exit code 3: there is no such process, or it cannot be looked at.")]
pub struct TopArgs {
    /// Process to look at
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
    /// Print everything as JSON and end; without PID a list of all processes
    #[arg(long, conflicts_with = "once")]
    pub json: bool,
    /// Time between two looks, as 1s or 250ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(n) => (n, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().map(|n| n * unit);
    match seconds {
        Ok(s) if (0.05..=3600.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("write a time from 50ms to 3600s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "s", "1ms", "-1s", "inf", "nan", "1h"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
