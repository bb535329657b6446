//! A table for programs: exact values instead of what is shown.

use super::{Cell, Table};
use serde_json::{Map, Value};
use std::io::Write;

impl Cell {
    fn exact(&self) -> String {
        self.value
            .map_or_else(|| self.text.clone(), |v| v.to_string())
    }
}

impl Table {
    /// Writes a heading and a line a row.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn csv(&self, out: impl Write) -> csv::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::exact))?;
        }
        writer.flush()?;
        Ok(())
    }

    /// A list of objects, one a row. Keys are the headings, but for the first: what a row is of is its `name`.
    #[must_use]
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| -> Map<String, Value> {
            let headings = self.columns.iter().skip(1).map(|(name, _)| name.clone());
            let keys = std::iter::once("name".to_owned()).chain(headings);
            let value = |cell: &Cell| match cell.value {
                Some(value) => value.to_json(),
                None => cell.text.as_str().into(),
            };
            keys.zip(row.iter().map(value)).collect()
        };
        self.rows
            .iter()
            .map(|row| Value::Object(object(row)))
            .collect()
    }
}
