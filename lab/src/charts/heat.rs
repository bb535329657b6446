//! Heat of pages: a picture of a trace, address by time.

use super::Chart;
use crate::traces::Trace;
use coldset_report::charts::heat_map;

/// Stretches of accesses, and of pages.
const COLUMNS: usize = 96;
const ROWS: usize = 48;

/// How often the pages of a trace are used, over its accesses. Its objects lie one above the other, each with the pages
/// up to the highest it uses.
#[must_use]
pub fn heat(trace: &Trace) -> Chart {
    let mut starts = Vec::new();
    let mut pages = 0u64;
    for object in &trace.objects {
        starts.push(pages);
        pages += u64::from(object.pages);
    }
    let accesses = trace.ops().len();
    let (columns, rows) = (
        COLUMNS.min(accesses.max(1)),
        ROWS.min(pages.max(1) as usize),
    );
    let mut counts = vec![0u64; columns * rows];
    for (at, op) in trace.ops().iter().enumerate() {
        let page = starts[usize::from(op.object)] + u64::from(op.page);
        let row = (u128::from(page) * rows as u128 / u128::from(pages)) as usize;
        counts[(at * columns / accesses) * rows + row] += 1;
    }
    let cells = counts.iter().enumerate().filter(|(_, &count)| count > 0);
    let cells = cells.map(|(i, &count)| {
        let (column, row) = ((i / rows) as u64, (i % rows) as u64);
        let share = |n: u64, of: usize, whole: u64| n * whole / of as u64;
        let across = |n| share(n, columns, accesses as u64);
        let up = |n| share(n, rows, pages);
        (
            [across(column), across(column + 1)],
            [up(row), up(row + 1)],
            count,
        )
    });
    heat_map(accesses as u64, cells)
}
