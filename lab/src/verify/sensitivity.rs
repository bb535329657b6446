//! Do the claims hold on assumed costs? All experiments again with those halved and doubled
//! (`docs/rules/machine.md#costs`).

use super::{verify, Verified, VerifyPlan};
use crate::experiment::Costs;
use crate::runner::Progress;
use coldset_machine::params::Mark;
use coldset_report::{Align, ClaimResult, Class, Style, Subject, Table};
use serde_json::{json, Value};
use std::fmt::Write;
use Align::{Left, Right};

/// Up to so many costings stand side by side.
const FEW: usize = 4;

/// A set of costs to rerun with.
#[derive(Clone, Debug)]
pub struct Costing {
    /// What is different, for the table.
    pub label: String,
    /// The costs.
    pub costs: Costs,
}

impl Costing {
    /// All assumed costs halved together, then all doubled together.
    #[must_use]
    pub fn all(costs: &Costs) -> Vec<Self> {
        let at = |label: &str, num, den| Self {
            label: label.into(),
            costs: costs.scaled_assumed(num, den),
        };
        vec![at("all halved", 1, 2), at("all doubled", 2, 1)]
    }

    /// Each assumed cost alone, halved and doubled. Values at the edge of what the model can work
    /// with are left out.
    #[must_use]
    pub fn each(costs: &Costs) -> Vec<Self> {
        let mut list = Vec::new();
        for info in costs.table().describe() {
            if info.mark != Mark::Assumed || info.value == 0 {
                continue;
            }
            for (text, value) in [("halved", info.value / 2), ("doubled", info.value * 2)] {
                let mut costs = costs.clone();
                if value > 0 && costs.set(info.name, value).is_ok() {
                    let label = format!("{} {text}", info.name);
                    list.push(Self { label, costs });
                }
            }
        }
        list
    }
}

/// A claim under other costs.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Whose claim it is.
    pub experiment: &'static str,
    /// Claim as it came out with the costs as they are.
    pub usual: ClaimResult,
    /// For each costing: the claim, or none if the experiment gave no result.
    pub other: Vec<Option<ClaimResult>>,
}

/// What the reruns gave.
#[derive(Debug)]
pub struct Sensitivity {
    /// Labels of the costings.
    pub labels: Vec<String>,
    /// All claims.
    pub claims: Vec<Changed>,
}

/// Which side of "no change" a claim's figure lies on: the sign that must be kept.
fn sign(claim: &ClaimResult) -> Option<i8> {
    let value = claim.value?;
    let neutral = match claim.subject {
        Subject::Ratio { .. } => 1.0,
        Subject::Difference { .. } => 0.0,
        // A plain value has no neutral point: what can flip is the verdict.
        _ => return Some(i8::from(claim.pass)),
    };
    if claim.class == Class::N {
        return Some(i8::from(claim.pass));
    }
    Some(if value > neutral {
        1
    } else {
        -i8::from(value < neutral)
    })
}

impl Changed {
    /// For each costing: the sign is the same.
    fn keeps_sign(&self) -> impl Iterator<Item = bool> + '_ {
        let usual = sign(&self.usual);
        self.other
            .iter()
            .map(move |c| c.as_ref().is_some_and(|c| sign(c) == usual))
    }

    /// For each costing: the verdict is the same.
    fn keeps_verdict(&self) -> impl Iterator<Item = bool> + '_ {
        self.other
            .iter()
            .map(|c| c.as_ref().is_some_and(|c| c.pass == self.usual.pass))
    }
}

/// Reruns everything with each of the costings.
#[must_use]
pub fn sensitivity(
    plan: &VerifyPlan,
    usual: &Verified,
    costings: &[Costing],
    progress: &Progress,
) -> Sensitivity {
    let reruns: Vec<Verified> = costings
        .iter()
        .map(|costing| {
            progress.message(costing.label.clone());
            let plan = VerifyPlan {
                costs: costing.costs.clone(),
                ..plan.clone()
            };
            verify(&plan, progress)
        })
        .collect();
    let mut claims = Vec::new();
    for (at, (experiment, result)) in usual.experiments.iter().enumerate() {
        let Ok(result) = result else { continue };
        for claim in &result.claims {
            let find = |rerun: &Verified| {
                let result = rerun.experiments[at].1.as_ref().ok()?;
                result.claims.iter().find(|c| c.name == claim.name).cloned()
            };
            claims.push(Changed {
                experiment: experiment.name,
                usual: claim.clone(),
                other: reruns.iter().map(find).collect(),
            });
        }
    }
    Sensitivity {
        labels: costings.iter().map(|c| c.label.clone()).collect(),
        claims,
    }
}

