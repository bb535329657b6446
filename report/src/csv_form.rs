//! Long-form CSV: one row a counter value.

use std::io::Write;

use super::{ExperimentResult, RunResult};

/// Writes `variant,seed,counter,value`, variants and counters in result order.
///
/// # Errors
/// What the writer reports.
pub fn write_csv(result: &ExperimentResult, out: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(["variant", "seed", "counter", "value"])?;
    for (variant, counters) in &result.variants {
        for (index, seed) in result.seeds.iter().enumerate() {
            let seed = seed.to_string();
            for (counter, summary) in counters {
                let value = summary.per_seed[index].to_string();
                writer.write_record([variant, &seed, counter, &value])?;
            }
        }
    }
    writer.flush()?;
    Ok(())
}

/// Writes `variant,seed,series,at_ns,value` for all series of the runs.
///
/// # Errors
/// What the writer reports.
pub fn write_series_csv(runs: &[RunResult], out: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(["variant", "seed", "series", "at_ns", "value"])?;
    for run in runs {
        let seed = run.seed.to_string();
        for (name, points) in &run.series {
            for (at_ns, value) in points {
                let (at_ns, value) = (at_ns.to_string(), value.to_string());
                writer.write_record([&run.variant, &seed, name, &at_ns, &value])?;
            }
        }
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{header, runs};

    #[test]
    fn series_form() {
        let mut run = RunResult::new("v", 7);
        run.point("dirty", 0, 3u64);
        run.point("dirty", 1_000, 2.5);
        let mut out = Vec::new();
        write_series_csv(&[run], &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "variant,seed,series,at_ns,value\nv,7,dirty,0,3\nv,7,dirty,1000,2.5\n"
        );
    }

    #[test]
    fn long_form() {
        let runs = runs(&[("v,1", "a", &[1.0, 2.5]), ("v,1", "b", &[3.0, 4.0])]);
        let result = ExperimentResult::collect(header(), &runs, &[]).unwrap();
        let mut out = Vec::new();
        write_csv(&result, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "variant,seed,counter,value\n\"v,1\",1,a,1\n\"v,1\",1,b,3\n\"v,1\",2,a,2.5\n\"v,1\",2,b,4\n"
        );
    }
}
