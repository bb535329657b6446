//! Values of a workload, read one key at a time.

use super::keys;
use super::tree::{Node, Value};
use super::WorkloadError;
use crate::runner::Size;
use coldset_nearest::did_you_mean;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// What values are read under.
pub(super) struct Setting<'a> {
    /// File, or what the workload was given as.
    pub origin: &'a str,
    /// Denominator of the scale.
    pub scale: u64,
    /// Effort in thousandths.
    pub effort_permille: u64,
    /// Names of the parameters.
    pub params: Vec<&'a str>,
    /// The text of a parameter.
    pub param: &'a dyn Fn(&str) -> String,
}

/// A table, or a list, or a value, and where it is.
#[derive(Clone)]
pub(super) struct Item<'a> {
    pub setting: &'a Setting<'a>,
    /// Key with the tables it is in.
    pub key: String,
    line: Option<usize>,
    value: Cow<'a, Value>,
}

/// A table whose keys are known to exist.
pub(super) struct Fields<'a> {
    pub setting: &'a Setting<'a>,
    section: &'static str,
    key: String,
    line: Option<usize>,
    entries: Vec<(&'a str, &'a Node)>,
}

/// From the first to the last, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Times {
    pub least: u64,
    /// Not one of them, unless it is the least.
    pub end: u64,
}

fn wrong(
    setting: &Setting<'_>,
    line: Option<usize>,
    key: &str,
    problem: impl Into<String>,
) -> WorkloadError {
    WorkloadError {
        origin: setting.origin.into(),
        line,
        key: key.into(),
        problem: problem.into(),
    }
}

impl<'a> Fields<'a> {
    /// The table at the top of a workload.
    pub fn top(setting: &'a Setting<'a>, node: &'a Node) -> Result<Self, WorkloadError> {
        Item::new(setting, String::new(), node)?.table("")
    }

