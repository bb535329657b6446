//! Damaged input of every kind: each reader ends with a trace or with one line, takes no memory that
//! the input cannot justify, and does not panic.
//!
//! Every input is damaged in some hundred ways, in a process of its own with a limit of its address
//! space; the peak of its memory is the kernel's own figure. `COLDSET_FUZZ_SECONDS` goes on for as
//! long with other seeds (`make fuzz`); `COLDSET_FUZZ_SEED` begins with another, and
//! `COLDSET_FUZZ_INPUT` keeps to inputs whose name has it.

#[path = "../common/mod.rs"]
mod common;
mod inputs;
mod limits;
mod mutate;

use coldset_lab::bounds::{Count, Sequence};
use coldset_lab::mrc;
use coldset_lab::replay::MEMORY_MIN;
use coldset_lab::runner::{replay_all, Progress, ReplayPlan, Size, Variant};
use coldset_lab::traces::{Reader, Source, Trace, TraceOptions};
use coldset_pager::journal::{accesses, is_journal};
use common::temporary;
use inputs::{Input, Kind};
use mutate::{Mutator, Packing};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Damages of an input in a round.
const ROUND: u64 = 60;
/// The first seed, if none is given.
const SEED: u64 = 1;
/// Tells the process that does the work what to do.
const WORK: &str = "COLDSET_DAMAGED";

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: expected a number")),
    )
}

/// Says what is wrong on one line.
fn one_line(e: impl std::fmt::Display) {
    let text = e.to_string();
    assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
}

/// What the lab does with a trace.
fn work_through(trace: &Trace, policy: &str) {
    let unique = trace.unique_pages;
    let memory = Size::Pages((unique / 4).max(MEMORY_MIN));
    let variants = Variant::parse_all(&[policy], &[]).expect("a policy");
    let plan = ReplayPlan {
        bounds: true,
        ..ReplayPlan::new(variants, memory)
    };
    if let Err(e) = replay_all(trace, &plan, |_| Progress::silent()) {
        one_line(e);
    }
    let sequence = Sequence::of_trace(trace, Count::Absences, true).expect("few references");
    let lru = Variant::parse_all(&["lru"], &[]).expect("a policy");
    let misses = mrc::cache::misses(&lru[0].switches, &sequence, (unique / 4).max(1));
    assert!(misses >= unique, "each page misses once");
}

fn read_trace(packed: Vec<u8>, format: Option<coldset_lab::traces::Format>, policy: &str) {
    let total = Some(packed.len() as u64);
    let source = Source::from_reader("t", std::io::Cursor::new(packed), total);
    let reader = source.and_then(|s| Reader::from_source(s, format, &TraceOptions::default()));
    match reader.and_then(|r| Trace::read(r, |_, _| {})) {
        Ok(trace) => work_through(&trace, policy),
        Err(e) => one_line(e),
    }
}

fn read_journal(packed: &[u8], path: &Path) {
    std::fs::write(path, packed).expect("a file");
    // The command asks first, and reads what is no journal as a trace.
    is_journal(path).expect("a file that can be read");
    match accesses(path) {
        Ok(a) => assert!(a.replayed.operations > 0 || a.accesses.is_empty()),
        Err(e) => one_line(e),
    }
}

/// One damage of an input.
fn try_one(input: &Input, seed: u64, path: &Path) {
    let mut mutator = Mutator::new(seed);
    let mut bytes = input.bytes.clone();
    if !mutator.one_in(8) {
        mutator.damage(&mut bytes);
    }
    match input.kind {
        Kind::Trace(format) => {
            let policy = ["base", "classic"][mutator.below(2)];
            let format = (!mutator.one_in(6)).then_some(format);
            let packed = mutator.pack(&bytes, None);
            read_trace(packed, format, policy);
        }
        Kind::Journal => read_journal(&mutator.pack(&bytes, Some(Packing::Zstd)), path),
    }
}

