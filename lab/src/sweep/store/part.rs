//! Finished cells as a Parquet file in long form: one line a counter.

use crate::sweep::SweepError;
use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The columns. A new column is another number behind `coldset.rows`.
const SCHEMA: &str = "message sweep {
    required binary key (UTF8);
    required binary version (UTF8);
    required binary experiment (UTF8);
    required binary trace (UTF8);
    required int64 memory_pages;
    required binary variant (UTF8);
    required int64 seed;
    required binary scale (UTF8);
    required double effort;
    required binary switches (UTF8);
    required binary costs (UTF8);
    required binary params (UTF8);
    required binary counter (UTF8);
    required double value;
}";
/// Entry of the footer that names the form.
const FORM: (&str, &str) = ("coldset.rows", "1");
/// Entry with the keys of the cells.
const KEYS: &str = "coldset.keys";

/// A finished cell. In the file it is a line for each counter, the other columns repeated. It can be sent
/// to another process as JSON, to the last digit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Hash of the configuration, the seed and the version.
    pub key: String,
    /// Version that computed it.
    pub version: String,
    /// Experiment, or `replay`.
    pub experiment: String,
    /// File of a replay as it was written; empty for experiments.
    pub trace: String,
    /// Limit of a replay in pages; 0 for experiments, whose limit is a parameter.
    pub memory_pages: u64,
    /// Variant as it was written.
    pub variant: String,
    /// Seed; 0 for replays.
    pub seed: u64,
    /// Scale, `1/64`.
    pub scale: String,
    /// Effort.
    #[serde(with = "exact")]
    pub effort: f64,
    /// Switches in which it differs from the variant's preset, as a JSON object.
    pub switches: String,
    /// Costs that were given, as a JSON object.
    pub costs: String,
    /// Parameters that were given, as a JSON object; of a replay its other settings.
    pub params: String,
    /// Counters. Whole numbers above 2^53 are rounded.
    #[serde(with = "exact_pairs")]
    pub counters: Vec<(String, f64)>,
}

/// A double as its bits.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.to_bits())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

