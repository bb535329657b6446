//! What a user expects of a workload.

use super::fields::{Fields, Item};
use super::formula::Formula;
use super::WorkloadError;
use coldset_report::{Band, Claim, Class, Direction, Measure, Published, Term};

/// A claim before the variants are known.
#[derive(Clone, Debug)]
pub(super) struct ClaimSpec {
    name: String,
    what: What,
    class: Class,
    band: Option<Band>,
    width: f64,
    published: Option<Published>,
    unit: String,
    direction: Direction,
    restates: String,
    note: String,
}

#[derive(Clone, Debug)]
enum What {
    Ratio { result: String, from: Of, to: Of },
    Difference { result: String, from: Of, to: Of },
    Value { formula: Formula, of: Of },
}

/// A variant.
#[derive(Clone, Debug)]
enum Of {
    Before,
    After,
    Named(String),
}

impl Of {
    fn read(fields: &Fields<'_>, key: &str, default: Self) -> Result<Self, WorkloadError> {
        Ok(match fields.text(key, "")?.as_str() {
            "" => default,
            "before" => Self::Before,
            "after" => Self::After,
            name => Self::Named(name.to_owned()),
        })
    }

    fn label<'a>(&'a self, before: &'a str, after: &'a str) -> &'a str {
        match self {
            Self::Before => before,
            Self::After => after,
            Self::Named(name) => name,
        }
    }
}

const MEASURES: [&str; 3] = ["ratio", "difference", "value"];
const BANDS: [&str; 5] = ["band", "around", "at_least", "at_most", "exactly"];
/// Any number.
const ANY: std::ops::RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

fn single(
    fields: &Fields<'_>,
    keys: &[&'static str],
) -> Result<Option<&'static str>, WorkloadError> {
    match fields.given(keys).as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        several => Err(fields.error(format!(
            "it has {}; give it one of them",
            several.join(" and ")
        ))),
    }
}

fn band(fields: &Fields<'_>) -> Result<Option<Band>, WorkloadError> {
    let Some(key) = single(fields, &BANDS)? else {
        return Ok(None);
    };
    let item = fields.need(key)?;
    let two = |item: &Item<'_>| match item.list()?.as_slice() {
        [a, b] => Ok((a.real(ANY)?, b.real(ANY)?)),
        _ => Err(item.expected("two numbers: [0.9, 1.1]")),
    };
    let band = match key {
        "band" => two(&item).map(|(lo, hi)| Band::between(lo, hi))?,
        "around" => two(&item).map(|(centre, width)| Band::around(centre, width))?,
        "at_least" => Band::at_least(item.real(ANY)?),
        "at_most" => Band::at_most(item.real(ANY)?),
        _ => Band::exactly(item.real(ANY)?),
    };
    match band.lo <= band.hi {
        true => Ok(Some(band)),
        false => Err(item.error("the band is empty: its end is below its beginning")),
    }
}

fn parameter(item: &Item<'_>) -> Result<String, WorkloadError> {
    let (name, known) = (item.text()?, &item.setting.params);
    match known.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(item.unknown("parameter", known.iter().copied())),
    }
}

/// That every result in a formula exists.
fn check(item: &Item<'_>, formula: &Formula, results: &[String]) -> Result<(), WorkloadError> {
    let known = || results.iter().map(String::as_str);
    match formula.names().iter().find(|n| !known().any(|k| k == **n)) {
        None => Ok(()),
        Some(name) => Err(item.error(format!(
            "there is no result '{name}'{}",
            coldset_nearest::did_you_mean(name, known())
        ))),
    }
}

fn measured(fields: &Fields<'_>, results: &[String]) -> Result<What, WorkloadError> {
    let Some(key) = single(fields, &MEASURES)? else {
        return Err(fields.error("it measures nothing: write ratio, difference or value"));
    };
    let item = fields.need(key)?;
    let text = item.text()?;
    // A result is a name of its own, whatever it looks like as arithmetic.
    let formula = match results.contains(&text) {
        true => Formula::Name(text.clone()),
        false if key == "value" => Formula::parse(&text).map_err(|e| item.error(e))?,
        false => Formula::Name(text.clone()),
    };
    check(&item, &formula, results)?;
    let wrong = match key {
        "value" => ["from", "to"].as_slice(),
        _ => &["of"],
    };
    if let Some(other) = fields
        .given(&["of", "from", "to"])
        .iter()
        .find(|k| wrong.contains(*k))
    {
        return Err(fields.error(format!("'{other}' does not go with {key}")));
    }
    let from = || Of::read(fields, "from", Of::Before);
    let to = || Of::read(fields, "to", Of::After);
    Ok(match key {
        "ratio" => What::Ratio {
            result: text,
            from: from()?,
            to: to()?,
        },
        "difference" => What::Difference {
            result: text,
            from: from()?,
            to: to()?,
        },
        _ => What::Value {
            formula,
            of: Of::read(fields, "of", Of::After)?,
        },
    })
}

