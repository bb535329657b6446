//! A table as aligned text or Markdown.

use super::{Align, Cell, Table};
use crate::shown::half;
use comfy_table::{presets, CellAlignment, ContentArrangement, TableComponent};

/// Widest plain table in columns; longer cells wrap.
const WIDTH_MAX: u16 = 118;

/// How tables look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// For a terminal or a mail: spaces, one line under the header.
    #[default]
    Plain,
    /// GitHub's Markdown.
    Markdown,
}

impl Table {
    /// The table with a final newline and no trailing blanks. A caption is not part of it.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut text = comfy_table::Table::new();
        text.force_no_tty();
        match style {
            Style::Plain => {
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
                text.set_width(WIDTH_MAX);
            }
            Style::Markdown => {
                text.load_preset(presets::ASCII_MARKDOWN);
            }
        }
        text.set_header(self.columns.iter().map(|(name, _)| name));
        for (column, (_, align)) in text.column_iter_mut().zip(&self.columns) {
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        for row in &self.rows {
            let shown = |cell: &Cell| cell.shown(|_, x| half(x));
            text.add_row(row.iter().map(|cell| match style {
                Style::Plain => shown(cell),
                Style::Markdown => shown(cell).replace('|', "\\|"),
            }));
        }
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
