//! The course of a run beside the one that was predicted: where do their generations part?

use coldset_lab::report::{human, Number};
use indexmap::IndexMap;
use serde_json::{json, Value};

/// Values over accesses, by name.
pub type Course = IndexMap<String, Vec<(u64, Number)>>;

/// The first point at which a generation has another size.
#[derive(Clone, Debug, PartialEq)]
struct Parting {
    /// The generation and its type, as series call it.
    list: String,
    /// Accesses until then.
    access: u64,
    /// Pages, in the run.
    measured: f64,
    /// Pages, predicted.
    predicted: f64,
}

/// The first point of each generation at which the two differ by `least` pages or more; the earliest first. Points that
/// one of them does not have are no difference.
fn partings(measured: &Course, predicted: &Course, least: f64) -> Vec<Parting> {
    let generations = measured.iter().filter(|(name, _)| name.starts_with("gen"));
    let first = |(name, points): (&String, &Vec<(u64, Number)>)| {
        let of: IndexMap<u64, f64> = predicted
            .get(name)?
            .iter()
            .map(|(access, pages)| (*access, pages.as_f64()))
            .collect();
        let both = points
            .iter()
            .filter_map(|(access, pages)| Some((*access, pages.as_f64(), *of.get(access)?)));
        let mut apart = both.filter(|(_, ours, theirs)| (ours - theirs).abs() >= least);
        let (access, measured, predicted) = apart.next()?;
        Some(Parting {
            list: name.clone(),
            access,
            measured,
            predicted,
        })
    };
    let mut all: Vec<Parting> = generations.filter_map(first).collect();
    all.sort_by_key(|p| p.access);
    all
}

/// A run beside a prediction of it.
struct Pair {
    run: String,
    variant: String,
    partings: Vec<Parting>,
}

/// The courses of runs and of predictions of them.
pub struct Courses<'a> {
    predicted: &'a IndexMap<String, Course>,
    pairs: Vec<Pair>,
    least: f64,
}

impl Courses<'_> {
    /// Compares each of `runs` with each of `predicted`; what differs by a hundredth of the limit, `pages`, has parted.
    pub fn of<'a>(
        runs: &[(String, Course)],
        predicted: &'a IndexMap<String, Course>,
        pages: u64,
    ) -> Courses<'a> {
        let least = (pages as f64 / 100.0).max(1.0);
        let of_run = |(run, measured): &(String, Course)| -> Vec<Pair> {
            let pair = |(variant, course): (&String, &Course)| Pair {
                run: run.clone(),
                variant: variant.clone(),
                partings: partings(measured, course, least),
            };
            predicted.iter().map(pair).collect()
        };
        Courses {
            predicted,
            pairs: runs.iter().flat_map(of_run).collect(),
            least,
        }
    }

    /// A line for each pair.
    pub fn lines(&self) -> Vec<String> {
        let pages = human(self.least);
        let one = |p: &Parting| {
            let (list, access) = (&p.list, human(p.access as f64));
            let (measured, predicted) = (human(p.measured), human(p.predicted));
            format!("{list} after {access} accesses ({measured}, predicted {predicted})")
        };
        let line = |pair: &Pair| {
            let who = format!("{} and {}", pair.run, pair.variant);
            if pair.partings.is_empty() {
                return format!("{who}: generations are less than {pages} pages apart throughout");
            }
            let all: Vec<String> = pair.partings.iter().map(one).collect();
            format!(
                "{who}: generations are {pages} pages apart, first {}",
                all.join(", ")
            )
        };
        self.pairs.iter().map(line).collect()
    }

    /// The predicted courses by variant, and the partings of each run and variant.
    pub fn json(&self) -> Value {
        let points = |points: &Vec<(u64, Number)>| -> Value {
            points.iter().map(|(a, n)| json!([a, n.as_f64()])).collect()
        };
        let course = |course: &Course| -> Value {
            let each = course.iter().map(|(name, all)| (name.clone(), points(all)));
            each.collect::<serde_json::Map<_, _>>().into()
        };
        let predicted = self.predicted.iter().map(|(v, c)| (v.clone(), course(c)));
        let parting = |p: &Parting| json!({"list": p.list, "access": p.access, "measured": p.measured, "predicted": p.predicted});
        let pair = |p: &Pair| {
            let all: Vec<Value> = p.partings.iter().map(parting).collect();
            json!({"run": p.run, "variant": p.variant, "apart_pages": self.least, "partings": all})
        };
        json!({
            "predicted": predicted.collect::<serde_json::Map<_, _>>(),
            "apart": self.pairs.iter().map(pair).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(name: &str, pages: &[u64]) -> Course {
        let points = (1..).zip(pages);
        let points = points.map(|(n, &p)| (n * 10, Number::Int(p))).collect();
        IndexMap::from([(name.to_owned(), points)])
    }

    #[test]
    fn the_first_point_apart_is_named() {
        let measured = course("gen1_file", &[100, 100, 106, 90]);
        let predicted = course("gen1_file", &[101, 102, 100, 100]);
        let found = partings(&measured, &predicted, 5.0);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].access, found[0].measured), (30, 106.0));
        assert!(partings(&measured, &predicted, 11.0).is_empty());
    }

    #[test]
    fn counters_and_points_of_one_alone_are_no_difference() {
        let counter = course("pgscan", &[1, 1000]);
        assert!(partings(&counter, &course("pgscan", &[1, 1]), 5.0).is_empty());
        let long = course("gen0_anon", &[1, 1, 1000]);
        assert!(partings(&long, &course("gen0_anon", &[1, 1]), 5.0).is_empty());
    }

    #[test]
    fn lines_and_json_say_the_same() {
        let measured = [("6.18".to_owned(), course("gen0_file", &[10, 50]))];
        let predicted = IndexMap::from([
            ("v618".to_owned(), course("gen0_file", &[10, 40])),
            ("v72".to_owned(), course("gen0_file", &[10, 49])),
        ]);
        let all = Courses::of(&measured, &predicted, 500);
        let lines = all.lines();
        assert!(lines[0].contains("gen0_file after 20 accesses (50, predicted 40)"));
        assert!(lines[1].contains("less than 5 pages apart"), "{lines:?}");
        let json = all.json();
        assert_eq!(json["apart"][0]["partings"][0]["access"], 20);
        assert_eq!(json["apart"][1]["partings"], json!([]));
        let course = &json["predicted"]["v72"]["gen0_file"];
        assert_eq!(*course, json!([[10, 10.0], [20, 49.0]]));
    }
}
