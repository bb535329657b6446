//! Time told by a list of points: piecewise linear over the access index. No access begins earlier
//! (`docs/rules/machine.md#times-of-a-recording`).

use std::fmt;

/// Points (access index, ns), both ascending, what a read of the device took, and when statistics were folded first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clock {
    points: Vec<(u64, u64)>,
    read_ns: Option<u64>,
    fold_ns: Option<u64>,
}

/// Why a clock cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClockError {
    /// Not `ACCESS:SECONDS`.
    #[error("clock point '{0}' is not of the form ACCESS:SECONDS, for example 32768:6.58")]
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
            read_ns: None,
            fold_ns: None,
        })
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

    /// Reads `ACCESS:SECONDS,ACCESS:SECONDS,...`, and behind it, if they are known, what a read of the device took and
    /// when statistics were folded first: `,read:SECONDS,fold:SECONDS`.
    ///
    /// # Errors
    /// As [`Self::new`], or a point that is not a pair of numbers.
    pub fn parse(text: &str) -> Result<Self, ClockError> {
        let point = |p: &str| -> Option<(u64, u64)> {
            let (a, s) = p.split_once(':')?;
            Some((a.trim().parse().ok()?, nanoseconds(s)?))
        };
        let (text, fold) = last(text, "fold");
        let (points, read) = last(text, "read");
        let points = points
            .split(',')
            .map(|p| point(p).ok_or_else(|| ClockError::Form(p.trim().into())))
            .collect::<Result<Vec<_>, _>>()?;
        let time = |part: &str, name: &str| {
            let ns = nanoseconds(part.strip_prefix(name)?)?;
            (1..=1_000_000_000_000).contains(&ns).then_some(ns)
        };
        let read_ns = read.map(|r| time(r, "read:").ok_or_else(|| ClockError::Read(r.into())));
        let fold_ns = fold.map(|f| time(f, "fold:").ok_or_else(|| ClockError::Fold(f.into())));
        Ok(Self {
            read_ns: read_ns.transpose()?,
            fold_ns: fold_ns.transpose()?,
            ..Self::new(points)?
        })
    }

    /// Time of an access, ns. Beyond the ends the first and last slopes are extended.
    pub fn at(&self, access: u64) -> u64 {
        let i = self
            .points
            .partition_point(|p| p.0 <= access)
            .clamp(1, self.points.len() - 1);
        let ((a0, t0), (a1, t1)) = (self.points[i - 1], self.points[i]);
        let into = access.saturating_sub(a0);
        t0 + (u128::from(into) * u128::from(t1 - t0) / u128::from(a1 - a0)) as u64
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
