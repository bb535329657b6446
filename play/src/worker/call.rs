//! Accesses that are one call.

use coldset_traces::{Op, OpKind};

/// What a step has announced, and what of it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Call {
    /// Pages of the call to come.
    announced: u32,
    /// The next access that has been done with the first of its call, and how many there are.
    covered: Option<(Op, u32)>,
}

impl Call {
    /// The accesses that follow, to so many pages, are one call.
    pub fn announce(&mut self, pages: u32) {
        self.announced = pages;
    }

    /// The access has been done already.
    pub fn covers(&mut self, op: Op) -> bool {
        let Some((next, left)) = self.covered.take() else {
            return false;
        };
        if next != op {
            return false;
        }
        if left > 1 {
            self.covered = Some((after(op, 1), left - 1));
        }
        true
    }

    /// The call that begins with this access: its pages, `most` at most.
    pub fn begin(&mut self, op: Op, most: u32) -> u32 {
        let announced = std::mem::take(&mut self.announced);
        let pages = match op.kind {
            OpKind::Pread | OpKind::WholeWrite => announced.clamp(1, most.max(1)),
            _ => 1,
        };
        if pages > 1 {
            self.covered = Some((after(op, 1), pages - 1));
        }
        pages
    }
}

fn after(op: Op, pages: u32) -> Op {
    Op {
        page: op.page.saturating_add(pages),
        ..op
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: OpKind, page: u32) -> Op {
        Op {
            kind,
            object: 1,
            task: 2,
            page,
        }
    }

    #[test]
    fn a_call_covers_what_was_announced_and_no_more() {
        let read = |page| op(OpKind::Pread, page);
        let mut call = Call::default();
        assert_eq!(call.begin(read(1), 8), 1);
        assert!(!call.covers(read(2)));
        call.announce(3);
        assert_eq!(call.begin(read(5), 8), 3);
        assert!(call.covers(read(6)) && call.covers(read(7)) && !call.covers(read(8)));
        call.announce(100);
        assert_eq!(call.begin(read(5), 8), 8, "what the buffer holds");
        assert!(!call.covers(read(9)), "not the next page");
        assert!(!call.covers(read(6)), "and nothing after that");
        call.announce(4);
        assert_eq!(call.begin(op(OpKind::MappedRead, 5), 8), 1);
        assert_eq!(call.begin(read(5), 8), 1, "announced for the access before");
    }
}
