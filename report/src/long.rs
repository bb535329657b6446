//! Every value of a result, one a row: what programs read as CSV.

use crate::{Align, Cell, ExperimentResult, RunResult, Table};

fn table(columns: &[&str]) -> Table {
    Table::new(columns.iter().map(|name| (*name, Align::Left)))
}

/// `variant,seed,counter,value`, variants and counters in the order of the result.
#[must_use]
pub fn values_table(result: &ExperimentResult) -> Table {
    let mut table = table(&["variant", "seed", "counter", "value"]);
    for (variant, counters) in &result.variants {
        for (index, &seed) in result.seeds.iter().enumerate() {
            for (counter, summary) in counters {
                let value = summary.per_seed[index];
                table.row([
                    Cell::from(variant),
                    seed.into(),
                    counter.into(),
                    value.into(),
                ]);
            }
        }
    }
    table
}

/// `variant,seed,series,at_ns,value` for all series of the runs.
#[must_use]
pub fn series_table(runs: &[RunResult]) -> Table {
    let mut table = table(&["variant", "seed", "series", "at_ns", "value"]);
    for run in runs {
        for (name, points) in &run.series {
            for &(at_ns, value) in points {
                let variant = Cell::from(&run.variant);
                table.row([
                    variant,
                    run.seed.into(),
                    name.into(),
                    at_ns.into(),
                    value.into(),
                ]);
            }
        }
    }
    table
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
        series_table(&[run]).csv(&mut out).unwrap();
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
        values_table(&result).csv(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "variant,seed,counter,value\n\"v,1\",1,a,1\n\"v,1\",1,b,3\n\"v,1\",2,a,2.5\n\"v,1\",2,b,4\n"
        );
    }
}
