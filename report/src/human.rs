//! Numbers for people.

/// A number with thousands separators and about four significant digits; whole numbers
/// in full.
#[must_use]
pub fn human(x: f64) -> String {
    if !x.is_finite() {
        return "n/a".into();
    }
    let size = x.abs();
    let decimals = match size {
        _ if x.fract() == 0.0 => 0,
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.001 => 5,
        _ => return format!("{x:.2e}"),
    };
    separated(&format!("{x:.decimals$}"))
}

/// A ratio, three decimals (four below 0.01, fewer for large ones).
pub(super) fn ratio(x: f64) -> String {
    match x.abs() {
        s if s >= 1000.0 => human(x.round()),
        s if s >= 100.0 => format!("{x:.1}"),
        s if s >= 0.01 || s == 0.0 => format!("{x:.3}"),
        _ => format!("{x:.5}"),
    }
}

/// An end of a band: no superfluous digits.
pub(super) fn edge(x: f64) -> String {
    let rounded = (x * 1e6).round() / 1e6;
    separated(&format!("{rounded}"))
}

/// Inserts commas into the whole part.
fn separated(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_digits() {
        let cases = [
            (0.0, "0"),
            (999.0, "999"),
            (159_347_462.0, "159,347,462"),
            (-1234.0, "-1,234"),
            (62_485.03, "62,485"),
            (500.97, "501.0"),
            (26.56, "26.56"),
            (0.567, "0.567"),
            (0.0123, "0.01230"),
            (0.000_012, "1.20e-5"),
            (f64::INFINITY, "n/a"),
        ];
        for (x, text) in cases {
            assert_eq!(human(x), text);
        }
        assert_eq!(ratio(0.567_4), "0.567");
        assert_eq!(ratio(0.0012), "0.00120");
        assert_eq!(edge(1.0 - 0.03), "0.97");
        assert_eq!(edge(5000.0), "5,000");
    }
}