/// The work of one process: `NAME FIRST COUNT FOLDER`.
#[test]
#[ignore = "what the other test starts in a process of its own"]
fn work() {
    let work = std::env::var(WORK).expect("run by the other test");
    let mut words = work.splitn(4, ' ');
    let mut word = || words.next().expect("four words");
    let (name, first, count) = (word(), word(), word());
    let first: u64 = first.parse().expect("a seed");
    let count: u64 = count.parse().expect("how many");
    let folder = Path::new(word());
    let input = &Input::load(folder, name);
    let path = folder.join("damaged");
    // Once for what is made when it is first needed.
    try_one(input, 0, &path);
    limits::begin();
    for seed in first..first + count {
        println!("seed {seed}");
        let peak = limits::peak_of(|| try_one(input, seed, &path));
        assert!(
            peak <= limits::RESIDENT_MAX,
            "{name}, seed {seed}: {peak} MiB of memory"
        );
    }
    println!("all done");
}

fn try_in_child(name: &str, first: u64, count: u64, folder: &Path) -> Result<(), String> {
    let out = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "work", "--ignored", "--nocapture"])
        .env(WORK, format!("{name} {first} {count} {}", folder.display()))
        // Threads and their arenas take address space that has nothing to do with the input.
        .env("RAYON_NUM_THREADS", "1")
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    // A panic that was caught must not have been heard either.
    if out.status.success() && said.contains("all done") && !stderr.contains("panicked") {
        return Ok(());
    }
    let seed = said
        .lines()
        .rfind(|l| l.starts_with("seed "))
        .unwrap_or("before the first seed");
    let stderr: Vec<&str> = stderr.lines().take(8).collect();
    Err(format!(
        "{name}, {seed}: {}: {}; again: COLDSET_FUZZ_INPUT={name} COLDSET_FUZZ_SEED={}",
        out.status,
        stderr.join(" | "),
        seed.trim_start_matches("seed "),
    ))
}

