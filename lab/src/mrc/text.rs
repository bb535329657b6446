//! Curves as a table, JSON and CSV.

use super::Curves;
use crate::report::{human, Align, Grid, Style};
use crate::runner::show_pages;
use std::io::Write;

/// Policies side by side in one table; fewer if each figure carries its error.
const ABREAST: [usize; 2] = [8, 4];

/// Miss ratios: a row a size, a column a policy.
#[must_use]
pub fn render_mrc(curves: &Curves, style: Style) -> String {
    let mut out = String::new();
    let abreast = ABREAST[usize::from(curves.sampled.is_some())];
    for (i, some) in curves.curves.chunks(abreast).enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let mut columns = vec![("memory", Align::Right), ("of pages", Align::Right)];
        columns.extend(some.iter().map(|c| (c.policy.as_str(), Align::Right)));
        let mut grid = Grid::new(style, &columns);
        for &pages in &curves.sizes {
            let share = 100.0 * pages as f64 / curves.unique_pages.max(1) as f64;
            let mut row = vec![memory(pages), format!("{share:.1} %")];
            for curve in some {
                let point = curve.points.iter().find(|p| p.pages == pages);
                row.push(match point {
                    None => "-".into(),
                    Some(p) => match p.error {
                        None => format!("{:.3} %", 100.0 * p.miss_ratio),
                        Some(e) => format!("{:.2} ± {:.2} %", 100.0 * p.miss_ratio, 100.0 * e),
                    },
                });
            }
            grid.row(row);
        }
        out.push_str(&grid.render());
    }
    if let Some(s) = &curves.sampled {
        out.push_str(&format!(
            "\nEstimated from {} samples of {} % of the pages each: {} pages, {} references.\n± is half of \
             the 95 % interval over the samples, and twice what halving them changes; at most {:.2} %.\n\
             - : too small to be sampled.\n",
            s.samples,
            (1e6 * s.rate).round() / 1e4,
            human(s.pages as f64),
            human(s.references as f64),
            100.0 * s.largest_error
        ));
    }
    out
}

/// `64 MiB`.
fn memory(pages: u64) -> String {
    let text = show_pages(pages);
    let size = text.split_once('(').map(|(_, size)| size);
    size.map_or(text.clone(), |s| s.trim_end_matches(')').to_owned())
}

/// All of it.
#[must_use]
pub fn mrc_json(curves: &Curves) -> String {
    format!(
        "{}\n",
        serde_json::to_string_pretty(curves).expect("plain data")
    )
}

/// A line a point.
///
/// # Errors
/// Whatever the writer says.
pub fn write_mrc_csv(curves: &Curves, out: impl Write) -> Result<(), csv::Error> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["policy", "pages", "misses", "miss_ratio", "error"])?;
    for curve in &curves.curves {
        for p in &curve.points {
            csv.write_record([
                curve.policy.clone(),
                p.pages.to_string(),
                p.misses.to_string(),
                p.miss_ratio.to_string(),
                p.error.map_or(String::new(), |e| e.to_string()),
            ])?;
        }
    }
    csv.flush()?;
    Ok(())
}
