//! Time told by a list of points: piecewise linear over the access index. No access begins earlier
//! (`docs/rules/machine.md#times-of-a-recording`).

use std::fmt;

/// Points (access index, ns), both ascending, what a read of the device took, and when statistics were folded first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clock {
    points: Vec<(u64, u64)>,
    waits: Waits,
    read_ns: Option<u64>,
    fold_ns: Option<u64>,
}

/// What is known of the waits of a recording, until each point.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Waits {
    Unknown,
    /// Reads of the device.
    Reads(Vec<u64>),
    /// Time asleep for any reason, ns.
    Asleep(Vec<u64>),
}

/// Why a clock cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClockError {
    /// Not `ACCESS:SECONDS`, `ACCESS:SECONDS:READS` or `ACCESS:SECONDS:SECONDSs`.
    #[error("clock point '{0}' is not of the form ACCESS:SECONDS, for example 32768:6.58; :READS (:4711) or the time asleep (:4.1s) may follow, at all points or none")]
    Form(String),
    /// Not `read:SECONDS` behind the points.
    #[error(
        "clock: '{0}' is not what a read of the device took, which comes behind the points: read:SECONDS, above 0 and up to 1000, for example read:0.000087"
    )]
    Read(String),
    /// Not `fold:SECONDS` behind the points.
    #[error(
        "clock: '{0}' is not when statistics were folded first, which comes last: fold:SECONDS, above 0 and up to 1000, for example fold:1.37"
    )]
    Fold(String),
    /// Out of order.
    #[error(
        "clock point '{0}' is not after the one before it; list the points in ascending order"
    )]
    Order(String),
    /// Fewer than two points.
    #[error("a clock needs at least two points, for example 0:0,32768:6.58")]
    Short,
}

impl Clock {
    /// From points in ascending order.
    ///
    /// # Errors
    /// Fewer than two points, or points out of order.
    pub fn new(points: Vec<(u64, u64)>) -> Result<Self, ClockError> {
        if points.len() < 2 {
            return Err(ClockError::Short);
        }
        for w in points.windows(2) {
            if w[1].0 <= w[0].0 || w[1].1 < w[0].1 {
                return Err(ClockError::Order(format!(
                    "{}:{}",
                    w[1].0,
                    w[1].1 as f64 / 1e9
                )));
            }
        }
        Ok(Self {
            points,
            waits: Waits::Unknown,
            read_ns: None,
            fold_ns: None,
        })
    }

    /// The same of a recording that had done so many reads of the device at each of the points.
    ///
    /// # Errors
    /// Not one number a point, or numbers that fall.
    pub fn with_reads_at(self, reads: Vec<u64>) -> Result<Self, ClockError> {
        self.check_waits(&reads)?;
        let waits = Waits::Reads(reads);
        Ok(Self { waits, ..self })
    }

    /// The same of a recording that had been asleep so long at each of the points, ns.
    ///
    /// # Errors
    /// Not one time a point, or times that fall.
    pub fn with_asleep_at(self, ns: Vec<u64>) -> Result<Self, ClockError> {
        self.check_waits(&ns)?;
        let waits = Waits::Asleep(ns);
        Ok(Self { waits, ..self })
    }

    fn check_waits(&self, waits: &[u64]) -> Result<(), ClockError> {
        match waits.windows(2).find(|w| w[1] < w[0]) {
            Some(w) => Err(ClockError::Order(w[1].to_string())),
            None if waits.len() != self.points.len() => {
                Err(ClockError::Form(format!("{} waits", waits.len())))
            }
            None => Ok(()),
        }
    }

    /// The same of a recording in which a read of the device took so long, ns.
    #[must_use]
    pub fn with_reads_of(self, ns: u64) -> Self {
        Self {
            read_ns: Some(ns),
            ..self
        }
    }

    /// The same of a recording in which all statistics were folded first so long after its beginning, ns.
    #[must_use]
    pub fn with_first_fold(self, ns: u64) -> Self {
        Self {
            fold_ns: Some(ns),
            ..self
        }
    }

    /// Reads `ACCESS:SECONDS,ACCESS:SECONDS,...`, each with `:READS` behind it, or with `:SECONDSs` that it had been asleep, or none
    /// of them, and behind them, if they are known, what a read of the device took and when statistics were folded first:
    /// `,read:SECONDS,fold:SECONDS`.
    ///
    /// # Errors
    /// As [`Self::new`], or a point that is not a pair of numbers.
    pub fn parse(text: &str) -> Result<Self, ClockError> {
        let (text, fold) = last(text, "fold");
        let (points, read) = last(text, "read");
        let clock = Self::through(&points.split(',').collect::<Vec<_>>())?;
        let time = |part: &str, name: &str| {
            let ns = nanoseconds(part.strip_prefix(name)?)?;
            (1..=1_000_000_000_000).contains(&ns).then_some(ns)
        };
        let read_ns = read.map(|r| time(r, "read:").ok_or_else(|| ClockError::Read(r.into())));
        let fold_ns = fold.map(|f| time(f, "fold:").ok_or_else(|| ClockError::Fold(f.into())));
        Ok(Self {
            read_ns: read_ns.transpose()?,
            fold_ns: fold_ns.transpose()?,
            ..clock
        })
    }

