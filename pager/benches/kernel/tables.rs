//! What came out, as tables and as JSON.

use crate::arm::Outcome;
use crate::Options;
use comfy_table::{presets, CellAlignment, Table};

/// Outcomes of a row, a round each: those of the same round are a pair. The kernel's arm may be missing.
pub struct Measured {
    pub name: String,
    pub ops: usize,
    pub kernel: Vec<Outcome>,
    pub pager: Vec<Outcome>,
    /// The least a pager outside of the kernel does.
    pub floor: Vec<Outcome>,
    /// An operation is a page that comes in, however many misses it takes.
    in_order: bool,
}

/// Others that take more than this share of the machine disturb a measurement.
const DISTURBED: f64 = 0.1;
/// Pairs whose ratios differ by more than this, of the median, are called so.
const SCATTERED: f64 = 0.2;

impl Measured {
    pub fn new(name: &str, ops: usize) -> Self {
        Self {
            name: name.into(),
            ops,
            kernel: Vec::new(),
            pager: Vec::new(),
            floor: Vec::new(),
            in_order: false,
        }
    }

    /// Its operations go from page to page.
    pub fn in_order(self, in_order: bool) -> Self {
        Self { in_order, ..self }
    }

    /// CPU microseconds for a page that comes in.
    fn cpu_a_page(&self, c: &Outcome) -> f64 {
        let pages = if self.in_order {
            self.ops as f64
        } else {
            c.misses as f64
        };
        c.cpu / pages * 1e6
    }

    /// One arm's CPU time for a page that comes in over another's, of each round.
    fn a_page(&self, over: &[Outcome], under: &[Outcome]) -> Spread {
        let pairs = over.iter().zip(under);
        Spread::of(pairs.map(|(a, b)| self.cpu_a_page(a) / self.cpu_a_page(b)))
    }

    /// The kernel's figure over the pager's, of each pair.
    fn ratios(&self, f: impl Fn(&Outcome) -> f64) -> Spread {
        let pairs = self.kernel.iter().zip(&self.pager);
        Spread::of(pairs.map(|(k, p)| f(k) / f(p)))
    }

    /// Medians, the kernel's and the pager's.
    fn both(&self, digits: usize, f: impl Fn(&Outcome) -> f64) -> String {
        let one = |all: &[Outcome]| shown(Spread::of(all.iter().map(&f)).median(), digits);
        format!("{} / {}", one(&self.kernel), one(&self.pager))
    }
}

/// Figures in order.
struct Spread(Vec<f64>);

impl Spread {
    fn of(all: impl Iterator<Item = f64>) -> Self {
        let mut v: Vec<f64> = all.filter(|v| v.is_finite()).collect();
        v.sort_by(f64::total_cmp);
        Self(v)
    }

    fn median(&self) -> Option<f64> {
        self.0.get(self.0.len() / 2).copied()
    }

    /// The lowest and the highest.
    fn ends(&self) -> String {
        match (self.0.first(), self.0.last()) {
            (Some(low), Some(high)) => format!("{low:.2}-{high:.2}"),
            _ => "-".into(),
        }
    }

    fn is_scattered(&self) -> bool {
        match (self.0.first(), self.0.last(), self.median()) {
            (Some(low), Some(high), Some(m)) => high - low > SCATTERED * m,
            _ => false,
        }
    }
}

fn shown(v: Option<f64>, digits: usize) -> String {
    v.map_or("-".into(), |v| format!("{v:.digits$}"))
}

/// Prints the tables and how to read them.
pub fn print(all: &[Measured], rounds: usize) {
    println!("\n{}", ratios(all));
    println!(
        "The kernel's figure over the pager's, above 1 the pager is better: medians of\n\
         {rounds} pairs, each measured one right after the other, and the lowest and highest.\n\
         !: the ratios of CPU time differ by more than {:.0} % of their median.",
        SCATTERED * 100.0
    );
    println!("\n{}", figures(all));
    println!(
        "Medians, the kernel's / the pager's; times in us an operation. again: misses of\n\
         pages that had been in memory, of all misses, in percent.\n"
    );
    println!("{}", latencies(all));
    println!(
        "us, of the slowest operations, as many as missed. TLB: interrupts that flush\n\
         translations, a page taken out."
    );
    if all.iter().any(|m| !m.floor.is_empty()) {
        println!("\n{}", floors(all));
        println!(
            "CPU time for a page that comes in, us, and ratios of it. The floor is the least that a\n\
             pager outside of the kernel does for a miss, without a look at what is used. Where\n\
             kernel / floor is below 1, no pager misses as often as the kernel and needs as\n\
             little; floor / pager is what is left of the pager's own cost."
        );
    }
    println!("{}", noise(all));
}

fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut t = Table::new();
    t.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    t.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    for i in 1..N {
        let column = t.column_mut(i).expect("a column");
        column.set_cell_alignment(CellAlignment::Right);
    }
    t
}

fn ratios(all: &[Measured]) -> Table {
    let mut t = new_table(["work", "CPU time", "from-to", "wall time", "from-to", ""]);
    for m in all.iter().filter(|m| !m.kernel.is_empty()) {
        let (cpu, wall) = (m.ratios(|c| c.cpu), m.ratios(|c| c.wall));
        let mark = if cpu.is_scattered() { "!" } else { "" };
        t.add_row([
            m.name.clone(),
            shown(cpu.median(), 2),
            cpu.ends(),
            shown(wall.median(), 2),
            wall.ends(),
            mark.into(),
        ]);
    }
    t
}

fn figures(all: &[Measured]) -> Table {
    let mut t = new_table(["work", "CPU", "wall", "misses/op", "again"]);
    for m in all {
        let n = m.ops as f64;
        t.add_row([
            m.name.clone(),
            m.both(2, |c| c.cpu / n * 1e6),
            m.both(2, |c| c.wall / n * 1e6),
            m.both(3, |c| c.misses as f64 / n),
            m.both(0, |c| c.again as f64 / c.misses as f64 * 100.0),
        ]);
    }
    t
}

fn floors(all: &[Measured]) -> Table {
    let mut t = new_table([
        "a page that comes in",
        "kernel",
        "floor",
        "pager",
        "kernel / floor",
        "from-to",
        "floor / pager",
        "from-to",
    ]);
    for m in all.iter().filter(|m| !m.floor.is_empty()) {
        let arm = |all: &[Outcome]| {
            let cpu = all.iter().map(|c| m.cpu_a_page(c));
            shown(Spread::of(cpu).median(), 2)
        };
        let bound = m.a_page(&m.kernel, &m.floor);
        let left = m.a_page(&m.floor, &m.pager);
        t.add_row([
            m.name.clone(),
            arm(&m.kernel),
            arm(&m.floor),
            arm(&m.pager),
            shown(bound.median(), 2),
            bound.ends(),
            shown(left.median(), 2),
            left.ends(),
        ]);
    }
    t
}

fn latencies(all: &[Measured]) -> Table {
    let mut t = new_table(["a miss", "p50", "p99", "p99.9", "TLB"]);
    for m in all {
        t.add_row([
            m.name.clone(),
            m.both(0, |c| c.miss_us[0].unwrap_or(f64::NAN)),
            m.both(0, |c| c.miss_us[1].unwrap_or(f64::NAN)),
            m.both(0, |c| c.miss_us[2].unwrap_or(f64::NAN)),
            m.both(2, |c| c.shootdowns as f64 / c.evicted as f64),
        ]);
    }
    t
}

/// What other programs did meanwhile.
fn noise(all: &[Measured]) -> String {
    let outcomes = || {
        all.iter()
            .flat_map(|m| m.kernel.iter().chain(&m.pager).chain(&m.floor))
    };
    let disturbed = outcomes().filter(|c| c.others > DISTURBED).count();
    let most = outcomes().map(|c| c.others).fold(0.0, f64::max);
    if disturbed == 0 {
        return format!(
            "Quiet: others took at most {:.0} % of the CPUs.",
            most * 100.0
        );
    }
    format!(
        "A NOISY MACHINE: in {disturbed} of {} measurements others (or threads of the kernel) took\n\
         more than {:.0} % of the CPUs, up to {:.0} %. Wall times are of little worth then.",
        outcomes().count(),
        DISTURBED * 100.0,
        most * 100.0
    )
}

/// All figures of all rounds.
pub fn json(all: &[Measured], o: &Options) -> String {
    let rows: Vec<_> = all
        .iter()
        .map(|m| {
            serde_json::json!({
                "name": m.name, "operations": m.ops, "kernel": m.kernel, "pager": m.pager, "floor": m.floor,
            })
        })
        .collect();
    serde_json::json!({
        "mib": o.mib, "budget_mib": o.budget_mib, "policy": o.policy, "rows": rows,
    })
    .to_string()
}
