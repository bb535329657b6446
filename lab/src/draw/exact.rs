//! Logarithm, exponential and power from IEEE-exact basic operations.
//!
//! The C library's versions may differ in the last bit between machines; additions,
//! multiplications and divisions may not. Relative error is a few 1e-16 for the
//! arguments the workloads use (results between 1e-300 and 1e300).

/// High part of ln 2: its low 21 bits are zero, so `k * LN2_HI` is exact for the `k` used.
const LN2_HI: f64 = 6.931_471_803_691_238e-1;
/// `ln 2 - LN2_HI`.
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;

/// Natural logarithm of a finite, normal `x > 0`.
///
/// # Panics
/// If `x` is not a normal positive number: the callers' arguments are checked ranks.
#[must_use]
pub fn ln(x: f64) -> f64 {
    assert!(x.is_normal() && x > 0.0, "ln of {x}");
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 atanh(z), |z| <= 0.172: thirteen odd terms are below 1e-20.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut tail = 0.0;
    for k in (1..=13).rev() {
        tail = square * (tail + 1.0 / f64::from(2 * k + 1));
    }
    let k = exponent as f64;
    k * LN2_HI + (k * LN2_LO + (2.0 * z + 2.0 * z * tail))
}

/// `e^x` for `|x| <= 700`.
///
/// # Panics
/// If `x` is outside that range.
#[must_use]
pub fn exp(x: f64) -> f64 {
    assert!(x.abs() <= 700.0, "exp of {x}");
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = (x - k * LN2_HI) - k * LN2_LO;
    let mut sum = 1.0;
    for i in (1..=18).rev() {
        sum = 1.0 + sum * r / f64::from(i);
    }
    let scale = f64::from_bits(((1023 + k as i64) as u64) << 52);
    sum * scale
}

/// `x^y` for a normal `x > 0`.
///
/// # Panics
/// If `x` is not positive or the result leaves `e^-700 .. e^700`.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

/// `x^n` by repeated squaring, in a fixed order of multiplications.
#[must_use]
pub fn powi(x: f64, mut n: u32) -> f64 {
    let mut base = x;
    let mut product = 1.0;
    while n > 0 {
        if n & 1 == 1 {
            product *= base;
        }
        base *= base;
        n >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 4e-15 * b.abs().max(1e-300)
    }

    #[test]
    fn agrees_with_libm() {
        for i in 1..20_000u32 {
            let x = f64::from(i) * 37.25;
            assert!(close(ln(x), x.ln()), "ln {x}");
            for theta in [0.5, 0.99, 1.2, 1.35] {
                assert!(close(pow(x, -theta), x.powf(-theta)), "{x}^-{theta}");
            }
        }
        for i in -700..=700 {
            let x = f64::from(i);
            assert!(close(exp(x), x.exp()), "exp {x}");
        }
    }

    #[test]
    fn exact_where_the_result_is_exact() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(powi(2.0, 100), 2f64.powi(100));
        assert_eq!(powi(3.0, 0), 1.0);
        assert_eq!(powi(1.5, 5), 7.59375);
    }

    #[test]
    fn split_of_ln2_is_exact() {
        assert_eq!(LN2_HI.to_bits() & 0x1f_ffff, 0);
        assert!((LN2_HI + LN2_LO - std::f64::consts::LN_2).abs() < 1e-16);
    }
}
