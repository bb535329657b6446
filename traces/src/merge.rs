//! Fewer references for the same use of pages: runs and windows merged.

use super::decode::References;
use super::error::TraceError;
use super::op::{Op, OpKind};

type Item = Result<Op, TraceError>;

/// Two references to one page as one, if they are by the same task and of the same kind,
/// or both to anonymous memory: then a store stays a store.
fn merge(first: Op, second: Op) -> Option<Op> {
    let place = |op: Op| (op.object, op.task, op.page);
    if place(first) != place(second) {
        None
    } else if first.kind == second.kind {
        Some(first)
    } else if first.kind.is_anon() && second.kind.is_anon() {
        Some(Op {
            kind: OpKind::AnonWrite,
            ..first
        })
    } else {
        None
    }
}

/// Merges consecutive references, however many.
pub(super) struct Runs<I> {
    ops: I,
    /// Last reference, held back while references to the same page follow.
    held: Option<Op>,
}

impl<I> Runs<I> {
    pub fn new(ops: I) -> Runs<I> {
        Runs { ops, held: None }
    }
}

impl<I: Iterator<Item = Item>> Iterator for Runs<I> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            let op = match self.ops.next() {
                Some(Ok(op)) => op,
                Some(Err(error)) => return Some(Err(error)),
                None => return self.held.take().map(Ok),
            };
            match self.held {
                None => self.held = Some(op),
                Some(held) => match merge(held, op) {
                    Some(merged) => self.held = Some(merged),
                    None => {
                        self.held = Some(op);
                        return Some(Ok(held));
                    }
                },
            }
        }
    }
}

/// Merges the references inside each window of a fixed number of references; what is left
/// stands in the order of first appearance in the window.
pub(super) struct Windows<I> {
    ops: I,
    references: u32,
    /// What is left of the present window, and how far it has been handed out.
    window: Vec<Op>,
    given: usize,
    /// Error that ended the window; the references before it come first.
    error: Option<TraceError>,
}

impl<I> Windows<I> {
    pub fn new(ops: I, references: u32) -> Windows<I> {
        Windows {
            ops,
            references,
            window: Vec::new(),
            given: 0,
            error: None,
        }
    }
}

impl<I: Iterator<Item = Item>> Iterator for Windows<I> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.given == self.window.len() && self.error.is_none() {
            self.window.clear();
            self.given = 0;
            for _ in 0..self.references {
                let op = match self.ops.next() {
                    Some(Ok(op)) => op,
                    Some(Err(error)) => {
                        self.error = Some(error);
                        break;
                    }
                    None => break,
                };
                let merged = self
                    .window
                    .iter_mut()
                    .find_map(|kept| merge(*kept, op).map(|op| (kept, op)));
                match merged {
                    Some((kept, op)) => *kept = op,
                    None => self.window.push(op),
                }
            }
        }
        match self.window.get(self.given) {
            Some(&op) => {
                self.given += 1;
                Some(Ok(op))
            }
            None => self.error.take().map(Err),
        }
    }
}

impl<I: Iterator<Item = Item>> References for Runs<I> {}
impl<I: Iterator<Item = Item>> References for Windows<I> {}

#[cfg(test)]
mod tests {
    use super::*;
    use OpKind::{AnonRead, AnonWrite, Pread, Pwrite};

    fn op(kind: OpKind, page: u32) -> Op {
        Op {
            kind,
            object: 0,
            task: 0,
            page,
        }
    }

    fn all(ops: impl Iterator<Item = Item>) -> Vec<Op> {
        ops.map(|op| op.expect("sound")).collect()
    }

    #[test]
    fn only_references_of_one_kind_of_memory_merge() {
        let (read, write) = (op(AnonRead, 1), op(AnonWrite, 1));
        assert_eq!(merge(read, read), Some(read));
        assert_eq!(merge(read, write), Some(write));
        assert_eq!(merge(write, read), Some(write));
        assert_eq!(merge(read, op(AnonRead, 2)), None);
        assert_eq!(merge(op(Pread, 1), op(Pwrite, 1)), None);
        assert_eq!(merge(read, Op { task: 1, ..read }), None);
    }

    #[test]
    fn windows_keep_the_first_of_each_page_and_every_store() {
        let ops = [
            (AnonRead, 1),
            (AnonRead, 2),
            (AnonWrite, 1),
            (AnonRead, 1),
            (AnonRead, 1),
            (AnonRead, 2),
        ];
        let ops = ops.map(|(kind, page)| Ok(op(kind, page)));
        let merged = all(Windows::new(ops.into_iter(), 4));
        assert_eq!(
            merged,
            [
                op(AnonWrite, 1),
                op(AnonRead, 2),
                op(AnonRead, 1),
                op(AnonRead, 2)
            ]
        );
    }

    #[test]
    fn an_error_comes_after_the_references_before_it() {
        let failing = || {
            let error = TraceError::Folder {
                name: "t".to_string(),
            };
            [
                Ok(op(Pread, 1)),
                Ok(op(Pread, 1)),
                Ok(op(Pread, 2)),
                Err(error),
            ]
            .into_iter()
        };
        let mut windows = Windows::new(failing(), 100);
        assert!(matches!(windows.next(), Some(Ok(Op { page: 1, .. }))));
        assert!(matches!(windows.next(), Some(Ok(Op { page: 2, .. }))));
        assert!(matches!(windows.next(), Some(Err(_))));
        assert!(windows.next().is_none());
    }
}
