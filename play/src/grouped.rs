//! Numbers as people read them.

/// With commas between thousands.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        let shown = [0, 999, 1000, 19_968, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "19,968", "1,234,567"]);
    }
}
