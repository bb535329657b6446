//! Aligned tables, plain or Markdown.

use comfy_table::{presets, CellAlignment, ContentArrangement, Table, TableComponent};

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

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table under construction.
pub struct Grid {
    table: Table,
    style: Style,
}

impl Grid {
    /// An empty table with these columns.
    #[must_use]
    pub fn new(style: Style, columns: &[(&str, Align)]) -> Self {
        let mut table = Table::new();
        table.force_no_tty();
        match style {
            Style::Plain => {
                table.load_preset(presets::NOTHING);
                table.set_style(TableComponent::HeaderLines, '-');
                for blank in [
                    TableComponent::VerticalLines,
                    TableComponent::MiddleHeaderIntersections,
                    TableComponent::LeftBorder,
                    TableComponent::LeftHeaderIntersection,
                    TableComponent::RightBorder,
                    TableComponent::RightHeaderIntersection,
                ] {
                    table.remove_style(blank);
                }
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(WIDTH_MAX);
            }
            Style::Markdown => {
                table.load_preset(presets::ASCII_MARKDOWN);
            }
        }
        table.set_header(columns.iter().map(|(name, _)| *name));
        for (column, (_, align)) in table.column_iter_mut().zip(columns) {
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Self { table, style }
    }

    /// Adds a row; as many cells as there are columns.
    pub fn row(&mut self, mut cells: Vec<String>) {
        if self.style == Style::Markdown {
            for cell in &mut cells {
                *cell = cell.replace('|', "\\|");
            }
        }
        self.table.add_row(cells);
    }

    /// True if it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.row_count() == 0
    }

    /// The table with a final newline and no trailing blanks.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        for line in self.table.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
