//! Which block next.

use super::tasks::{Blocks, Choice, WHOLE};
use crate::draw::{DrawError, FioZipf, Stream};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What one step of one task goes by.
pub(super) enum Chooser {
    Uniform(u64),
    Zipf(Rc<FioZipf>),
    Hot {
        blocks: u64,
        all: u64,
        hits: u64,
    },
    /// From the first one on, up to an end.
    Once(std::ops::Range<u32>),
    /// Round and round.
    Round {
        next: u32,
        count: u32,
    },
}

/// A distribution that is a long table: its outcomes, and its skew.
type Skew = (u32, u64);

/// The long tables of a group, and where those of one task begin.
#[derive(Clone, Default)]
pub(super) struct Tables {
    shared: BTreeMap<Skew, Rc<FioZipf>>,
    /// Of one task, by region.
    own: BTreeMap<String, (u64, BTreeMap<Skew, Rc<FioZipf>>)>,
}

impl Tables {
    fn shared(&mut self, count: u32, theta: f64) -> Result<Rc<FioZipf>, DrawError> {
        let skew = (count, theta.to_bits());
        if let Some(known) = self.shared.get(&skew) {
            return Ok(Rc::clone(known));
        }
        let new = Rc::new(FioZipf::new(count.into(), theta, 0)?);
        self.shared.insert(skew, Rc::clone(&new));
        Ok(new)
    }

    /// Builds what `blocks` needs, for all tasks.
    ///
    /// # Errors
    /// A distribution that cannot be built.
    pub fn prepare(&mut self, blocks: &Blocks) -> Result<(), DrawError> {
        match blocks.choice {
            Choice::Zipf { theta, .. } => self.shared(blocks.count, theta).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// A task has the same hot blocks in all of its steps: they are drawn once a region.
    fn own(
        &mut self,
        blocks: &Blocks,
        theta: f64,
        draw: &mut Stream,
    ) -> Result<Rc<FioZipf>, DrawError> {
        let shared = self.shared(blocks.count, theta)?;
        let new = || (draw.below(blocks.count.into()), BTreeMap::new());
        let (offset, made) = self.own.entry(blocks.region.clone()).or_insert_with(new);
        let skew = (blocks.count, theta.to_bits());
        let table = made.entry(skew);
        Ok(Rc::clone(
            table.or_insert_with(|| Rc::new(shared.with_offset(*offset))),
        ))
    }
}

impl Chooser {
    /// That of task `index` of a group of `tasks`.
    ///
    /// # Errors
    /// A distribution that cannot be built.
    pub fn new(
        blocks: &Blocks,
        tables: &mut Tables,
        index: u64,
        tasks: u64,
        draw: &mut Stream,
    ) -> Result<Self, DrawError> {
        let count = blocks.count;
        Ok(match blocks.choice {
            Choice::Zipf { theta, own: true } => Self::Zipf(tables.own(blocks, theta, draw)?),
            Choice::Zipf { theta, own: false } => Self::Zipf(tables.shared(count, theta)?),
            choice => Self::plain(choice, count, index, tasks),
        })
    }

    fn plain(choice: Choice, count: u32, index: u64, tasks: u64) -> Self {
        match choice {
            Choice::Uniform | Choice::Zipf { .. } => Self::Uniform(count.into()),
            Choice::Sequential => Self::Once(0..count),
            Choice::Share => {
                let at = |task: u64| (u64::from(count) * task / tasks) as u32;
                Self::Once(at(index)..at(index + 1))
            }
            Choice::Cyclic => Self::Round { next: 0, count },
            Choice::Hot { blocks, hits } => Self::Hot {
                blocks: blocks.into(),
                all: count.into(),
                hits,
            },
        }
    }

    /// The next block; none after the last one.
    pub fn next(&mut self, draw: &mut Stream) -> Option<u32> {
        Some(match self {
            Self::Uniform(count) => draw.below(*count) as u32,
            Self::Zipf(zipf) => zipf.draw(draw) as u32,
            Self::Hot { blocks, all, hits } => match draw.chance(*hits, WHOLE) {
                true => draw.below(*blocks) as u32,
                false => (*blocks + draw.below(*all - *blocks)) as u32,
            },
            Self::Once(left) => left.next()?,
            Self::Round { next, count } => {
                let block = *next;
                *next = (block + 1) % *count;
                block
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(choice: Choice, count: u32) -> Blocks {
        Blocks {
            region: String::new(),
            first: 0,
            size: 1,
            count,
            choice,
        }
    }

    fn drawn(choice: Choice, index: u64, n: usize) -> Vec<u32> {
        let mut draw = Stream::new(1, "test", index);
        let blocks = blocks(choice, 10);
        let mut tables = Tables::default();
        let mut chooser = Chooser::new(&blocks, &mut tables, index, 3, &mut draw).unwrap();
        (0..n).map_while(|_| chooser.next(&mut draw)).collect()
    }

    #[test]
    fn orders() {
        let all: Vec<u32> = (0..10).collect();
        assert_eq!(drawn(Choice::Sequential, 0, 99), all);
        let parts: Vec<Vec<u32>> = (0..3).map(|i| drawn(Choice::Share, i, 99)).collect();
        assert_eq!(parts.concat(), all);
        assert!(parts.iter().all(|p| p.len() >= 3), "{parts:?}");
        assert_eq!(drawn(Choice::Cyclic, 0, 12), [all, vec![0, 1]].concat());
    }

    #[test]
    fn shares_of_the_hot_set_and_of_the_rest() {
        let choice = Choice::Hot {
            blocks: 2,
            hits: 750_000,
        };
        let seen = drawn(choice, 0, 40_000);
        let share = |n: &dyn Fn(u32) -> bool| seen.iter().filter(|b| n(**b)).count() as f64 / 4e4;
        assert!((share(&|b| b < 2) - 0.75).abs() < 0.01);
        assert!((share(&|b| b == 9) - 0.25 / 8.0).abs() < 0.005);
        let seen = drawn(Choice::Uniform, 0, 40_000);
        let share = seen.iter().filter(|b| **b == 3).count() as f64 / 4e4;
        assert!((share - 0.1).abs() < 0.01);
    }
}
