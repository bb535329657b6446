//! A table on a page.

use super::{Align, Cell, Look, Table};
use crate::shown::half_beside;
use maud::{html, Markup};

/// Words of more letters may take several lines.
const LONG: usize = 24;

impl Cell {
    fn markup(&self, align: Align) -> Markup {
        let class = match (self.look, align) {
            (Look::Good, _) => "good",
            (Look::Bad, _) => "bad",
            (Look::Code, _) => "code",
            (_, Align::Right) => "number",
            _ if self.text.chars().count() > LONG => "long",
            _ => "",
        };
        let text = match self.look {
            Look::Missing => "\u{2013}".to_owned(),
            _ => self.shown(half_beside),
        };
        let value = self.value.map(|v| v.to_string());
        let pointer = (!self.pointer.is_empty()).then_some(&self.pointer);
        html! {
            td class=[(!class.is_empty()).then_some(class)]
                data-value=[value] data-json=[pointer] { (text) }
        }
    }
}

impl Table {
    /// The table as an element of a page.
    pub(crate) fn markup(&self) -> Markup {
        html! {
            div class="wide" {
                table {
                    @if !self.caption.is_empty() { caption { (self.caption) } }
                    thead { tr {
                        @for (name, align) in &self.columns {
                            th scope="col" class=[(*align == Align::Right).then_some("number")] { (name) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr { @for (cell, (_, align)) in row.iter().zip(&self.columns) { (cell.markup(*align)) } }
                        }
                    }
                }
            }
        }
    }
}