#[test]
fn no_damage_panics_or_takes_more_than_it_should() {
    let folder = temporary("inputs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let only = std::env::var("COLDSET_FUZZ_INPUT").unwrap_or_default();
    let mut names = Vec::new();
    for input in inputs::all(&folder) {
        input.save(&folder);
        if input.name.contains(&only) {
            names.push(input.name);
        }
    }
    assert!(
        !names.is_empty(),
        "COLDSET_FUZZ_INPUT={only}: no such input"
    );
    let until = number("COLDSET_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut first = number("COLDSET_FUZZ_SEED").unwrap_or(SEED);
    let mut failed = Vec::new();
    loop {
        println!(
            "seeds {first} to {} of {} inputs",
            first + ROUND - 1,
            names.len()
        );
        for name in &names {
            failed.extend(try_in_child(name, first, ROUND, &folder).err());
        }
        first += ROUND;
        if !failed.is_empty() || until.is_none_or(|until| Instant::now() >= until) {
            break;
        }
    }
    assert!(
        failed.is_empty(),
        "{}\nthe inputs are in {}",
        failed.join("\n"),
        folder.display()
    );
    std::fs::remove_dir_all(&folder).expect("our own folder");
}

/// `coldset lab` with so much address space, KiB: less than what bad input has asked for.
fn message_within(kib: u64, arguments: &[&str], code: i32) -> String {
    let out = Command::new("sh")
        .args(["-c", &format!("ulimit -v {kib}; exec \"$0\" lab \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_coldset"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", "1")
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("a shell");
    let said = String::from_utf8(out.stderr).expect("UTF-8");
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {said}");
    if code > 0 {
        assert_eq!(said.matches('\n').count(), 1, "{arguments:?}: {said}");
        assert!(said.starts_with("coldset: "), "{arguments:?}: {said}");
    }
    said
}

/// Address space that the command may take with bad input, KiB: 200 MiB, and its own code.
const LITTLE: u64 = 320 << 10;

/// The beginning of a journal and then zeroes, 3 GiB in 300 kB: in one frame, and in many.
#[test]
fn a_bomb_is_one_line() {
    let folder = temporary("bombs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let journal = inputs::journal(&folder);
    let zeroes = vec![0; 16 << 20];
    let bomb = |head: &[u8], name: &str| {
        let path = folder.join(name);
        let file = std::fs::File::create(&path).expect("a file");
        let mut z = zstd::Encoder::new(file, 1).expect("memory");
        std::io::Write::write_all(&mut z, head).expect("a disk");
        for _ in 0..192 {
            std::io::Write::write_all(&mut z, &zeroes).expect("a disk");
        }
        z.finish().expect("a disk");
        path.to_str().expect("UTF-8").to_owned()
    };
    let path = bomb(&journal[..600], "cut");
    let said = message_within(LITTLE, &["replay", &path], 2);
    assert!(said.contains("header"), "{said}");
    // The whole of it: zeroes are operations, too.
    let path = bomb(&journal, "whole");
    let said = message_within(LITTLE, &["replay", &path], 2);
    assert!(said.contains("unpacks to more than"), "{said}");
    for command in ["replay", "mrc", "inspect"] {
        let said = message_within(LITTLE, &[command, &path, "--format", "pageops"], 2);
        assert!(
            said.contains("unpack it first") || said.contains("kind"),
            "{said}"
        );
    }
    let path = bomb(&[0; 8], "zeroes.pageops.zst");
    for command in ["replay", "mrc", "inspect"] {
        let said = message_within(LITTLE, &[command, &path], 2);
        assert!(said.contains("unpack it first"), "{said}");
    }
    std::fs::remove_dir_all(&folder).expect("our own folder");
}

/// One changed byte in a trace names a page 2^30 pages away, another a task far away.
#[test]
fn numbers_far_away_cost_what_is_used() {
    let sound = zstd::decode_all(std::fs::File::open(common::sample()).expect("the sample"));
    let sound = &sound.expect("sound")[..16_000];
    let path = temporary("far.pageops");
    let name = path.to_str().expect("UTF-8");
    // Byte 7 of a record is the highest of its page, byte 3 the higher of its task, byte 1 the object.
    for (at, to) in [(511, 0x7f), (507, 0xff), (505, 0xff)] {
        let mut bytes = sound.to_vec();
        bytes[at] = to;
        std::fs::write(&path, &bytes).expect("a disk");
        for command in ["replay", "mrc", "inspect"] {
            let mut arguments = vec![command, name, "--format", "pageops"];
            if command != "mrc" {
                arguments.extend(["--memory", "1MiB", "--variants", "base,classic"]);
            }
            message_within(LITTLE, &arguments, 0);
        }
        let out = temporary("far-out.pageops");
        message_within(LITTLE, &["convert", name, out.to_str().expect("UTF-8")], 0);
        if at == 507 {
            // Memory of another task has another number.
            bytes[505] = 0xff;
        }
        assert!(
            std::fs::read(&out).expect("the same again") == bytes,
            "byte {at}"
        );
        std::fs::remove_file(out).expect("our own file");
    }
    std::fs::remove_file(&path).expect("our own file");
}

/// What only the engine notices is one line, too, and no trace of a panic.
#[test]
fn a_journal_that_the_engine_refuses_is_one_line() {
    let folder = temporary("refused");
    std::fs::create_dir_all(&folder).expect("a folder");
    let journal = inputs::journal(&folder);
    let path = folder.join("refused");
    let name = path.to_str().expect("UTF-8");
    let (mut seen, mut tried) = (0, 0);
    for seed in 0..600 {
        // Journals differ from run to run, and with them how many damaged ones get as far as the engine.
        if tried >= 60 && seen > 5 {
            break;
        }
        tried += 1;
        let mut bytes = journal.clone();
        let mut mutator = Mutator::new(seed);
        mutator.damage(&mut bytes);
        std::fs::write(&path, Packing::Zstd.pack(&bytes)).expect("a disk");
        let out = common::lab(&["replay", name, "--variants", "v5", "--bounds", "none"]);
        let said = String::from_utf8_lossy(&out.stderr);
        let lines = said.matches('\n').count();
        let code = out.status.code().expect("no signal");
        assert!(
            code <= 2 && lines == usize::from(code > 0),
            "seed {seed}: {code}: {said}"
        );
        assert!(!said.contains("panicked"), "seed {seed}: {said}");
        seen += u32::from(said.contains("journal damaged at operation") && code == 2);
    }
    println!("{seen} of {tried} damaged at an operation");
    assert!(seen > 5);
    std::fs::remove_dir_all(&folder).expect("our own folder");
}
