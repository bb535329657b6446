//! Bytes or sectors of a file or device as pages.

use std::collections::VecDeque;

use crate::decode::Request;
use crate::numbering::page_key;
use crate::numbering::Id;
use crate::op::OpKind;
use crate::problem::Problem;

/// A run of units (bytes or sectors) of one file or device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Number of the file or device.
    pub space: u64,
    /// First block or byte, in units of the format.
    pub start: u64,
    /// Number of units, not 0.
    pub units: u64,
    /// Units in a page, as a power of two.
    pub shift: u32,
}

impl Extent {
    /// Reads of all pages that hold a part of it.
    ///
    /// # Errors
    /// An end beyond 64 bits, a page beyond what a file may have.
    pub fn read(self, task: u16, out: &mut VecDeque<Request>) -> Result<(), Problem> {
        let (first, last) = (self.start >> self.shift, self.last()? >> self.shift);
        self.push(OpKind::Pread, task, first, last, out)
    }

    /// Writes of all pages that hold a part of it: those that it covers need not be read first,
    /// those at its ends may have to.
    ///
    /// # Errors
    /// As [`Extent::read`].
    pub fn write(self, task: u16, out: &mut VecDeque<Request>) -> Result<(), Problem> {
        let end = self.last()?;
        let (mut first, mut last) = (self.start >> self.shift, end >> self.shift);
        let mask = (1u64 << self.shift) - 1;
        let head = self.start & mask != 0;
        let tail = end & mask != mask;
        if first == last {
            let kind = if head || tail {
                OpKind::Pwrite
            } else {
                OpKind::WholeWrite
            };
            return self.push(kind, task, first, last, out);
        }
        if head {
            self.push(OpKind::Pwrite, task, first, first, out)?;
            first += 1;
        }
        let cut = tail.then_some(last);
        last -= u64::from(tail);
        if first <= last {
            self.push(OpKind::WholeWrite, task, first, last, out)?;
        }
        match cut {
            Some(page) => self.push(OpKind::Pwrite, task, page, page, out),
            None => Ok(()),
        }
    }

    fn last(self) -> Result<u64, Problem> {
        let last = self.start.checked_add(self.units.saturating_sub(1));
        last.ok_or_else(|| Problem {
            found: format!("{} units from {}", self.units, self.start),
            expected: "an end within 64 bits",
            remedy: crate::problem::CHECK_FORMAT,
        })
    }

    fn push(
        self,
        kind: OpKind,
        task: u16,
        first: u64,
        last: u64,
        out: &mut VecDeque<Request>,
    ) -> Result<(), Problem> {
        let (first, last) = (page_key(self.space, first)?, page_key(self.space, last)?);
        out.push_back(Request {
            task,
            id: Id::Foreign,
            ..Request::span(kind, first, last)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OpKind::{Pread, Pwrite, WholeWrite};

    fn of(start: u64, units: u64, shift: u32, write: bool) -> Vec<(OpKind, u64)> {
        let extent = Extent {
            space: 0,
            start,
            units,
            shift,
        };
        let mut out = VecDeque::new();
        let done = if write {
            extent.write(0, &mut out)
        } else {
            extent.read(0, &mut out)
        };
        done.expect("in range");
        let pages = |r: Request| r.pages.map(move |page| (r.kind, page));
        out.into_iter().flat_map(pages).collect()
    }

    #[test]
    fn pages_at_the_borders() {
        assert_eq!(of(4095, 1, 12, false), [(Pread, 0)]);
        assert_eq!(of(4095, 2, 12, false), [(Pread, 0), (Pread, 1)]);
        assert_eq!(of(4096, 4096, 12, false), [(Pread, 1)]);
        assert_eq!(of(7, 2, 3, false), [(Pread, 0), (Pread, 1)]);
        assert_eq!(of(8, 8, 3, false), [(Pread, 1)]);
    }

    #[test]
    fn only_pages_written_as_a_whole_are_whole_writes() {
        assert_eq!(of(0, 4096, 12, true), [(WholeWrite, 0)]);
        assert_eq!(of(0, 4095, 12, true), [(Pwrite, 0)]);
        assert_eq!(of(1, 4095, 12, true), [(Pwrite, 0)]);
        assert_eq!(of(4095, 2, 12, true), [(Pwrite, 0), (Pwrite, 1)]);
        assert_eq!(
            of(2048, 8192, 12, true),
            [(Pwrite, 0), (WholeWrite, 1), (Pwrite, 2)]
        );
        assert_eq!(of(0, 8192, 12, true), [(WholeWrite, 0), (WholeWrite, 1)]);
        assert_eq!(of(0, 9, 3, true), [(WholeWrite, 0), (Pwrite, 1)]);
        assert_eq!(of(7, 9, 3, true), [(Pwrite, 0), (WholeWrite, 1)]);
    }

    #[test]
    fn an_end_beyond_64_bits_is_refused() {
        let extent = Extent {
            space: 0,
            start: u64::MAX,
            units: 2,
            shift: 12,
        };
        let problem = extent.read(0, &mut VecDeque::new()).expect_err("too large");
        assert!(problem.to_string().contains("64 bits"), "{problem}");
    }

    proptest::proptest! {
        /// Reads and writes touch the same pages, each once, in order, and exactly those that hold
        /// a unit of the extent.
        #[test]
        fn each_page_once(start in 0u64..100_000, units in 1u64..50_000, shift in 0u32..13) {
            let pages: Vec<u64> = (start >> shift..=(start + units - 1) >> shift).collect();
            for write in [false, true] {
                let touched: Vec<u64> = of(start, units, shift, write).into_iter().map(|(_, p)| p).collect();
                proptest::prop_assert_eq!(&touched, &pages);
            }
        }
    }
}