/// All claims; `results` are those that there are, with their machines.
pub(super) fn read(top: &Fields<'_>, results: &[String]) -> Result<Vec<ClaimSpec>, WorkloadError> {
    let mut all: Vec<ClaimSpec> = Vec::new();
    for fields in &top.tables("claims")? {
        let claim = one(fields, results)?;
        if all.iter().any(|c| c.name == claim.name) {
            return Err(fields.error(format!("a second one is called '{}'", claim.name)));
        }
        all.push(claim);
    }
    Ok(all)
}

fn one(fields: &Fields<'_>, results: &[String]) -> Result<ClaimSpec, WorkloadError> {
    let name = fields.need("name")?.text()?;
    let what = measured(fields, results)?;
    let band = band(fields)?;
    let classes = [
        ("A", Class::A),
        ("B", Class::B),
        ("N", Class::N),
        ("D", Class::D),
    ];
    let class = fields.read("class", |item| item.one_of(&classes))?;
    let class = class.unwrap_or(if band.is_some() { Class::B } else { Class::D });
    match (class, &band) {
        (Class::A | Class::B, None) => {
            return Err(fields.error(format!("class {class} needs a band: {}", BANDS.join(", "))))
        }
        (Class::N, Some(_)) => {
            return Err(fields.error("class N is about a ratio of 1; give it a width, and no band"))
        }
        (Class::N, None) if !matches!(what, What::Ratio { .. }) => {
            return Err(fields.error("class N is about a ratio; write ratio = \"RESULT\""))
        }
        _ => {}
    }
    if class != Class::N && !fields.given(&["width"]).is_empty() {
        return Err(fields.error("'width' goes with class N"));
    }
    let published = fields.read("published", |item| match item.as_real() {
        Some(x) => Ok(Published::Number(x)),
        None if item.is_list() => match item.list()?.as_slice() {
            [before, after] => Ok(Published::Pair {
                before: before.real(ANY)?,
                after: after.real(ANY)?,
            }),
            _ => Err(item.expected("a number, [BEFORE, AFTER] or a text")),
        },
        None => Ok(Published::Text(item.text()?)),
    })?;
    let better = [
        ("higher", Direction::HigherIsBetter),
        ("lower", Direction::LowerIsBetter),
    ];
    let direction = fields
        .read("better", |item| item.one_of(&better))?
        .unwrap_or(Direction::Neutral);
    let bare = class == Class::D
        && band.is_none()
        && direction == Direction::Neutral
        && published.is_none();
    if bare {
        return Err(fields.error(
            "nothing says what is expected: give it a band, published, or better = \"higher\"",
        ));
    }
    Ok(ClaimSpec {
        name,
        what,
        class,
        band,
        width: fields
            .read("width", |item| item.real(1e-6..=1.0))?
            .unwrap_or(0.03),
        published,
        unit: fields.text("unit", "")?,
        direction,
        restates: fields.read("restates", parameter)?.unwrap_or_default(),
        note: fields.text("note", "")?,
    })
}

impl ClaimSpec {
    /// The claim about a pair of variants.
    pub fn about(&self, before: &str, after: &str) -> Claim {
        let name = self
            .name
            .replace("{before}", before)
            .replace("{after}", after);
        let term = |of: &Of, result: &str| Term::new(of.label(before, after), result);
        let claim = match &self.what {
            What::Ratio { result, from, to } => Claim::new(
                name,
                Measure::Ratio {
                    before: term(from, result),
                    after: term(to, result),
                },
            ),
            What::Difference { result, from, to } => Claim::new(
                name,
                Measure::Difference {
                    before: term(from, result),
                    after: term(to, result),
                },
            ),
            What::Value {
                formula: Formula::Name(result),
                of,
            } => Claim::value(name, result, of.label(before, after)),
            What::Value { formula, of } => {
                let (formula, of) = (formula.clone(), of.label(before, after).to_owned());
                Claim::derived(name, move |seed| {
                    formula.value(&|result| seed.get(&of, result))
                })
            }
        };
        let claim = match self.class {
            Class::N => claim.noise_of(self.width),
            class => Claim {
                class,
                band: self.band,
                ..claim
            },
        };
        Claim {
            published: self.published.clone(),
            unit: self.unit.clone(),
            direction: self.direction,
            restates: self.restates.clone(),
            note: self.note.clone(),
            ..claim
        }
    }
}
