//! Curves as a table, JSON and CSV.

use super::{Curve, Curves, Point};
use crate::replay::MEMORY_MIN;
use crate::runner::show_pages;
use coldset_report::{human, wrap, Align, Cell, Number, Style, Table};
use std::ops::Range;
use Align::{Left, Right};

/// Policies side by side in one table; fewer if each figure carries its error.
const ABREAST: [usize; 2] = [8, 4];

/// Policies whose intervals held the exact ratio at all points of traces with and without phases.
const PROVEN: [&str; 4] = ["lru", "lru-stack", "opt", "arc"];
/// What is to be said of the others.
const UNPROVEN: &str = "± holds for lru, opt and arc. Others can be farther off where a program goes from one set of pages to \
     another:\nof sieve, 3 of 15 such points were.\n";

impl Curves {
    /// What is different between kernels' policies and the others; none: there are none, or nothing else.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let kernel = self.kernel_pages?;
        let names = self.kernels.join(", ");
        let verb = if self.kernels.len() == 1 { "is" } else { "are" };
        let memory = match kernel {
            0 => String::new(),
            pages => format!(
                ", and up to {} of the limit are kernel memory",
                show_pages(pages)
            ),
        };
        let others = match self.kernels.len() < self.curves.len() {
            true => " The others are caches of pages alone, with all of the limit.",
            false => "",
        };
        Some(format!(
            "{names} {verb} replayed as by `coldset lab replay`: pages leave in batches of 32{memory}.{others}"
        ))
    }

    /// Miss ratios: a row a size, a column a policy.
    #[must_use]
    pub fn table(&self, policies: Range<usize>) -> Table {
        let some = &self.curves[policies.clone()];
        let mut columns = vec![("memory", Right), ("of pages", Right)];
        columns.extend(some.iter().map(|c| (c.policy.as_str(), Right)));
        let mut table = Table::new(columns);
        for &pages in &self.sizes {
            let share = 100.0 * pages as f64 / self.unique_pages.max(1) as f64;
            let mut row = vec![memory(pages).into(), format!("{share:.1} %").into()];
            let of = |(i, curve): (usize, &Curve)| {
                let at = curve.points.iter().position(|p| p.pages == pages);
                let place = |j| format!("/curves/{i}/points/{j}/miss_ratio");
                at.map_or_else(Cell::missing, |j| curve.points[j].cell(place(j)))
            };
            row.extend(policies.clone().zip(some).map(of));
            table.row(row);
        }
        table
    }
}

impl Point {
    fn cell(&self, pointer: String) -> Cell {
        let shown = match self.error {
            None | Some(0.0) => format!("{:.3} %", 100.0 * self.miss_ratio),
            Some(e) => format!("{:.2} ± {:.2} %", 100.0 * self.miss_ratio, 100.0 * e),
        };
        Cell::number(shown, Number::Real(self.miss_ratio), pointer)
    }
}

/// As many tables as it takes.
#[must_use]
pub fn render_mrc(curves: &Curves, style: Style) -> String {
    let abreast = ABREAST[usize::from(curves.sampled.is_some())];
    let tables: Vec<String> = (0..curves.curves.len())
        .step_by(abreast)
        .map(|i| i..curves.curves.len().min(i + abreast))
        .map(|policies| curves.table(policies).text(style))
        .collect();
    let mut out = tables.join("\n");
    if let Some(remark) = curves.remark() {
        out.push_str(&format!("\n{}\n", wrap(&remark, 80)));
    }
    if !curves.kernels.is_empty() && curves.sizes.iter().any(|&pages| pages < MEMORY_MIN) {
        out.push_str(&format!(
            "\n- : too small for a replay, and so for a kernel's policy: {MEMORY_MIN} pages are the least\n"
        ));
    }
    if let Some(s) = &curves.sampled {
        out.push_str(&format!(
            "\nEstimated from {} samples of {} % of the pages each: {} pages, {} references.\n± is half of \
             the 95 % interval over the samples, and twice what halving them changes; at most {:.2} %.\n\
             - : too small to be sampled. Without ±: memory for all pages, which needs no samples.\n",
            s.samples,
            (1e6 * s.rate).round() / 1e4,
            human(s.pages as f64),
            human(s.references as f64),
            100.0 * s.largest_error
        ));
        let points = || curves.curves.iter().flat_map(|c| &c.points);
        let void = points().filter(|p| p.is_void(s.least_ratio)).count();
        if void > 0 {
            out.push_str(&format!(
                "{void} of {} figures say nothing, their intervals hold every ratio there can be: too few sampled pages; \
                 raise --sample.\n",
                points().count()
            ));
        }
        let unproven = curves
            .curves
            .iter()
            .any(|c| !PROVEN.contains(&c.policy.as_str()));
        if unproven {
            out.push_str(UNPROVEN);
        }
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

/// A row a point, for CSV.
#[must_use]
pub fn mrc_table(curves: &Curves) -> Table {
    let columns = ["policy", "pages", "misses", "miss_ratio", "error"];
    let mut table = Table::new(columns.map(|name| (name, Left)));
    for curve in &curves.curves {
        for p in &curve.points {
            // CSV keeps the shortest digits that read back the same.
            table.row([
                (&curve.policy).into(),
                Cell::from(p.pages),
                p.misses.into(),
                p.miss_ratio.to_string().into(),
                p.error.map_or(String::new(), |e| e.to_string()).into(),
            ]);
        }
    }
    table
}
