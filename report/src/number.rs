//! Counter values: integers stay integers.

/// A counter's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An exact count.
    Int(u64),
    /// Anything else.
    Real(f64),
}

/// Integers up to here are exact as doubles.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// As a double (counts above 2^53 are rounded).
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Real(x) => x,
        }
    }

    /// Mean of several, an integer where it is one; `None` for none.
    #[must_use]
    pub fn mean(values: &[Self]) -> Option<Self> {
        let mut sum = 0u128;
        for value in values {
            match value {
                Self::Int(n) => sum += u128::from(*n),
                Self::Real(_) => {
                    let reals: Vec<f64> = values.iter().map(|v| v.as_f64()).collect();
                    return crate::stats::mean(&reals).map(Self::Real);
                }
            }
        }
        let n = values.len() as u128;
        match n {
            0 => None,
            n if sum.is_multiple_of(n) => Some(Self::Int((sum / n) as u64)),
            n => Some(Self::Real(sum as f64 / n as f64)),
        }
    }

    /// JSON form: an integer without a point wherever the value is one, else the
    /// shortest digits that read back the same; `null` if not finite.
    #[must_use]
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Int(n) => n.into(),
            Self::Real(x) if x.fract() == 0.0 && x.abs() < EXACT_MAX => (x as i64).into(),
            Self::Real(x) => {
                serde_json::Number::from_f64(x).map_or(serde_json::Value::Null, Into::into)
            }
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

impl From<u64> for Number {
    fn from(n: u64) -> Self {
        Self::Int(n)
    }
}

impl From<u32> for Number {
    fn from(n: u32) -> Self {
        Self::Int(n.into())
    }
}

impl From<f64> for Number {
    fn from(x: f64) -> Self {
        Self::Real(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_no_point_and_reals_round_trip() {
        let cases = [
            (Number::Int(u64::MAX), "18446744073709551615"),
            (Number::Real(3.0), "3"),
            (Number::Real(-3.0), "-3"),
            (Number::Real(-0.0), "0"),
            (Number::Real(0.1), "0.1"),
            (Number::Real(1.0 / 3.0), "0.3333333333333333"),
            (Number::Real(1e300), "1e+300"),
            (Number::Real(f64::NAN), "null"),
        ];
        for (number, text) in cases {
            assert_eq!(number.to_string(), text);
        }
    }

    #[test]
    fn means_stay_exact() {
        let big = Number::Int(u64::MAX);
        assert_eq!(Number::mean(&[big, big]), Some(big));
        let half = Number::mean(&[Number::Int(1), Number::Int(2)]);
        assert_eq!(half, Some(Number::Real(1.5)));
        let mixed = Number::mean(&[Number::Int(1), Number::Real(2.0)]);
        assert_eq!(mixed, Some(Number::Real(1.5)));
        assert_eq!(Number::mean(&[]), None);
    }
}