    /// That a key is there, with its value.
    pub fn get(&self, key: &str) -> Result<Option<Item<'a>>, WorkloadError> {
        debug_assert!(
            keys::of(self.section).any(|k| k.name == key),
            "no row of keys.rs: {key}"
        );
        let found = self.entries.iter().find(|(name, _)| *name == key);
        found
            .map(|(_, node)| Item::new(self.setting, self.path(key), node))
            .transpose()
    }

    /// A value that must be there.
    pub fn need(&self, key: &str) -> Result<Item<'a>, WorkloadError> {
        self.get(key)?
            .ok_or_else(|| self.error(format!("'{key}' is missing")))
    }

    /// What `read` makes of a value, if it is there.
    pub fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Item<'a>) -> Result<T, WorkloadError>,
    ) -> Result<Option<T>, WorkloadError> {
        self.get(key)?.map(|item| read(&item)).transpose()
    }

    /// A switch.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, WorkloadError> {
        Ok(self.read(key, Item::flag)?.unwrap_or(default))
    }

    /// A text.
    pub fn text(&self, key: &str, default: &str) -> Result<String, WorkloadError> {
        Ok(self
            .read(key, Item::text)?
            .unwrap_or_else(|| default.to_owned()))
    }

    /// A whole number in a range.
    pub fn number(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, WorkloadError> {
        Ok(self
            .read(key, |item| item.number(range))?
            .unwrap_or(default))
    }

    /// The tables of a list.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Fields<'a>>, WorkloadError> {
        let Some(item) = self.get(key)? else {
            return Ok(Vec::new());
        };
        let all = item.list()?.into_iter();
        all.map(|one| one.table(key)).collect()
    }

    /// Keys that stand there, of some.
    pub fn given(&self, keys: &[&'static str]) -> Vec<&'static str> {
        let there = |key: &&&str| self.entries.iter().any(|(name, _)| *name == **key);
        keys.iter().filter(there).copied().collect()
    }

    fn path(&self, key: &str) -> String {
        match self.key.as_str() {
            "" => key.to_owned(),
            own => format!("{own}.{key}"),
        }
    }

    /// About the table as a whole.
    pub fn error(&self, problem: impl Into<String>) -> WorkloadError {
        wrong(self.setting, self.line, &self.key, problem)
    }
}

impl<'a> Item<'a> {
    fn new(setting: &'a Setting<'a>, key: String, node: &'a Node) -> Result<Self, WorkloadError> {
        let value = match &node.value {
            Value::Text(text) if text.starts_with('$') => {
                let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let text = &text[1..];
                let (name, behind) = text.split_at(text.find(|c| !inner(c)).unwrap_or(text.len()));
                if !setting.params.contains(&name) {
                    let near = did_you_mean(name, setting.params.iter().copied());
                    let what =
                        format!("there is no parameter '{name}'; declare it in [params]{near}");
                    return Err(wrong(setting, node.line, &key, what));
                }
                let given = (setting.param)(name);
                Cow::Owned(match behind {
                    "" => Value::of_text(&given),
                    unit => Value::Text(format!("{given}{unit}")),
                })
            }
            other => Cow::Borrowed(other),
        };
        Ok(Self {
            setting,
            key,
            line: node.line,
            value,
        })
    }

    /// About this value.
    pub fn error(&self, problem: impl Into<String>) -> WorkloadError {
        wrong(self.setting, self.line, &self.key, problem)
    }

    /// That it is something else: `expected` can be written here.
    pub fn expected(&self, expected: &str) -> WorkloadError {
        match &*self.value {
            Value::List(_) | Value::Table(_) | Value::Other(_) => self.error(format!(
                "{} stands here; write {expected}",
                self.value.kind()
            )),
            one => {
                let text = one.to_text().unwrap_or_default();
                self.error(format!("'{text}' cannot be used; write {expected}"))
            }
        }
    }

    /// That a name does not exist among `known` ones.
    pub fn unknown<'n>(
        &self,
        what: &str,
        known: impl IntoIterator<Item = &'n str> + Clone,
    ) -> WorkloadError {
        let name = self.value.to_text().unwrap_or_default();
        let near = did_you_mean(&name, known.clone());
        let all: Vec<&str> = known.into_iter().collect();
        let list = match all.len() {
            0 => "there are none".to_owned(),
            1..=12 => format!("known: {}", all.join(", ")),
            _ => format!("{} are known", all.len()),
        };
        self.error(format!("there is no {what} '{name}' ({list}){near}"))
    }

    /// A list or a table, not a single value.
    pub fn is_table(&self) -> bool {
        matches!(*self.value, Value::Table(_))
    }

    /// A list.
    pub fn is_list(&self) -> bool {
        matches!(*self.value, Value::List(_))
    }

    /// Its number, if it is one.
    pub fn as_real(&self) -> Option<f64> {
        match *self.value {
            Value::Int(n) => Some(n as f64),
            Value::Real(x) => Some(x),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self) -> Result<String, WorkloadError> {
        match &*self.value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(self.expected("a text")),
        }
    }

    /// A text, a number, true or false, as text.
    pub fn word(&self) -> Result<String, WorkloadError> {
        let text = self.value.to_text();
        text.ok_or_else(|| self.expected("a text, a number, true or false"))
    }

    /// A name: a letter, then letters, digits, `_` and `-`.
    pub fn name(&self) -> Result<String, WorkloadError> {
        let text = self.text()?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(good) {
            true => Ok(text),
            false => Err(self.expected("a name: a letter, then letters, digits, _ and -")),
        }
    }

    /// One of a few words.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, WorkloadError> {
        let text = self.value.to_text();
        let found = words
            .iter()
            .find(|(word, _)| Some(*word) == text.as_deref());
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        found.map(|&(_, value)| value).ok_or_else(|| {
            let near = did_you_mean(&text.unwrap_or_default(), list.iter().copied());
            self.expected(&format!("{}{near}", list.join(", ")))
        })
    }

    /// A switch.
    pub fn flag(&self) -> Result<bool, WorkloadError> {
        match &*self.value {
            Value::Flag(on) => Ok(*on),
            Value::Text(text) if text == "on" => Ok(true),
            Value::Text(text) if text == "off" => Ok(false),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number in a range.
    pub fn number(&self, range: RangeInclusive<u64>) -> Result<u64, WorkloadError> {
        let value = match *self.value {
            Value::Int(n) => u64::try_from(n).ok(),
            _ => None,
        };
        value.filter(|n| range.contains(n)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.expected(&match *most {
                u64::MAX => format!("a whole number from {least}"),
                _ => format!("a whole number from {least} to {most}"),
            })
        })
    }

    /// A number in a range.
    pub fn real(&self, range: RangeInclusive<f64>) -> Result<f64, WorkloadError> {
        let value = self.as_real().filter(|x| range.contains(x));
        value.ok_or_else(|| {
            self.expected(&match range.start().is_finite() {
                true => format!("a number from {} to {}", range.start(), range.end()),
                false => "a number".to_owned(),
            })
        })
    }

    /// A size in pages, as it is written.
    fn unscaled(&self) -> Result<u64, WorkloadError> {
        const SIZES: &str = "a size such as \"64MiB\", \"1.5GiB\" or \"300pages\"";
        match &*self.value {
            Value::Int(0) => Ok(0),
            Value::Text(text) => match Size::parse("size", text) {
                Ok(Size::Pages(pages)) => Ok(pages),
                Ok(Size::Percent(_)) => Err(self.expected(SIZES)),
                Err(_) => Err(self.expected(SIZES)),
            },
            _ => Err(self.expected(SIZES)),
        }
    }

    /// A size that shrinks with the scale: pages, at least so many.
    pub fn pages(&self, least: u64) -> Result<u64, WorkloadError> {
        let pages = self.unscaled()? / self.setting.scale;
        match (least..1 << 32).contains(&pages) {
            true => Ok(pages),
            false if pages < least => Err(self.error(format!(
                "{} at this scale: give at least {}, or a larger scale",
                coldset_report::shown::human((pages * 4) as f64) + " KiB",
                coldset_report::shown::human((least * 4) as f64) + " KiB",
            ))),
            false => Err(self.expected("less than 16TiB")),
        }
    }

    /// A size that does not: pages, at least one.
    pub fn block(&self) -> Result<u64, WorkloadError> {
        match self.unscaled()? {
            pages @ 1..=262_144 => Ok(pages),
            _ => Err(self.expected("a size from 4KiB to 1GiB")),
        }
    }

    /// A time, ns: `"10s"`, `"1.5ms"`, `"20us"`, `"300ns"`, `"2min"`.
    pub fn time(&self) -> Result<u64, WorkloadError> {
        let ns = match &*self.value {
            Value::Int(0) => Some(0),
            Value::Text(text) => time(text),
            _ => None,
        };
        ns.ok_or_else(|| {
            self.expected("a time up to a day, such as \"10s\", \"1.5ms\", \"20us\" or \"300ns\"")
        })
    }

    /// A time, or two that it is between.
    pub fn times(&self) -> Result<Times, WorkloadError> {
        if !self.is_list() {
            let ns = self.time()?;
            return Ok(Times { least: ns, end: ns });
        }
        match self.list()?.as_slice() {
            [from, to] => {
                let (least, end) = (from.time()?, to.time()?);
                match least <= end {
                    true => Ok(Times { least, end }),
                    false => Err(self.error("the second time is before the first")),
                }
            }
            _ => Err(self.expected("a time, or two: [\"1ms\", \"3ms\"]")),
        }
    }

    /// A share, in millionths: `"25%"`.
    pub fn share(&self) -> Result<u64, WorkloadError> {
        let share = match &*self.value {
            Value::Text(text) => text
                .trim()
                .strip_suffix('%')
                .and_then(|t| t.trim().parse().ok()),
            Value::Int(0) => Some(0.0),
            _ => None,
        };
        share
            .filter(|share: &f64| (0.0..=100.0).contains(share))
            .map(|share| (share * 10_000.0).round() as u64)
            .ok_or_else(|| self.expected("a share such as \"25%\", from 0% to 100%"))
    }

    /// The values of a list.
    pub fn list(&self) -> Result<Vec<Item<'a>>, WorkloadError> {
        let Cow::Borrowed(Value::List(nodes)) = self.value else {
            return Err(self.expected("a list: [...]"));
        };
        let one = |(at, node)| Item::new(self.setting, format!("{}[{}]", self.key, at + 1), node);
        nodes.iter().enumerate().map(one).collect()
    }

    /// The entries of a table whose keys are names.
    pub fn entries(&self) -> Result<Vec<(&'a str, Item<'a>)>, WorkloadError> {
        let Cow::Borrowed(Value::Table(nodes)) = self.value else {
            return Err(self.expected("a table of keys and values"));
        };
        let one = |(name, node): &'a (String, Node)| {
            let item = Item::new(self.setting, format!("{}.{name}", self.key), node)?;
            Ok((name.as_str(), item))
        };
        nodes.iter().map(one).collect()
    }

    /// A table with the keys of `section`.
    pub fn table(&self, section: &'static str) -> Result<Fields<'a>, WorkloadError> {
        let Cow::Borrowed(Value::Table(nodes)) = self.value else {
            return Err(self.expected("a table of keys and values"));
        };
        let fields = Fields {
            setting: self.setting,
            section,
            key: self.key.clone(),
            line: self.line,
            entries: nodes.iter().map(|(k, n)| (k.as_str(), n)).collect(),
        };
        let known = || keys::of(section).map(|k| k.name);
        match nodes.iter().find(|(name, _)| !known().any(|k| k == name)) {
            None => Ok(fields),
            Some((name, node)) => {
                let near = did_you_mean(name, known());
                let list: Vec<&str> = known().collect();
                let what = match near.as_str() {
                    "" => format!("there is no such key here; known: {}", list.join(", ")),
                    near => format!("there is no such key here{near}"),
                };
                Err(wrong(self.setting, node.line, &fields.path(name), what))
            }
        }
    }
}

/// A time in ns, up to a day.
fn time(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let of = match unit.trim() {
        "h" => 3.6e12,
        "min" => 6e10,
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * of;
    (0.0..=8.64e13).contains(&ns).then_some(ns as u64)
}
