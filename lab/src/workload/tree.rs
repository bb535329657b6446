//! The text of a workload as a tree that knows its lines.

use super::WorkloadError;
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// A value, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Line of its key, from 1; none if it comes from no file.
    pub line: Option<usize>,
    /// What is there.
    pub value: Value,
}

/// What can stand behind a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `"text"`.
    Text(String),
    /// `12`.
    Int(i64),
    /// `1.2`.
    Real(f64),
    /// `true`.
    Flag(bool),
    /// `[1, 2]`.
    List(Vec<Node>),
    /// `{ key = value }`, or a section.
    Table(Vec<(String, Node)>),
    /// Anything else, by its kind.
    Other(&'static str),
}

impl Value {
    /// For messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Int(_) => "a whole number",
            Self::Real(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }

    /// What a parameter's text stands for.
    pub fn of_text(text: &str) -> Self {
        let text = text.trim();
        if let Ok(n) = text.parse() {
            return Self::Int(n);
        }
        match (text.parse(), text) {
            (Ok(x), _) => Self::Real(x),
            (_, "true") => Self::Flag(true),
            (_, "false") => Self::Flag(false),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// As a parameter's text; none if it has parts.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Int(n) => Some(n.to_string()),
            Self::Real(x) => Some(x.to_string()),
            Self::Flag(on) => Some(on.to_string()),
            Self::List(_) | Self::Table(_) | Self::Other(_) => None,
        }
    }
}

/// Reads TOML.
pub(super) fn of_toml(origin: &str, text: &str) -> Result<Node, WorkloadError> {
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|e| WorkloadError {
        origin: origin.into(),
        line: e.span().map(|span| line_of(span.start)),
        key: String::new(),
        problem: format!("this is no TOML: {}", e.message().replace('\n', "; ")),
    })?;
    Ok(Node {
        line: None,
        value: table_of(table.into_inner(), &line_of),
    })
}

fn table_of(table: DeTable<'_>, line_of: &dyn Fn(usize) -> usize) -> Value {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let at = key.span().start;
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        (key.into_owned(), node_of(value, at, line_of))
    };
    Value::Table(entries.into_iter().map(entry).collect())
}

fn node_of(value: Spanned<DeValue<'_>>, at: usize, line_of: &dyn Fn(usize) -> usize) -> Node {
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
            .map_or(Value::Other("a number that is too large"), Value::Int),
        DeValue::Float(x) => x
            .as_str()
            .parse()
            .map_or(Value::Other("no number"), Value::Real),
        DeValue::Boolean(on) => Value::Flag(on),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(list) => {
            let one = |v: Spanned<DeValue<'_>>| {
                let at = v.span().start;
                node_of(v, at, line_of)
            };
            Value::List(list.into_iter().map(one).collect())
        }
        DeValue::Table(table) => table_of(table, line_of),
    };
    Node {
        line: Some(line_of(at)),
        value,
    }
}

/// The same of JSON, which has no lines to name.
pub(super) fn of_json(json: &Json) -> Node {
    let value = match json {
        Json::Null => Value::Other("nothing"),
        Json::Bool(on) => Value::Flag(*on),
        Json::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => Value::Int(n),
            (None, Some(x)) => Value::Real(x),
            (None, None) => Value::Other("no number"),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(list) => Value::List(list.iter().map(of_json).collect()),
        Json::Object(map) => {
            let entry = |(key, value): (&String, &Json)| (key.clone(), of_json(value));
            Value::Table(map.iter().map(entry).collect())
        }
    };
    Node { line: None, value }
}
