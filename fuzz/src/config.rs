//! The machine a seed stands for.

use coldset_engine::presets;
use coldset_engine::switches::presets::PRESETS;
use coldset_engine::switches::{PolicyKind, Switches};
use coldset_engine::writeback::{DirtyParams, Threshold};
use coldset_lab::draw::Stream;
use coldset_machine::device::{
    DeviceError, DeviceKind, FailRule, FailWhen, FaultPlan, Op, SlowDown,
};
use coldset_machine::{MachineConfig, Marks, ReadAhead, SwapConfig, ZoneSpec};

/// Everything a seed decides before the first operation.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub machine: MachineConfig,
    /// Limit of the memcg above all processes, pages.
    pub limit: u64,
    /// 0: one inline task; else that many tasks on the executor.
    pub tasks: u64,
    /// Processes at a time.
    pub processes: u64,
    /// Sizes of the files, pages, and their devices.
    pub files: Vec<(usize, u32)>,
    /// Anonymous regions of each process, pages.
    pub anon: Vec<u32>,
    /// What goes wrong with each device, then with swap.
    pub faults: Vec<FaultPlan>,
    /// One line about it.
    pub text: String,
}

/// Log-uniform over powers of two and between.
fn size(rng: &mut Stream, lo: u64, hi: u64) -> u64 {
    let top = lo << rng.below((hi / lo).ilog2().into());
    rng.between(top, (top * 2).min(hi))
}

