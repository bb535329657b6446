//! Whether others used the CPUs meanwhile.

use std::fs;

/// Shares of all CPU time above which figures are in doubt.
const OTHERS_MAX: f64 = 0.05;
const STOLEN_MAX: f64 = 0.01;
/// (Largest - smallest) / median of a row above which it is.
const SPREAD_MAX: f64 = 0.15;

/// Clock ticks since the machine began.
pub struct Ticks {
    all: f64,
    idle: f64,
    stolen: f64,
    own: f64,
}

impl Ticks {
    /// Now; none where the system does not tell.
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        // user nice system idle iowait irq softirq steal; what guests took is in user.
        let cpu = stat.lines().next()?.strip_prefix("cpu ")?;
        let cpu: Vec<f64> = cpu
            .split_whitespace()
            .take(8)
            .map_while(|n| n.parse().ok())
            .collect();
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        // After the name: utime, stime, and those of children waited for, are fields 14 to 17.
        let (_, own) = own.rsplit_once(')')?;
        let own = own.split_whitespace().skip(11).take(4);
        Some(Self {
            all: cpu.iter().sum(),
            idle: cpu.get(3)? + cpu.get(4)?,
            stolen: *cpu.get(7)?,
            own: own.map_while(|n| n.parse::<f64>().ok()).sum(),
        })
    }
}

/// What others did.
pub struct Noise {
    /// Share of the CPUs' time that other processes took.
    pub others: f64,
    /// Share that other machines took.
    pub stolen: f64,
}

impl Noise {
    /// Between two moments.
    pub fn between(from: &Ticks, to: &Ticks) -> Self {
        let all = (to.all - from.all).max(1.0);
        let stolen = to.stolen - from.stolen;
        let busy = all - (to.idle - from.idle) - stolen;
        Self {
            others: ((busy - (to.own - from.own)) / all).max(0.0),
            stolen: stolen / all,
        }
    }
}

/// What is to be said of a run: of its noise, and of the spreads of its rows.
pub fn verdict(noise: Option<&Noise>, spreads: &[f64]) -> String {
    let wide = spreads.iter().filter(|&&s| s > SPREAD_MAX).count();
    let widest = spreads.iter().copied().fold(0.0, f64::max);
    let mut said = match noise {
        Some(n) if n.others > OTHERS_MAX || n.stolen > STOLEN_MAX => format!(
            "NOISY: other processes took {:.0} % of the CPUs, {:.1} % were stolen.",
            n.others * 100.0,
            n.stolen * 100.0
        ),
        Some(_) => "The CPUs were free.".into(),
        None => "Whether the CPUs were free is not known: it needs /proc/stat.".into(),
    };
    if wide > 0 {
        said += &format!(
            " {wide} of {} measurements spread over more than {:.0} %, up to {:.0} %: smaller differences mean nothing.",
            spreads.len(),
            SPREAD_MAX * 100.0,
            widest * 100.0
        );
    }
    said
}