/// The figure under each costing, if there are few of them.
#[must_use]
pub fn sensitivity_table(s: &Sensitivity) -> Table {
    let few = s.labels.len() <= FEW;
    let mut columns = ["experiment", "claim", "class", "band"]
        .map(|name| (name, Left))
        .to_vec();
    columns.push(("usual", Right));
    if few {
        columns.extend(s.labels.iter().map(|label| (label.as_str(), Right)));
    }
    columns.extend([("sign", Left), ("verdict", Left)]);
    let mut table = Table::new(columns);
    let kept = |list: Vec<bool>| {
        let good = list.iter().filter(|&&k| k).count();
        if good == list.len() {
            "kept".to_owned()
        } else {
            format!("kept in {good} of {}", list.len())
        }
    };
    for c in &s.claims {
        let usual = c.usual.shown();
        let mut cells = vec![
            c.experiment.to_owned(),
            c.usual.name.clone(),
            c.usual.class.to_string(),
            usual.band,
            usual.figure,
        ];
        if few {
            let show = |o: &Option<ClaimResult>| {
                o.as_ref()
                    .map_or("no result".into(), |claim| claim.shown().figure)
            };
            cells.extend(c.other.iter().map(show));
        }
        cells.push(kept(c.keeps_sign().collect()));
        cells.push(kept(c.keeps_verdict().collect()));
        table.row(cells);
    }
    table
}

/// A table with the figure under each costing, or, if there are many costings, with the costs that
/// matter.
#[must_use]
pub fn render_sensitivity(s: &Sensitivity, style: Style) -> String {
    let few = s.labels.len() <= FEW;
    let mut lines = String::new();
    for c in &s.claims {
        if !few {
            for (label, same) in s.labels.iter().zip(c.keeps_verdict()) {
                if !same {
                    // Writing to a string cannot fail.
                    let _ = writeln!(
                        lines,
                        "{}: {}: another verdict with {label}",
                        c.experiment, c.usual.name
                    );
                }
            }
        }
    }
    let total = s.claims.len();
    let whole = |kept: fn(&Changed) -> bool| s.claims.iter().filter(|c| kept(c)).count();
    let signs = whole(|c| c.keeps_sign().all(|k| k));
    let verdicts = whole(|c| c.keeps_verdict().all(|k| k));
    let mut out = String::from("Sensitivity to assumed costs\n\n");
    out.push_str(&sensitivity_table(s).text(style));
    if !lines.is_empty() {
        let _ = write!(out, "\n{lines}");
    }
    let _ = writeln!(
        out,
        "\n{signs} of {total} claims keep their sign, {verdicts} of {total} their verdict, under all of: {}.",
        if few { s.labels.join(", ") } else { format!("{} changes of one cost", s.labels.len()) }
    );
    out
}

/// `{"costings": [...], "claims": [{"experiment", "name", "values", "sign_kept", "verdict_kept"}]}`.
#[must_use]
pub fn sensitivity_json(s: &Sensitivity) -> Value {
    let claims: Vec<Value> = s
        .claims
        .iter()
        .map(|c| {
            let values: Vec<Option<f64>> = c
                .other
                .iter()
                .map(|o| o.as_ref().and_then(|o| o.value))
                .collect();
            json!({
                "experiment": c.experiment,
                "name": c.usual.name,
                "value": c.usual.value,
                "values": values,
                "sign_kept": c.keeps_sign().collect::<Vec<_>>(),
                "verdict_kept": c.keeps_verdict().collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"costings": s.labels, "claims": claims})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_assumed_costs_change() {
        let usual = Costs::default();
        let marks = |c: &Costing| -> Vec<Mark> {
            let pairs = usual.table().describe();
            let pairs = pairs.into_iter().zip(c.costs.table().describe());
            pairs
                .filter(|(a, b)| a.value != b.value)
                .map(|(a, _)| a.mark)
                .collect()
        };
        for costing in Costing::all(&usual) {
            let changed = marks(&costing);
            assert!(changed.len() > 10);
            assert!(changed.iter().all(|&m| m == Mark::Assumed));
        }
        let each = Costing::each(&usual);
        assert!(each.len() > 20);
        for costing in &each {
            assert_eq!(marks(costing), [Mark::Assumed], "{}", costing.label);
        }
    }

    #[test]
    fn a_rerun_with_the_same_costs_changes_nothing() {
        let mut plan = VerifyPlan::new(&["mongodb"], 1).unwrap();
        plan.effort_permille = 20;
        let silent = Progress::silent();
        let usual = verify(&plan, &silent);
        let same = Costing {
            label: "nothing".into(),
            costs: plan.costs.clone(),
        };
        let s = sensitivity(&plan, &usual, &[same], &silent);
        assert!(!s.claims.is_empty());
        for c in &s.claims {
            assert_eq!(c.other[0].as_ref(), Some(&c.usual));
            assert!(c.keeps_sign().all(|k| k) && c.keeps_verdict().all(|k| k));
        }
        let text = render_sensitivity(&s, Style::Plain);
        let n = s.claims.len();
        assert!(text.contains(&format!("{n} of {n} claims keep")), "{text}");
    }
}
