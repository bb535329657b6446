//! Running things side by side: experiments over variants and seeds, traces over variants and
//! limits, recorded cases over policies. All of it in parallel, and none of the results depends
//! on how many threads there are: work is collected in the order in which it was listed.

mod check;
mod effect;
mod error;
mod evictable;
mod experiment;
mod made_with;
#[cfg(test)]
mod never_beaten;
mod pool;
mod progress;
mod quantity;
mod ran;
mod replay_plan;
mod replays;
mod replays_text;
mod variant;
mod zones;

pub use check::{
    check, check_steps, fidelity_json, render_fidelity, render_series, summaries, CheckOptions,
    Checked, Judged, Verdict, SLACK_PAGES,
};
pub use error::RunnerError;
pub use experiment::{
    check_asked, check_params, claims_of, deviations, experiment, in_band, is_workload, run,
    Outcome, Plan, SAMPLE_POINTS,
};
pub use pool::with_jobs;
pub use progress::Progress;
pub use quantity::{
    parse_device, parse_effort, parse_scale, show_effort, show_pages, show_scale, show_swap, Low,
    Size, SwapSpec, SCALE_MAX,
};
pub use ran::check_costs;
pub use replay_plan::{limit, Memory, ReplayPlan, MEMORY_DEFAULT};
pub use replays::{
    check_survivors, inspect_all, killed_after, replay_all, room, Inspection, ReplayTable,
    KILLED_AFTER,
};
pub use replays_text::{
    render_counters, render_replay, replay_values, replays_json, until_killed, UNTIL_KILLED,
};
pub use variant::Variant;
pub use zones::{parse_zones, show_zones};
