//! Writes to control files, and commands for generations, do what kernels do.

use crate::sim::TimeClass;
use crate::{
    Advice, Ctx, InlineClock, MachineConfig, MachineRun, MappingFlags, MappingId, OpenFile,
    ReadAhead, SwapConfig,
};
use coldset_engine::presets::preset;
use coldset_engine::reclaim::{DebugCommand, DebugError};
use coldset_engine::{Counter, MemcgId, NodeId};
use std::collections::BTreeMap;

/// Random programs, and what Linux 6.12.117, 6.18.15 and 7.2.13 did at each step, the last with the classic lists as well
/// (`scripts/control-files-on-kernels`, which says how to read a line).
const KERNEL: &str = include_str!("kernel.txt");

/// Errors of writes, as numbers.
const EAGAIN: u32 = 11;
const EINVAL: u32 = 22;
const ERANGE: u32 = 34;

/// Pages of each file and of each region.
const PAGES: u32 = 4096;
/// Statistics are folded every two seconds; kernels are left alone for so long before and after each step, ns.
const SETTLE: u64 = 2_200_000_000;

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no number"))
}

/// What the debug interface is told.
enum Command {
    /// With force or without.
    Age(bool),
    /// So many pages.
    Evict(u64),
}

/// A group with a process, a file and memory.
struct Member {
    memcg: MemcgId,
    ctx: Ctx,
    file: OpenFile,
    mapped: MappingId,
    anon: MappingId,
    counted: [i64; 7],
}

struct Host {
    run: MachineRun,
    outside: Ctx,
    parent: MemcgId,
    members: [Member; 2],
}

impl Host {
    fn new(variant: &str) -> Self {
        let mut cfg = MachineConfig::new(preset(variant).unwrap());
        cfg.check = true;
        cfg.read_ahead = ReadAhead::Windows { kb: 0 };
        cfg.page_cluster = 0;
        cfg.kernel_memory = true;
        cfg.params.set("kernel_base_page_ppm", 1_000_000).unwrap();
        cfg.swap = SwapConfig::Zram {
            pages: 32_767,
            algorithm: "lzo-rle".into(),
        };
        let run = MachineRun::new(&cfg).unwrap();
        let m = run.machine.clone();
        let parent = m.world_mut().engine.memcg_create(MemcgId::ROOT).unwrap();
        let member = || {
            let memcg = m.world_mut().engine.memcg_create(parent).unwrap();
            m.world_mut().charge_kernel_base(memcg);
            let mm = m.create_mm(memcg);
            let object = m.create_file(0, PAGES);
            let region = m.create_anon(PAGES);
            let file = OpenFile::new(object);
            file.advise(Advice::Random);
            Member {
                memcg,
                ctx: Ctx::inline(mm, memcg, InlineClock::Running),
                file,
                mapped: m.mmap(mm, object, 0, PAGES, MappingFlags::empty()),
                anon: m.mmap(mm, region, 0, PAGES, MappingFlags::empty()),
                counted: [0; 7],
            }
        };
        let members = [member(), member()];
        Self {
            run,
            outside: Ctx::inline(
                m.create_mm(MemcgId::ROOT),
                MemcgId::ROOT,
                InlineClock::Running,
            ),
            parent,
            members,
        }
    }

    fn settle(&mut self) {
        let until = self.run.executor.now() + SETTLE;
        let sleep = self.outside.sleep_until(TimeClass::Idle, until);
        self.run.run_inline(&self.outside, sleep);
    }

    /// One access to each page.
    fn access(&mut self, member: usize, kind: u8, from: u32, pages: u32) {
        let m = self.run.machine.clone();
        let who = &self.members[member];
        for page in from..from + pages {
            let ctx = &who.ctx;
            let mapped = match kind {
                b'R' => None,
                b'M' => Some((who.mapped, false)),
                b'S' => Some((who.anon, true)),
                b'L' => Some((who.anon, false)),
                other => panic!("{}: no kind of access", char::from(other)),
            };
            let done = match mapped {
                None => self.run.run_inline(ctx, m.read(ctx, &who.file, page, 1)),
                Some((mapping, write)) => {
                    let access = m.access(ctx, mapping, page, write);
                    self.run.run_inline(ctx, access).map(drop)
                }
            };
            done.unwrap();
            // Who waits for a page is switched out.
            if ctx.take_reading() > 0 {
                m.world_mut().engine.mm_ran(ctx.mm);
            }
        }
        m.world_mut().engine.mm_ran(who.ctx.mm);
    }