    /// Through points as they are written.
    fn through(texts: &[&str]) -> Result<Self, ClockError> {
        let form = |p: &str| ClockError::Form(p.trim().into());
        let mut points = Vec::new();
        let (mut reads, mut asleep) = (Vec::new(), Vec::new());
        for text in texts {
            let (access, rest) = text.split_once(':').ok_or_else(|| form(text))?;
            let (seconds, waits) = rest.split_once(':').unzip();
            let access = access.trim().parse().map_err(|_| form(text))?;
            let ns = nanoseconds(seconds.unwrap_or(rest)).ok_or_else(|| form(text))?;
            points.push((access, ns));
            let Some(waits) = waits.map(str::trim) else {
                continue;
            };
            match waits.strip_suffix('s') {
                Some(seconds) => asleep.push(nanoseconds(seconds).ok_or_else(|| form(text))?),
                None => reads.push(waits.parse().map_err(|_| form(text))?),
            }
        }
        let clock = Self::new(points)?;
        match (reads.len(), asleep.len()) {
            (0, 0) => Ok(clock),
            (all, 0) if all == texts.len() => clock.with_reads_at(reads),
            (0, all) if all == texts.len() => clock.with_asleep_at(asleep),
            // At some points only, or of both kinds.
            _ => {
                let lacks = |text: &&&str| text.matches(':').count() < 2;
                let asleep = |text: &str| text.trim().ends_with('s');
                let other = |text: &&&str| asleep(text) != asleep(texts[0]);
                let wrong = texts.iter().find(lacks);
                let wrong = wrong.or_else(|| texts.iter().find(other));
                Err(form(wrong.expect("one of them differs")))
            }
        }
    }

    /// Time of an access, ns. Beyond the ends the first and last slopes are extended.
    pub fn at(&self, access: u64) -> u64 {
        let part = self.part(access);
        part.share(access, part.ns)
    }

    /// The part between two points that has the access.
    pub(super) fn part(&self, access: u64) -> Part {
        let i = self
            .points
            .partition_point(|p| p.0 <= access)
            .clamp(1, self.points.len() - 1);
        let ((access, begins), (next, ends)) = (self.points[i - 1], self.points[i]);
        let ns = ends - begins;
        let between = |of: &[u64]| of[i] - of[i - 1];
        let waits = match &self.waits {
            Waits::Unknown => None,
            Waits::Reads(n) => self.read_ns.map(|ns| between(n).saturating_mul(ns)),
            Waits::Asleep(ns) => Some(between(ns)),
        };
        Part {
            access,
            begins,
            accesses: next - access,
            ns,
            // Several may wait at once.
            waits: waits.filter(|&waits| waits < ns),
        }
    }

    /// Waits of all kinds are known, not only those for reads.
    pub(super) fn knows_all_waits(&self) -> bool {
        matches!(self.waits, Waits::Asleep(_))
    }

    /// What a read of the device took, ns, if that is known.
    pub fn read_ns(&self) -> Option<u64> {
        self.read_ns
    }

    /// When all statistics were folded first, ns after the beginning, if that is known.
    pub fn first_fold_ns(&self) -> Option<u64> {
        self.fold_ns
    }

    /// Access indices of the points.
    pub fn accesses(&self) -> impl Iterator<Item = u64> + '_ {
        self.points.iter().map(|p| p.0)
    }
}

/// What lies between two points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Its first access.
    pub access: u64,
    begins: u64,
    accesses: u64,
    ns: u64,
    /// Of its time, what waits took, if that is known and less than all.
    waits: Option<u64>,
}

impl Part {
    /// When the access begins if all of the part take the same of these ns.
    fn share(&self, access: u64, ns: u64) -> u64 {
        let into = u128::from(access.saturating_sub(self.access));
        self.begins + (into * u128::from(ns) / u128::from(self.accesses)) as u64
    }

    /// Time of an access before which the replay has waited so long since the part began, ns: all accesses take the same time
    /// besides.
    pub(super) fn at(&self, access: u64, waited: u64) -> u64 {
        match self.waits {
            Some(waits) => self.share(access, self.ns - waits) + waited,
            None => self.share(access, self.ns),
        }
    }
}

/// A list without its last part, and that, if it is of this name.
fn last<'a>(text: &'a str, name: &str) -> (&'a str, Option<&'a str>) {
    match text.rsplit_once(',') {
        Some((before, part)) if part.trim().starts_with(name) => (before, Some(part.trim())),
        _ => (text, None),
    }
}

/// Seconds as nanoseconds.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let s: f64 = seconds.trim().parse().ok()?;
    (s.is_finite() && s >= 0.0).then_some((s * 1e9).round() as u64)
}

/// As [`Clock::parse`] reads it.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (access, ns)) in self.points.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(f, "{comma}{access}:{}", *ns as f64 / 1e9)?;
            match &self.waits {
                Waits::Unknown => {}
                Waits::Reads(reads) => write!(f, ":{}", reads[n])?,
                Waits::Asleep(ns) => write!(f, ":{}s", ns[n] as f64 / 1e9)?,
            }
        }
        if let Some(ns) = self.read_ns {
            write!(f, ",read:{}", ns as f64 / 1e9)?;
        }
        if let Some(ns) = self.fold_ns {
            write!(f, ",fold:{}", ns as f64 / 1e9)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
