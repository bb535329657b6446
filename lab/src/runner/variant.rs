//! A variant on the command line: a preset, suffixes and switches on top of it.

use super::RunnerError;
use crate::replay::OutsidePolicy;
use coldset_engine::presets::{self, PRESETS};
use coldset_engine::Switches;

/// A preset of a list policy, which are the same but for the policy.
const LISTS: &str = "fifo";

/// A preset with suffixes and switches on top: `base+tlbbatch+smaller_batch=on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// As it was written; the name in tables.
    pub label: String,
    /// Name of the preset it starts from.
    pub preset: String,
    /// Assignments `switch=value` on top, in order, those of suffixes included.
    pub set: Vec<String>,
    /// What they come to.
    pub switches: Switches,
    /// A policy that is not one of the engine; for replays alone.
    pub outside: Option<OutsidePolicy>,
}

impl Variant {
    /// Reads `PRESET[+SUFFIX|+SWITCH|+SWITCH=VALUE]...`, where a bare switch is switched on; `set` is applied
    /// before the variant's own.
    ///
    /// # Errors
    /// Unknown preset, suffix, switch or value.
    pub fn parse(text: &str, set: &[String]) -> Result<Self, RunnerError> {
        let label = text.trim();
        let (preset, rest) = label.split_once('+').unwrap_or((label, ""));
        let mut switches = presets::preset(preset).map_err(|_| {
            let names = PRESETS.iter().flat_map(|p| p.names.iter().copied());
            let list = match preset {
                "opt" | "min" => {
                    "replays show OPT beside all others: --bounds; curves have it: coldset lab mrc"
                }
                _ => "see: coldset lab list",
            };
            RunnerError::name("variant", preset, names, list)
        })?;
        let mut all = set.to_vec();
        let parts = label.contains('+').then(|| rest.split('+'));
        for part in parts.into_iter().flatten() {
            if part.trim().is_empty() {
                let expected = "a suffix or SWITCH=VALUE behind each +, or no +";
                return Err(RunnerError::value("variant", label, expected));
            }
            if let Some(suffix) = presets::suffix(part) {
                all.extend(suffix.set.iter().map(|(n, v)| format!("{n}={v}")));
            } else if Switches::NAMES.contains(&part) {
                all.push(format!("{part}=on"));
            } else {
                all.push(part.to_owned());
            }
        }
        for assignment in &all {
            switches.assign(assignment)?;
        }
        Ok(Self {
            label: label.to_owned(),
            preset: preset.to_owned(),
            set: all,
            switches,
            outside: None,
        })
    }

    /// The lists of a policy that is not one of the engine, on the machine of [`LISTS`]. `set` changes its switches.
    ///
    /// # Errors
    /// Unknown switch or value.
    pub fn of_outside(policy: OutsidePolicy, set: &[String]) -> Result<Self, RunnerError> {
        let mut variant = Self::parse(LISTS, set)?;
        policy.0.name().clone_into(&mut variant.label);
        variant.switches.policy = policy.policy();
        variant.outside = Some(policy);
        Ok(variant)
    }

    /// Reads several; each must be written differently, for they are told apart by it.
    ///
    /// # Errors
    /// As [`Self::parse`], or one twice.
    pub fn parse_all<S: AsRef<str>>(texts: &[S], set: &[String]) -> Result<Vec<Self>, RunnerError> {
        let mut variants: Vec<Self> = Vec::new();
        for text in texts {
            let variant = Self::parse(text.as_ref(), set)?;
            if variants.iter().any(|v| v.label == variant.label) {
                return Err(RunnerError::Twice {
                    what: "variant",
                    name: variant.label,
                });
            }
            variants.push(variant);
        }
        Ok(variants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_engine::switches::ExecutableJoins;

    #[test]
    fn switches_follow_the_name() {
        let v = Variant::parse(
            "base+smaller_batch=on+executable_joins=always+scan_budget",
            &[],
        )
        .unwrap();
        assert_eq!(v.preset, "base");
        assert!(v.switches.smaller_batch && v.switches.scan_budget);
        assert_eq!(v.switches.executable_joins, ExecutableJoins::Always);
        assert_eq!(
            v.set,
            [
                "smaller_batch=on",
                "executable_joins=always",
                "scan_budget=on"
            ]
        );
    }

    #[test]
    fn suffixes_go_with_any_preset() {
        let text = "classic+tlbbatch+smaller_batch=on+deadfilter";
        let v = Variant::parse(text, &[]).unwrap();
        assert_eq!(v.preset, "classic");
        assert_eq!(v.switches.batched_dirty_flush.capacity(), 31);
        assert!(v.switches.drop_dead_on_drain && v.switches.smaller_batch);
        let set = [
            "batched_dirty_flush=v2",
            "smaller_batch=on",
            "drop_dead_on_drain=on",
        ];
        assert_eq!(v.set, set);
        let v = Variant::parse("v5+tlbbatch+batched_dirty_flush=8", &[]).unwrap();
        assert_eq!(v.switches.batched_dirty_flush.capacity(), 8);
    }

    #[test]
    fn heat_goes_with_any_preset() {
        use coldset_engine::switches::MemcgHeat;
        for (text, preset, heat) in [
            ("classic+heat", "classic", MemcgHeat::Posted),
            ("v5+wheel", "v5", MemcgHeat::Wheel),
        ] {
            let v = Variant::parse(text, &[]).unwrap();
            assert_eq!((v.preset.as_str(), v.switches.memcg_heat), (preset, heat));
        }
    }

    #[test]
    fn own_switches_win_over_common_ones() {
        let set = ["smaller_batch=on".to_owned()];
        assert!(Variant::parse("base", &set).unwrap().switches.smaller_batch);
        let own = Variant::parse("base+smaller_batch=off", &set).unwrap();
        assert!(!own.switches.smaller_batch);
    }

    #[test]
    fn mistakes_are_named() {
        let fails = |text: &str| Variant::parse(text, &[]).unwrap_err().to_string();
        assert_eq!(
            fails("clasic"),
            "there is no variant 'clasic' (see: coldset lab list); did you mean 'classic'?"
        );
        assert!(fails("base+smaler_batch").contains("did you mean 'smaller_batch'"));
        assert!(fails("opt").contains("replays show OPT"));
        assert!(
            fails("base+heat_max").contains("a whole number"),
            "not an on or off"
        );
        assert!(fails("base+smaler_batch=on").contains("did you mean 'smaller_batch'"));
        let twice = Variant::parse_all(&["base", "v5", "base"], &[]).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "variant 'base' is listed twice; list it once"
        );
    }
}