    /// `GROUP.FILE=PAGES[@SWAPPINESS]`, or `-PAGES`: so many less than are charged. The error of the write.
    fn control(&mut self, text: &str) -> u32 {
        let (group, rest) = text.split_once('.').unwrap();
        let memcg = match group {
            "a" => self.members[0].memcg,
            "b" => self.members[1].memcg,
            _ => self.parent,
        };
        if let Some(nr) = rest.strip_prefix("evict=") {
            return self.command(memcg, Command::Evict(number(nr)));
        }
        if let Some(force) = rest.strip_prefix("age") {
            return self.command(memcg, Command::Age(force != "=0"));
        }
        let end = rest.find(['=', '-']).unwrap();
        let (file, value) = (&rest[..end], &rest[end + 1..]);
        let (value, swappiness) = match value.split_once('@') {
            Some((v, s)) => (v, Some(number(s))),
            None => (value, None),
        };
        let m = self.run.machine.clone();
        let pages: u64 = match value {
            "max" => u64::MAX,
            v if rest.as_bytes()[end] == b'-' => {
                let tree = &mut m.world_mut().engine.memcgs;
                tree.drain_stocks(memcg);
                tree[memcg].memory().usage().saturating_sub(number(v))
            }
            v => number(v),
        };
        let ctx = &self.outside;
        match file {
            "max" => self
                .run
                .run_inline(ctx, m.write_max(ctx, memcg, pages))
                .unwrap(),
            "high" => self
                .run
                .run_inline(ctx, m.write_high(ctx, memcg, pages))
                .unwrap(),
            "low" => m.world_mut().engine.memcgs.set_low(memcg, pages).unwrap(),
            "min" => m.world_mut().engine.memcgs.set_min(memcg, pages).unwrap(),
            _ => {
                let write = m.write_reclaim(ctx, memcg, pages, swappiness);
                let freed = self.run.run_inline(ctx, write).unwrap();
                return if freed < pages { EAGAIN } else { 0 };
            }
        }
        0
    }

    /// A command for its oldest generation, or its youngest.
    fn command(&mut self, memcg: MemcgId, command: Command) -> u32 {
        let m = self.run.machine.clone();
        let generations = m.world().engine.generations(memcg);
        let (oldest, youngest) = (generations[0][0], generations.last().unwrap()[0]);
        let command = match command {
            Command::Evict(nr) => DebugCommand::Evict { seq: oldest, nr },
            Command::Age(force) => DebugCommand::Age {
                seq: youngest,
                force,
            },
        };
        let ctx = &self.outside;
        let done = m.lru_gen(ctx, memcg, NodeId(0), command);
        match self.run.run_inline(ctx, done) {
            Ok(_) => 0,
            Err(DebugError::Full { .. }) => ERANGE,
            Err(_) => EINVAL,
        }
    }

    /// What a group has, and what has been counted since it was last asked.
    fn report(&mut self, member: usize) -> String {
        let who = &mut self.members[member];
        let w = self.run.machine.world();
        let tree = &w.engine.memcgs;
        let live = |c| tree.live(who.memcg, c);
        let counts = [
            live(Counter::PgscanAnon) + live(Counter::PgscanFile),
            live(Counter::PgstealAnon) + live(Counter::PgstealFile),
            live(Counter::Pgactivate),
            live(Counter::RefaultFile),
            live(Counter::RefaultAnon),
            tree.event_total(who.memcg, Counter::EventsHigh),
            tree.event_total(who.memcg, Counter::EventsMax),
        ];
        let mut numbers = vec![
            live(Counter::FilePages),
            live(Counter::AnonPages),
            tree[who.memcg].swap().usage() as i64,
        ];
        let added = counts.iter().zip(who.counted);
        numbers.extend(added.map(|(now, before)| now - before));
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
        who.counted = counts;
        let generations = w.engine.generations(who.memcg);
        if generations.is_empty() {
            let [ia, aa, inactive, active] = [
                Counter::InactiveAnon,
                Counter::ActiveAnon,
                Counter::InactiveFile,
                Counter::ActiveFile,
            ]
            .map(live);
            return format!("{};{ia}/{aa},{inactive}/{active}", numbers.join(","));
        }
        let pages: Vec<String> = generations
            .iter()
            .map(|[_, anon, file]| format!("{anon}/{file}"))
            .collect();
        let first = generations[0][0];
        format!("{};{first}:{}", numbers.join(","), pages.join(","))
    }

    /// Takes a step, and says what came of it as a line does.
    fn step(&mut self, step: &str) -> String {
        self.settle();
        let error = match step.as_bytes() {
            [_, b'.', ..] => self.control(step),
            [who, kind, ..] => {
                let (from, pages) = step[2..].split_once('+').unwrap();
                self.access(usize::from(who - b'a'), *kind, number(from), number(pages));
                0
            }
            _ => panic!("{step} is no step"),
        };
        self.settle();
        let [a, b] = [0, 1].map(|member| self.report(member));
        format!("{step}={error}|a:{a}|b:{b}")
    }
}

#[test]
fn control_files_and_commands_do_what_kernels_do() {
    let mut of = BTreeMap::new();
    for line in KERNEL.lines() {
        let mut words = line.split(' ');
        let (variant, name) = (words.next().unwrap(), words.next().unwrap());
        *of.entry(variant).or_insert(0) += 1;
        let mut host = Host::new(variant);
        for word in words {
            let (result, _) = word.split_once('|').unwrap();
            let (step, _) = result.rsplit_once('=').unwrap();
            assert_eq!(host.step(step), word, "{variant} {name}");
        }
    }
    assert!(of.len() == 4 && of.values().all(|&n| n >= 12), "{of:?}");
}