/// Names and doubles as their bits.
mod exact_pairs {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(pairs: &[(String, f64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(pairs.iter().map(|(name, value)| (name, value.to_bits())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, f64)>, D::Error> {
        let pairs = Vec::<(String, u64)>::deserialize(from)?;
        let value = |(name, bits)| (name, f64::from_bits(bits));
        Ok(pairs.into_iter().map(value).collect())
    }
}

/// Finished cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(pub Vec<Row>);

/// A column that is the same for all counters of a cell.
enum Column {
    Text(fn(&Row) -> &str),
    Int(fn(&Row) -> u64),
    Real(fn(&Row) -> f64),
}

/// The columns before `counter` and `value`, in the order of the schema.
const COLUMNS: [Column; 12] = [
    Column::Text(|r| &r.key),
    Column::Text(|r| &r.version),
    Column::Text(|r| &r.experiment),
    Column::Text(|r| &r.trace),
    Column::Int(|r| r.memory_pages),
    Column::Text(|r| &r.variant),
    Column::Int(|r| r.seed),
    Column::Text(|r| &r.scale),
    Column::Real(|r| r.effort),
    Column::Text(|r| &r.switches),
    Column::Text(|r| &r.costs),
    Column::Text(|r| &r.params),
];

fn put<T: DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: &[T::T]) -> Result<()> {
    let missing = || ParquetError::General("a column more than the schema has".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn encode(file: File, rows: &Rows) -> Result<File> {
    let keys: Vec<&str> = rows.0.iter().map(|r| r.key.as_str()).collect();
    let note = |name: &str, value: String| KeyValue::new(name.to_owned(), value);
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(format!("coldset {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            note(FORM.0, FORM.1.into()),
            note(KEYS, keys.join(" ")),
        ]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    // Each value as often as its cell has counters.
    fn times<T: Clone>(rows: &Rows, value: impl Fn(&Row) -> T) -> Vec<T> {
        let each = |row| std::iter::repeat_n(value(row), row.counters.len());
        rows.0.iter().flat_map(each).collect()
    }
    for column in &COLUMNS {
        match column {
            Column::Text(of) => {
                put::<ByteArrayType>(&mut group, &times(rows, |r| ByteArray::from(of(r))))?;
            }
            Column::Int(of) => put::<Int64Type>(&mut group, &times(rows, |r| of(r) as i64))?,
            Column::Real(of) => put::<DoubleType>(&mut group, &times(rows, of))?,
        }
    }
    let counters = || rows.0.iter().flat_map(|r| &r.counters);
    let names: Vec<ByteArray> = counters().map(|(n, _)| n.as_str().into()).collect();
    put::<ByteArrayType>(&mut group, &names)?;
    let values: Vec<f64> = counters().map(|(_, v)| *v).collect();
    put::<DoubleType>(&mut group, &values)?;
    group.close()?;
    writer.into_inner()
}

/// Writes a file and makes it durable.
pub(super) fn write(path: &Path, rows: &Rows) -> std::result::Result<(), SweepError> {
    let fail = |e: io::Error| SweepError::io(path, "writing results")(e);
    let file = File::create(path).map_err(fail)?;
    let file = encode(file, rows).map_err(|e| fail(io::Error::other(e)))?;
    file.sync_all().map_err(fail)
}

/// None if the file is gone.
fn open(path: &Path) -> std::result::Result<Option<SerializedFileReader<File>>, SweepError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(SweepError::io(path, "reading results")(e)),
    };
    let reader = SerializedFileReader::new(file).map_err(SweepError::foreign(path))?;
    if note(&reader, FORM.0) != Some(FORM.1) {
        return Err(SweepError::Foreign {
            path: path.to_owned(),
            why: "it does not have the columns of one".into(),
        });
    }
    Ok(Some(reader))
}

fn note<'a>(reader: &'a SerializedFileReader<File>, name: &str) -> Option<&'a str> {
    let notes = reader.metadata().file_metadata().key_value_metadata()?;
    notes.iter().find(|n| n.key == name)?.value.as_deref()
}

/// Keys of the cells of a file; none if it is gone.
pub(super) fn keys(path: &Path) -> std::result::Result<Option<Vec<String>>, SweepError> {
    let Some(reader) = open(path)? else {
        return Ok(None);
    };
    let keys = note(&reader, KEYS).unwrap_or_default();
    Ok(Some(keys.split_whitespace().map(String::from).collect()))
}

/// The cells of a file; none if it is gone.
pub(super) fn read(path: &Path) -> std::result::Result<Rows, SweepError> {
    let mut rows = Rows::default();
    if let Some(reader) = open(path)? {
        for index in 0..reader.num_row_groups() {
            reader
                .get_row_group(index)
                .and_then(|group| decode(group.as_ref(), &mut rows))
                .map_err(SweepError::foreign(path))?;
        }
    }
    Ok(rows)
}

fn take<T: DataType>(group: &dyn RowGroupReader, index: usize) -> Result<Vec<T::T>> {
    let lines = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
    let mut values = Vec::with_capacity(lines);
    while values.len() < lines {
        let (_, read, _) = reader.read_records(lines - values.len(), None, None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General("a column is short".into()));
        }
    }
    Ok(values)
}

fn texts(group: &dyn RowGroupReader, index: usize) -> Result<Vec<ByteArray>> {
    take::<ByteArrayType>(group, index)
}

fn decode(group: &dyn RowGroupReader, rows: &mut Rows) -> Result<()> {
    let text = |array: &ByteArray| array.as_utf8().map(str::to_owned);
    let keys = texts(group, 0)?;
    let [versions, experiments, traces] = [1, 2, 3].map(|i| texts(group, i));
    let (versions, experiments, traces) = (versions?, experiments?, traces?);
    let memory = take::<Int64Type>(group, 4)?;
    let variants = texts(group, 5)?;
    let seeds = take::<Int64Type>(group, 6)?;
    let scales = texts(group, 7)?;
    let efforts = take::<DoubleType>(group, 8)?;
    let [switches, costs, params, counters] = [9, 10, 11, 12].map(|i| texts(group, i));
    let (switches, costs, params, counters) = (switches?, costs?, params?, counters?);
    let values = take::<DoubleType>(group, 13)?;
    for i in 0..keys.len() {
        if i == 0 || keys[i] != keys[i - 1] {
            rows.0.push(Row {
                key: text(&keys[i])?,
                version: text(&versions[i])?,
                experiment: text(&experiments[i])?,
                trace: text(&traces[i])?,
                memory_pages: memory[i] as u64,
                variant: text(&variants[i])?,
                seed: seeds[i] as u64,
                scale: text(&scales[i])?,
                effort: efforts[i],
                switches: text(&switches[i])?,
                costs: text(&costs[i])?,
                params: text(&params[i])?,
                counters: Vec::new(),
            });
        }
        if let Some(row) = rows.0.last_mut() {
            row.counters.push((text(&counters[i])?, values[i]));
        }
    }
    Ok(())
}