fn pick<T: Clone>(rng: &mut Stream, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

impl Setup {
    /// Draws the setup of a seed.
    pub fn draw(seed: u64) -> Self {
        let rng = &mut Stream::new(seed, "fuzz-setup", 0);
        let (mut switches, mut text) = draw_switches(rng);
        let own = &mut Stream::new(seed, "fuzz-dirty-flush", 0);
        draw_dirty_flush(own, &mut switches, &mut text);
        draw_heat(seed, &mut switches, &mut text);
        let limit = size(rng, 128, 4096);
        let mut m = MachineConfig::new(switches);
        m.cpus = rng.between(1, 4) as u16;
        m.engine.resched_in_lists = own.chance(1, 2);
        m.lazy_cpumask = own.chance(1, 2);
        if own.chance(1, 2) {
            // Tasks meet in the middle of lists.
            m.params.sim_quantum_ns = pick(own, &[100, 1_000, 5_000]);
        }
        m.page_cluster = pick(own, &[0, 1, 3]);
        m.seed = seed;
        m.engine.seed = seed;
        m.engine.swappiness = pick(rng, &[0, 1, 60, 100, 150, 200]);
        m.engine.batch_size = pick(rng, &[1, 2, 15, 31]);
        m.engine.cgroup_v2 = !rng.chance(1, 3);
        m.engine.recursive_protection = rng.chance(1, 2);
        m.engine.fold_interval = pick(rng, &[1_000_000, 100_000_000, 2_000_000_000]);
        m.engine.nr_nodes = if rng.chance(1, 6) {
            pick(own, &[2, 3])
        } else {
            1
        };
        m.fault_around = pick(rng, &[1, 4, 16, 64]);
        let fixed = pick(rng, &[0, 0, 3, 16]);
        m.read_ahead = match own.chance(1, 2) {
            true => ReadAhead::Windows {
                kb: pick(own, &[0, 4, 16, 128, 512]),
            },
            false => ReadAhead::Fixed(fixed),
        };
        m.kernel_memory = rng.chance(1, 2);
        m.ram = rng
            .chance(1, 3)
            .then(|| size(rng, 1024, 8192) * u64::from(m.engine.nr_nodes));
        if let Some(ram) = m.ram {
            m.zones = draw_zones(own, m.engine.nr_nodes, ram);
        }
        m.devices = (0..rng.between(1, 3))
            .map(|_| pick(rng, &DeviceKind::ALL))
            .collect();
        m.swap = draw_swap(rng, limit);
        m.dirty = draw_dirty(rng);
        m.dirty_balance = !rng.chance(1, 5);
        let tasks = if rng.chance(1, 2) {
            0
        } else {
            rng.between(2, 6)
        };
        let processes = if tasks == 0 {
            rng.between(1, 3)
        } else {
            rng.between(1, tasks)
        };
        let files = (0..rng.between(1, 4))
            .map(|_| {
                let device = rng.below(m.devices.len() as u64) as usize;
                (device, size(rng, 16, 2 * limit) as u32)
            })
            .collect();
        let anon = (0..rng.between(1, 2))
            .map(|_| size(rng, 16, limit.max(64)) as u32)
            .collect();
        let faults = (0..=m.devices.len()).map(|_| draw_faults(rng)).collect();
        text += &format!(
            ", {limit} pages, {}{}, swap {}, {} CPUs, RAM {:?}, nodes {}, zones {}, cgroup {}",
            if tasks == 0 {
                "inline".to_owned()
            } else {
                format!("{tasks} tasks")
            },
            if m.kernel_memory {
                ", kernel memory"
            } else {
                ""
            },
            match &m.swap {
                SwapConfig::None => "none".to_owned(),
                SwapConfig::Zram { pages, .. } => format!("zram {pages}"),
                SwapConfig::Disk { pages, device } => format!("{} {pages}", device.name()),
            },
            m.cpus,
            m.ram,
            m.engine.nr_nodes,
            m.zones.len().max(1),
            if m.engine.cgroup_v2 { "v2" } else { "v1" },
        );
        Self {
            machine: m,
            limit,
            tasks,
            processes,
            files,
            anon,
            faults,
            text,
        }
    }
}

/// None: one of each node, with the usual marks. Some have less memory than their marks.
fn draw_zones(rng: &mut Stream, nodes: u32, ram: u64) -> Vec<ZoneSpec> {
    if rng.chance(2, 7) {
        return Vec::new();
    }
    let part = ram / u64::from(nodes);
    let pages = |node| {
        if node == 0 {
            ram - part * u64::from(nodes - 1)
        } else {
            part
        }
    };
    let of_node = (0..nodes).map(|node| zones_of(rng, node, pages(node)));
    of_node.collect::<Vec<_>>().concat()
}

fn zones_of(rng: &mut Stream, node: u32, pages: u64) -> Vec<ZoneSpec> {
    let zones = pick(rng, &[1, 2, 2, 3, 4]);
    let mut left = pages;
    let zone = |i| {
        let pages = match i + 1 == zones {
            true => left,
            false => rng.between(1, left / 2),
        };
        left -= pages;
        let min = rng.between(1, 40);
        let low = min + rng.between(1, 40);
        let marks = Marks {
            min,
            low,
            high: low + rng.between(1, 40),
        };
        ZoneSpec {
            node,
            pages,
            marks,
            reserve: if i + 1 == zones { 0 } else { rng.below(100) },
            batch: None,
        }
    };
    (0..zones).map(zone).collect()
}

fn draw_switches(rng: &mut Stream) -> (Switches, String) {
    // A kernel's policy, or any of the literature as if they were one more.
    let kernels = PRESETS.iter().filter(|p| p.paper.is_none()).count() as u64;
    let mut at = rng.below(kernels + 1);
    if at == kernels {
        at += rng.below(PRESETS.len() as u64 - kernels);
    }
    let name = PRESETS[at as usize].names[0];
    let mut switches = presets::preset(name).expect("a listed preset");
    let mut text = name.to_owned();
    // Switches that are on or off; policies and models come with the presets.
    let flips = if rng.chance(1, 2) {
        0
    } else {
        rng.between(1, 3)
    };
    for _ in 0..flips {
        let all = switches.describe();
        let boolean: Vec<_> = all.iter().filter(|s| s.accepts == "on, off").collect();
        let flip = boolean[rng.below(boolean.len() as u64) as usize];
        let value = if flip.value == "on" { "off" } else { "on" };
        text += &format!(" {}={value}", flip.name);
        let name = flip.name;
        switches.set(name, value).expect("a listed switch");
    }
    if switches.policy == PolicyKind::MultiGen && rng.chance(1, 8) {
        switches.min_ttl_ms = rng.between(1, 2000);
        text += &format!(" min_ttl_ms={}", switches.min_ttl_ms);
    }
    (switches, text)
}

/// A way to batch dirty folios, in one run of two.
fn draw_dirty_flush(rng: &mut Stream, switches: &mut Switches, text: &mut String) {
    if rng.chance(1, 2) {
        let how = pick(rng, &["v1", "v2", "v2", "locked", "1", "8", "64", "list"]);
        let name = "batched_dirty_flush";
        switches.set(name, how).expect("a listed switch");
        *text += &format!(" {name}={how}");
    }
}

/// An order of memcgs by heat, in one run of two. From a stream of its own: the rest of a setup does
/// not depend on it.
fn draw_heat(seed: u64, switches: &mut Switches, text: &mut String) {
    let rng = &mut Stream::new(seed, "fuzz-heat", 0);
    if rng.chance(1, 2) {
        return;
    }
    let max = rng.between(1, 15);
    let hot = rng.between(1, max);
    let posted = rng.chance(1, 2);
    let interval = pick(rng, &[1, 10, 1000]);
    let mut values = vec![
        (
            "memcg_heat",
            if posted { "posted" } else { "wheel" }.to_owned(),
        ),
        ("heat_max", max.to_string()),
        ("heat_hot", hot.to_string()),
        ("heat_warm", rng.between(1, hot).to_string()),
        ("heat_interval_ms", interval.to_string()),
    ];
    if !posted {
        values.push(("heat_rule", pick(rng, &["relative", "absolute"]).to_owned()));
        values.push(("heat_levels", pick(rng, &["heat", "quantile"]).to_owned()));
        let refaults = pick(rng, &["refault", "activate", "restore"]);
        values.push(("heat_refaults", refaults.to_owned()));
        if rng.chance(1, 4) {
            values.push(("heat_interval_ms", "0".to_owned()));
        }
    }
    for (name, value) in values {
        switches.set(name, &value).expect("a listed switch");
        *text += &format!(" {name}={value}");
    }
}

fn draw_swap(rng: &mut Stream, limit: u64) -> SwapConfig {
    let pages = size(rng, 16, limit.max(64)) as u32;
    match rng.below(4) {
        0 => SwapConfig::None,
        1 | 2 => SwapConfig::Zram {
            pages,
            algorithm: pick(rng, &["lz4", "lzo-rle", "zstd"]).to_owned(),
        },
        _ => SwapConfig::Disk {
            pages,
            device: pick(rng, &DeviceKind::ALL),
        },
    }
}

fn draw_dirty(rng: &mut Stream) -> DirtyParams {
    let mut d = DirtyParams::default();
    match rng.below(3) {
        0 => {}
        1 => {
            d.dirty = Threshold::Percent(rng.between(1, 40));
            d.background = Threshold::Percent(rng.between(0, 20));
        }
        _ => {
            d.dirty = Threshold::Bytes(rng.between(1, 512) * 4096);
            d.background = Threshold::Bytes(rng.between(1, 256) * 4096);
        }
    }
    d.dirty_writeback = pick(rng, &[0, 10_000_000, 500_000_000, 5_000_000_000]);
    d.dirty_expire = pick(rng, &[1_000_000, 100_000_000, 30_000_000_000]);
    d
}

fn draw_faults(rng: &mut Stream) -> FaultPlan {
    let mut plan = FaultPlan::default();
    if rng.chance(1, 3) {
        for _ in 0..rng.between(1, 2) {
            let op = pick(rng, &[None, Some(Op::Read), Some(Op::Write)]);
            let when = match rng.below(6) {
                0 => FailWhen::EveryNth(rng.between(2, 200)),
                1 => FailWhen::AfterWritten(rng.between(1, 4096) * 4096),
                2 => FailWhen::BeyondOffset(rng.between(16, 8192) * 4096),
                _ => FailWhen::Ppm(rng.between(100, 300_000)),
            };
            let error = pick(rng, &[DeviceError::Io, DeviceError::NoSpace]);
            plan.fail.push(FailRule { op, when, error });
        }
    }
    if rng.chance(1, 3) {
        let from = rng.below(2_000_000_000);
        plan.slow.push(SlowDown {
            from,
            until: from + rng.below(2_000_000_000),
            percent: rng.between(10, 5000),
        });
    }
    plan
}
