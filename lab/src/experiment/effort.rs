//! What an effort of 1 is.

/// How much of the published run the effort 1 does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// A part of what was published: the duration or amount, and by how much the run is shorter.
    Part(&'static str, u64),
    /// The whole of it; the effort changes nothing.
    Fixed(&'static str),
    /// So much; nothing was published.
    Own(&'static str),
}

impl Effort {
    /// What an effort in thousandths comes to.
    #[must_use]
    pub fn share(self, permille: u64) -> String {
        match self {
            Self::Fixed(published) => {
                format!("all of the published {published}, whatever the effort")
            }
            Self::Own(what) => format!("no amount is published; 1 is {what}"),
            Self::Part(published, divisor) => {
                let (whole, permille) = (divisor * 1000, permille.max(1));
                let part = match whole / permille {
                    1 if whole == permille => "all".into(),
                    n if whole.is_multiple_of(permille) => format!("1/{n}"),
                    _ => format!("{:.2}", permille as f64 / whole as f64),
                };
                format!("{part} of the published {published}")
            }
        }
    }
}

/// What a run is for `verify --quick`: shorter, and where that does not help a part of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quick {
    /// Its effort, in thousandths.
    pub effort_permille: u64,
    /// Parameters that are different, and their values.
    pub params: &'static [(&'static str, &'static str)],
}

impl Quick {
    /// As without it: the experiment is short, or a shorter run has other verdicts.
    pub const WHOLE: Self = Self::share(1000);

    /// A run of so many thousandths of the effort.
    #[must_use]
    pub const fn share(effort_permille: u64) -> Self {
        Self {
            effort_permille,
            params: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_published_amount() {
        let an_eighth = Effort::Part("600 s", 8);
        assert_eq!(an_eighth.share(1000), "1/8 of the published 600 s");
        assert_eq!(an_eighth.share(8000), "all of the published 600 s");
        assert_eq!(an_eighth.share(250), "1/32 of the published 600 s");
        assert_eq!(an_eighth.share(3000), "0.38 of the published 600 s");
    }
}
