//! A table as aligned text or Markdown.

use super::{Align, Cell, Column, Table};
use crate::shown::half;
use comfy_table::{
    presets, CellAlignment, ColumnConstraint, ContentArrangement, TableComponent, Width,
};

/// Widest plain table where nobody says how wide the terminal is; longer cells wrap.
const WIDTH: u16 = 118;
/// Narrowest terminal that tables are fitted to.
const NARROWEST: u16 = 40;
/// Blanks beside each column.
const PADDING: usize = 2;
/// Words of text up to this length are not broken.
const WORD: usize = 24;

/// How tables look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// For a terminal or a mail: spaces, one line under the header.
    #[default]
    Plain,
    /// The same for a terminal of so many columns.
    Columns(u16),
    /// GitHub's Markdown.
    Markdown,
}

impl Style {
    fn width(self) -> Option<u16> {
        match self {
            Self::Plain => Some(WIDTH),
            Self::Columns(width) => Some(width.max(NARROWEST)),
            Self::Markdown => None,
        }
    }
}

/// Length of the longest piece.
fn longest<'a>(pieces: impl Iterator<Item = &'a str>) -> usize {
    pieces.map(|p| p.chars().count()).max().unwrap_or(0)
}

/// A heading with a line for each switch of a variant, to be narrow without breaking a word.
fn narrow(heading: &str) -> String {
    heading.replace('+', "\n+")
}

impl Table {
    /// The table with a final newline and no trailing blanks. A caption is not part of it. If its columns do
    /// not fit side by side even with wrapped cells, the rest follow as further tables, each with the first
    /// column.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| shown(row)).collect();
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = style.width() else {
            return self.markdown(&cells);
        };
        let of = |column: usize| cells.iter().map(move |row| row[column].as_str());
        let natural = |column: usize| longest(of(column).chain([self.columns[column].0.as_str()]));
        let padded = |sum: usize, columns: usize| sum + PADDING * columns;
        let fits = |sum: usize, columns: usize| padded(sum, columns) <= usize::from(width);
        if fits(all.iter().map(|&c| natural(c)).sum(), all.len()) {
            return self.plain(&cells, &all, width, None);
        }
        let least: Vec<usize> = all
            .iter()
            .map(|&c| {
                let heading = narrow(&self.columns[c].0);
                let cell = match self.columns[c].1 {
                    Align::Right => longest(of(c)),
                    Align::Left => longest(of(c).flat_map(str::split_whitespace)).min(WORD),
                };
                cell.max(longest(heading.split_whitespace()))
            })
            .collect();
        let mut tables = vec![vec![0]];
        let mut sum = least.first().copied().unwrap_or(0);
        for c in all.into_iter().skip(1) {
            let last = tables.last_mut().expect("one is there");
            if last.len() > 1 && !fits(sum + least[c], last.len() + 1) {
                sum = least[0] + least[c];
                tables.push(vec![0, c]);
            } else {
                sum += least[c];
                last.push(c);
            }
        }
        let parts: Vec<String> = tables
            .iter()
            .map(|columns| self.plain(&cells, columns, width, Some(&least)))
            .collect();
        parts.join("\n")
    }

    /// Some of the columns. `least`: how narrow each may become; none: all fit as they are.
    fn plain(
        &self,
        cells: &[Vec<String>],
        columns: &[usize],
        width: u16,
        least: Option<&[usize]>,
    ) -> String {
        let mut text = comfy_table::Table::new();
        text.load_preset(presets::NOTHING);
        text.set_style(TableComponent::HeaderLines, '-');
        for blank in [
            TableComponent::VerticalLines,
            TableComponent::MiddleHeaderIntersections,
            TableComponent::LeftBorder,
            TableComponent::LeftHeaderIntersection,
            TableComponent::RightBorder,
            TableComponent::RightHeaderIntersection,
        ] {
            text.remove_style(blank);
        }
        text.set_content_arrangement(ContentArrangement::Dynamic);
        text.set_width(width);
        let heading = |c: usize| match least {
            Some(_) => narrow(&self.columns[c].0),
            None => self.columns[c].0.clone(),
        };
        text.set_header(columns.iter().map(|&c| heading(c)));
        for (column, &c) in text.column_iter_mut().zip(columns) {
            if let Some(least) = least {
                let wide = u16::try_from(least[c] + PADDING).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(wide)));
            }
            column.set_cell_alignment(alignment(&self.columns[c]));
        }
        for row in cells {
            text.add_row(columns.iter().map(|&c| &row[c]));
        }
        finish(text)
    }

    fn markdown(&self, cells: &[Vec<String>]) -> String {
        let mut text = comfy_table::Table::new();
        text.load_preset(presets::ASCII_MARKDOWN);
        text.set_header(self.columns.iter().map(|(name, _)| name));
        for (column, described) in text.column_iter_mut().zip(&self.columns) {
            column.set_cell_alignment(alignment(described));
        }
        for row in cells {
            text.add_row(row.iter().map(|cell| cell.replace('|', "\\|")));
        }
        finish(text)
    }
}

fn shown(row: &[Cell]) -> Vec<String> {
    row.iter().map(|c| c.shown(|_, x| half(x))).collect()
}

fn alignment((_, align): &Column) -> CellAlignment {
    match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    }
}

fn finish(mut text: comfy_table::Table) -> String {
    text.force_no_tty();
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(variants: &[&str]) -> Table {
        let columns = variants.iter().map(|v| (*v, Align::Right));
        let mut table = Table::new([("counter", Align::Left)].into_iter().chain(columns));
        for counter in ["workingset_refault_file", "pgscan"] {
            let row = [counter]
                .into_iter()
                .chain(variants.iter().map(|_| "1,234,567 \u{b1}89,012"));
            table.row(row);
        }
        table
    }

    #[test]
    fn tables_fit_the_terminal_and_break_no_word() {
        let variants = [
            "base",
            "base+smaller_batch=on",
            "base+smaller_batch=on+loop_end=fixed",
            "v5",
        ];
        for width in [60, 80, 100, 118, 200] {
            let text = table(&variants).text(Style::Columns(width));
            for line in text.lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}:\n{text}"
                );
            }
            for word in [
                "smaller_batch=on",
                "loop_end=fixed",
                "workingset_refault_file",
            ] {
                assert!(text.contains(word), "{width}: {word}\n{text}");
            }
            // No figure is left out, whole and on one line.
            assert_eq!(
                text.matches("1,234,567 \u{b1}89,012").count(),
                8,
                "{width}:\n{text}"
            );
        }
        let wide = table(&variants).text(Style::Columns(200));
        assert_eq!(wide.lines().count(), 4, "{wide}");
        assert!(
            wide.contains("base+smaller_batch=on+loop_end=fixed"),
            "{wide}"
        );
    }

    #[test]
    fn what_fits_is_as_it_is_everywhere() {
        let small = table(&["base", "v5"]);
        assert_eq!(small.text(Style::Plain), small.text(Style::Columns(80)));
    }
}
