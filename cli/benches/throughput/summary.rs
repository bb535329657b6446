//! The median of a measurement, and its range.

/// Of several measurements of one thing.
#[derive(Clone, Copy)]
pub struct Summary {
    /// The middle one; of an even number, the upper of the two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

impl Summary {
    /// None of no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: *values.get(values.len() / 2)?,
            least: *values.first()?,
            most: *values.last()?,
        })
    }

    /// How far apart they are, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.most - self.least) / self.median
    }
}
