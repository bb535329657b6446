//! Row choice of the SQL benchmark (`docs/reference/experiments.md#mysql`).

use super::{check_outcomes, DrawError, Stream};

/// Uniform draws whose mean is one draw of the bell.
const ITERATIONS: u64 = 12;

/// How rows are drawn. Rows are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A quarter in a bell over the whole table, the rest in a band of 1 % in its middle.
    Special,
    /// Every row alike.
    Uniform,
}

/// Draws rows of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowChoice {
    rows: u64,
    shape: Shape,
}

impl RowChoice {
    /// The tool's "special" choice, its default in versions 1.0.x: 12 iterations, 1 %, 75 %.
    ///
    /// # Errors
    /// `rows` of 0 or above 2^32 - 1.
    pub fn special(rows: u64) -> Result<Self, DrawError> {
        check_outcomes("row choice", rows)?;
        let shape = Shape::Special;
        Ok(Self { rows, shape })
    }

    /// Every row with the same probability.
    ///
    /// # Errors
    /// `rows` of 0 or above 2^32 - 1.
    pub fn uniform(rows: u64) -> Result<Self, DrawError> {
        check_outcomes("row choice", rows)?;
        let shape = Shape::Uniform;
        Ok(Self { rows, shape })
    }

    /// Rows of the table.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Draws a row, `1..=rows`.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        match self.shape {
            Shape::Uniform => 1 + stream.below(self.rows),
            Shape::Special => self.special_at(stream.bits(), stream),
        }
    }

    /// The row for the first draw `u / 2^64`; the bell draws on.
    ///
    /// With t = rows - 1: a quarter of the draws is `1 + t * mean of 12`, the others are
    /// `1 + floor(u * (0.01 t + 1) + 0.495 t)`.
    fn special_at(&self, u: u64, stream: &mut Stream) -> u64 {
        let t = u128::from(self.rows - 1);
        let row = if u < 1 << 62 {
            let sum: u128 = (0..ITERATIONS).map(|_| u128::from(stream.bits())).sum();
            1 + t * sum / (u128::from(ITERATIONS) << 64)
        } else {
            // In thousandths, so that both products are exact.
            1 + ((u128::from(u) * (10 * t + 1000) + ((495 * t) << 64)) / (1000u128 << 64))
        };
        // The band of a tiny table ends behind its last row.
        (row as u64).min(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u64 = 2_000_000;

    #[test]
    fn three_quarters_fall_into_one_per_cent() {
        let choice = RowChoice::special(ROWS).unwrap();
        let mut stream = Stream::new(1, "rows", 0);
        let (mut band, mut bell) = (Vec::new(), Vec::new());
        for _ in 0..200_000 {
            let row = choice.draw(&mut stream);
            assert!((1..=ROWS).contains(&row));
            // The band proper: u in 0.25..1 of (0.495 t .. 0.505 t).
            let inside = (995_000..=1_010_001).contains(&row);
            if inside {
                band.push(row)
            } else {
                bell.push(row)
            }
        }
        // A few of the bell fall into the band.
        let share = band.len() as f64 / 200_000.0;
        assert!((0.75..0.765).contains(&share), "{share}");
        let (low, high) = (band.iter().min().unwrap(), band.iter().max().unwrap());
        assert!((995_000..996_000).contains(low) && (1_009_000..=1_010_001).contains(high));
        // The bell: mean in the middle, sigma a twelfth of the table.
        let n = bell.len() as f64;
        let mean = bell.iter().sum::<u64>() as f64 / n;
        let variance = bell.iter().map(|&r| (r as f64 - mean).powi(2)).sum::<f64>() / n;
        assert!((mean / ROWS as f64 - 0.5).abs() < 0.003, "{mean}");
        let sigma = variance.sqrt() / ROWS as f64;
        assert!((sigma - 1.0 / 12.0).abs() < 0.003, "{sigma}");
    }

    #[test]
    fn ends_of_the_formula() {
        let mut stream = Stream::new(1, "rows", 0);
        let at =
            |rows, u, stream: &mut Stream| RowChoice::special(rows).unwrap().special_at(u, stream);
        // u = 1/4: 1 + floor(0.25 * (0.01 t + 1) + 0.495 t), t = 1,999,999.
        assert_eq!(at(ROWS, 1 << 62, &mut stream), 1 + 994_999);
        // u next to 1: 1 + floor(0.505 t + 1).
        assert_eq!(at(ROWS, u64::MAX, &mut stream), 1 + 1_010_000);
        assert_eq!(at(1, u64::MAX, &mut stream), 1);
        assert_eq!(at(1, 0, &mut stream), 1);
    }

    #[test]
    fn uniform_covers_all_rows_alike() {
        let choice = RowChoice::uniform(10).unwrap();
        let mut stream = Stream::new(2, "rows", 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[choice.draw(&mut stream) as usize - 1] += 1;
        }
        assert!(
            counts.iter().all(|c| (9_500..10_500).contains(c)),
            "{counts:?}"
        );
        assert_eq!(choice.rows(), 10);
        assert!(RowChoice::uniform(0).is_err() && RowChoice::special(1 << 32).is_err());
    }
}
