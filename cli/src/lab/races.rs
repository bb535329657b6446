//! `coldset lab races`.

use crate::args::RacesArgs;
use crate::error::{Failure, Verdict};
use crate::output::{print, Outputs};
use coldset_lab::runner::RunnerError;
use coldset_races::{
    find_all, prove, prove_against, Adversary, Memory, Plant, Protocol, RaceReport, ADVERSARIES,
    MAX_ADVERSARIES, MEMORY, PLANTS, PROTOCOLS,
};
use std::time::Instant;

/// The one called `text`.
fn named<T: Copy>(
    what: &'static str,
    all: &[T],
    name: impl Fn(&T) -> &'static str,
    text: &str,
) -> Result<T, RunnerError> {
    let found = all.iter().find(|&x| name(x) == text).copied();
    found.ok_or_else(|| {
        RunnerError::name(
            what,
            text,
            all.iter().map(name),
            "see: coldset lab races --list",
        )
    })
}

/// Runs the command.
///
/// # Errors
/// Unknown names, too many adversaries at once, output that cannot be written.
pub fn run(args: &RacesArgs) -> Result<Verdict, Failure> {
    if args.list {
        print(&list())?;
        return Ok(Verdict::Good);
    }
    let plant = args.plant.as_deref();
    let plant = plant.map(|n| named("planted bug", PLANTS, |p: &Plant| p.name, n));
    let plant = plant.transpose()?;
    let protocol = |n: &String| named("protocol", PROTOCOLS, |p: &Protocol| p.name, n);
    let mut protocols: Vec<Protocol> = args
        .protocols
        .iter()
        .map(protocol)
        .collect::<Result<_, _>>()?;
    let adversary = |n: &String| named("adversary", ADVERSARIES, |a: &Adversary| a.name, n);
    let against: Vec<Adversary> = args
        .against
        .iter()
        .map(adversary)
        .collect::<Result<_, _>>()?;
    if against.len() > MAX_ADVERSARIES {
        return Err(Failure::Usage(format!(
            "--against takes at most {MAX_ADVERSARIES} adversaries at once, not {}",
            against.len()
        )));
    }
    let memory = |n: &String| named("kind of memory", MEMORY, |m: &Memory| m.name, n);
    let mut memories: Vec<Memory> = args.memory.iter().map(memory).collect::<Result<_, _>>()?;
    let all = plant.is_none() && protocols.is_empty() && memories.is_empty() && against.is_empty();
    if protocols.is_empty() && plant.is_none() {
        protocols = PROTOCOLS.iter().filter(|p| p.sound).copied().collect();
    }
    if memories.is_empty() {
        memories = MEMORY.iter().filter(|m| m.sound).copied().collect();
    }
    let outputs = Outputs::open_json(args.json.as_deref(), [])?;

    let mut report = RaceReport::default();
    let mut text = String::new();
    let clock = Instant::now();
    let cases = protocols
        .iter()
        .flat_map(|&p| memories.iter().map(move |&m| (p, m)));
    for (p, m) in cases {
        let since = Instant::now();
        let done = if against.is_empty() {
            prove(p, m)
        } else {
            prove_against(p, m, vec![against.clone()])
        };
        text += &done.text();
        text += &format!("  {:.1} s\n\n", since.elapsed().as_secs_f64());
        report.protocols.push(done);
    }
    let plants = match &plant {
        Some(p) => std::slice::from_ref(p),
        None if all => PLANTS,
        None => &[],
    };
    report.plants = find_all(plants);
    for done in &report.plants {
        text += &done.text();
        text += "\n";
    }
    let good = report.good();
    let verdict = match (&plant, all, good) {
        (Some(p), _, true) => format!("{} is found", p.name),
        (Some(p), _, false) => format!("{} is not found", p.name),
        (None, true, true) => "every protocol holds, every planted bug is found".into(),
        (None, true, false) => "a protocol is broken, or a planted bug is not found".into(),
        (None, false, true) => "holds".into(),
        (None, false, false) => "broken".into(),
    };
    let states: u64 = report.protocols.iter().map(|p| p.states).sum::<u64>()
        + report.plants.iter().map(|p| p.states).sum::<u64>();
    text += &format!(
        "{verdict}; {states} states in {:.1} s\n",
        clock.elapsed().as_secs_f64()
    );
    outputs.write_text_or_json(
        || text,
        || {
            format!(
                "{}\n",
                serde_json::to_string_pretty(&report).expect("plain data")
            )
        },
    )?;
    // A planted bug that shows is a broken protocol.
    Ok(Verdict::of(good && plant.is_none()))
}

fn list() -> String {
    let mut out = String::from("Protocols (values of the engine's switch)\n");
    let mut line = |name: &str, doc: &str| out += &format!("  {name:<26} {doc}\n");
    PROTOCOLS.iter().for_each(|p| line(p.name, p.doc));
    out += "Kinds of memory\n";
    let mut line = |name: &str, doc: &str| out += &format!("  {name:<26} {doc}\n");
    MEMORY.iter().for_each(|m| line(m.name, m.doc));
    out += "Adversaries\n";
    let mut line = |name: &str, doc: &str| out += &format!("  {name:<26} {doc}\n");
    ADVERSARIES.iter().for_each(|a| line(a.name, a.doc));
    out += "Planted bugs (faults of the host, and forms known to be wrong)\n";
    let mut line = |name: &str, doc: &str| out += &format!("  {name:<26} {doc}\n");
    PLANTS.iter().for_each(|p| line(p.name, p.doc));
    out
}
