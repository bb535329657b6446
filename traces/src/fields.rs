//! Numbers in text traces. Refused are signs, fractions and anything beyond 64 bits.

use super::problem::Problem;

/// A decimal number.
pub(super) fn decimal(text: &[u8], expected: &'static str) -> Result<u64, Problem> {
    parse(text, 10).ok_or_else(|| Problem::text(text, expected))
}

/// A hexadecimal number without prefix.
pub(super) fn hex(text: &[u8], expected: &'static str) -> Result<u64, Problem> {
    parse(text, 16).ok_or_else(|| Problem::text(text, expected))
}

/// A number in the given base, or nothing.
pub(super) fn parse(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        value
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))
    })
}

/// The fields of a line separated by blanks or tabs, if they are exactly `N`.
pub(super) fn blank_separated<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    exactly(
        line.split(|b| b.is_ascii_whitespace())
            .filter(|field| !field.is_empty()),
    )
}

/// The fields of a line separated by commas, blanks around them removed, if they are
/// exactly `N`.
pub(super) fn comma_separated<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    exactly(line.split(|&b| b == b',').map(<[u8]>::trim_ascii))
}

fn exactly<'a, const N: usize>(
    mut fields: impl Iterator<Item = &'a [u8]>,
) -> Option<[&'a [u8]; N]> {
    let mut found: [&[u8]; N] = [&[]; N];
    for slot in &mut found {
        *slot = fields.next()?;
    }
    fields.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_of_64_bits_pass() {
        assert_eq!(parse(b"18446744073709551615", 10), Some(u64::MAX));
        assert_eq!(parse(b"fF", 16), Some(255));
        for bad in [
            &b""[..],
            b"18446744073709551616",
            b"-1",
            b"+1",
            b"1.5",
            b"0x1",
            b"1_0",
        ] {
            assert_eq!(parse(bad, 10), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn fields_are_counted() {
        assert_eq!(blank_separated::<2>(b"a \t b"), Some([&b"a"[..], b"b"]));
        assert_eq!(blank_separated::<2>(b"a"), None);
        assert_eq!(blank_separated::<2>(b"a b c"), None);
        assert_eq!(comma_separated::<3>(b"a, ,c"), Some([&b"a"[..], b"", b"c"]));
    }
}
