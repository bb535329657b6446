//! The operations of a journal: one table, of which the encoder, the decoder and the list in
//! `docs/journal.md` are made.

use super::arguments::{Argument, Arrival, Fed, Left};
use coldset_engine::reclaim::{Answer, Freed};
use coldset_engine::{FolioId, MemcgId, ObjectId};

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $name:ident($($arg:ident: $type:ty),*))*) => {
        /// One operation.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Op {
            $($(#[doc = $doc])+ $name($($type),*),)*
        }

        /// The byte that names an operation.
        #[repr(u8)]
        enum Code {
            $($name,)*
        }

        impl Op {
            /// All operations, in the order of their bytes.
            pub(crate) const TABLE: &'static [OpInfo] = &[$(OpInfo {
                name: stringify!($name),
                arguments: &[$((stringify!($arg), <$type as Argument>::NUMBERS)),*],
                what: concat!($($doc),+),
            },)*];

            /// Appends its byte, and its arguments as numbers of seven-bit groups.
            pub(crate) fn encode(self, to: &mut Vec<u8>) {
                match self {
                    $(Op::$name($($arg),*) => {
                        to.push(Code::$name as u8);
                        $($arg.put(&mut |v| put(to, v));)*
                    })*
                }
            }

            /// The operation of a byte and its numbers. None: they are no operation.
            pub(crate) fn decode(byte: u8, numbers: &[u64]) -> Option<Op> {
                let mut from = numbers.iter().copied();
                $(if byte == Code::$name as u8 {
                    return Some(Op::$name($(<$type as Argument>::take(&mut from)?),*));
                })*
                // No operation; all others have returned.
                from.next();
                None
            }
        }
    };
}

/// What is known of an operation.
#[derive(Debug)]
pub(crate) struct OpInfo {
    pub(crate) name: &'static str,
    /// Names of the arguments, and how many numbers each is.
    arguments: &'static [(&'static str, usize)],
    #[cfg_attr(not(test), allow(dead_code, reason = "the list in docs/journal.md"))]
    what: &'static str,
}

impl OpInfo {
    /// The one of a byte.
    pub(crate) fn of(byte: u8) -> Option<&'static OpInfo> {
        Op::TABLE.get(usize::from(byte))
    }

    /// Numbers that follow the byte.
    pub(crate) fn numbers(&self) -> usize {
        self.arguments.iter().map(|a| a.1).sum()
    }
}

/// Most numbers of an operation.
pub(crate) const NUMBERS_MAX: usize = 5;

operations! {
    /// Time has passed, in nanoseconds.
    Now(ns: u64)
    /// A group is made below `parent`.
    Group(parent: MemcgId)
    /// `memory.min` and `memory.low` of a group are set, those that are there.
    Protect(group: MemcgId, min: Option<u64>, low: Option<u64>)
    /// Pages of the budget that compressed contents and tables leave.
    Room(pages: u64)
    /// A write to `memory.max` (else `memory.high`) of a group begins.
    Limit(task: u64, group: MemcgId, max: bool, pages: u64)
    /// A step of that write; `fed` is what came of its last request.
    LimitStep(task: u64, fed: Option<Fed>)
    /// Batches of folios are drained.
    Drain()
    /// A charge is tried without reclaim.
    Charge(group: MemcgId, pages: u64)
    /// A charge that the group `over` has refused continues with reclaim.
    ChargeOn(task: u64, group: MemcgId, pages: u64, over: MemcgId)
    /// A step of that charge.
    ChargeStep(task: u64, fed: Option<Fed>)
    /// What a charge above `memory.high` has to do begins; `pages` of it were above.
    High(task: u64, group: MemcgId, pages: u64)
    /// A step of that.
    HighStep(task: u64, fed: Option<Fed>)
    /// Charged pages are given back.
    Uncharge(group: MemcgId, pages: u64)
    /// A region is made.
    Open(group: MemcgId, pages: u64, anon: bool)
    /// A region is gone.
    Close(region: ObjectId)
    /// A page is in memory. Bits of `how`: the miss was for this page, it will be stored to, it comes back
    /// unstored, it keeps its copy in the swap.
    Insert(region: ObjectId, page: u64, how: Arrival)
    /// The engine forgets a page.
    Forget(region: ObjectId, page: u64)
    /// A page that was given up is stored (0), was all zeroes (1), or has come back (2).
    Left(region: ObjectId, page: u64, what: Left, slot: Option<u32>, shadow: Option<u64>)
    /// Reclaim below a group begins, at its limit or because somebody `asked`.
    Reclaim(task: u64, group: MemcgId, pages: u64, asked: bool)
    /// A step of reclaim. `answer`: its kind and value; what came of the last request.
    Step(task: u64, answer: Option<Answer>)
    /// Expected: what the step asks for, as one number.
    Did(digest: u64)
    /// The pages that a reclaim task has given up are taken from it.
    Collect(task: u64)
    /// Expected: a page given up.
    Victim(region: ObjectId, page: u32, slot: Option<u32>, shadow: Option<u64>)
    /// A folio is mapped again, or not any more.
    Map(folio: FolioId, mapped: bool)
    /// A neighbour of the page that was tested is young.
    Neighbour(task: u64, folio: FolioId)
    /// The neighbours of a page in a block have been looked at.
    NeighboursDone(task: u64, block: u64, pages: u64, young: u64)
    /// A walk has met a young page.
    WalkYoung(task: u64, folio: FolioId)
    /// A walk has ended with a block.
    WalkBlock(task: u64, block: u64, pages: u64, young: u64)
    /// A folio is dirty.
    Dirty(folio: FolioId)
    /// A folio is on its way to its file.
    WritebackStart(folio: FolioId)
    /// It has been written, or that has failed.
    WritebackEnd(folio: FolioId, failed: bool)
    /// A folio gets a swap slot.
    AllocSlot(folio: FolioId)
    /// A swap slot is given back.
    FreeSlot(slot: u32)
    /// Recording was stopped, or the pool is gone.
    End()
}

impl Op {
    /// What the journal says of a page given up.
    pub(crate) fn victim(f: &Freed) -> Self {
        Op::Victim(f.object, f.index, f.swap, f.shadow.map(|s| s.0))
    }

    #[cfg(test)]
    fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }
}

/// A number in seven-bit groups, lowest first.
fn put(to: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        to.push(v as u8 | 0x80);
        v >>= 7;
    }
    to.push(v as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was decoded is encoded as the same bytes, for each operation and small numbers.
    #[test]
    fn each_operation_is_written_as_it_was_read() {
        for (byte, entry) in Op::TABLE.iter().enumerate() {
            assert!(entry.numbers() <= NUMBERS_MAX, "{}", entry.name);
            let byte = byte as u8;
            for v in [0, 1, 2] {
                let numbers = [v; NUMBERS_MAX];
                let op = Op::decode(byte, &numbers[..entry.numbers()]);
                let Some(op) = op else {
                    panic!("{} of {v}", entry.name);
                };
                // A truth value is 0 or 1, and an answer has a kind that bounds its value.
                let again = op.bytes();
                assert_eq!(again.len(), 1 + entry.numbers(), "{op:?}");
                if v < 2 {
                    let mut wanted = vec![byte];
                    wanted.resize(1 + entry.numbers(), v as u8);
                    assert_eq!(again, wanted, "{op:?}");
                }
            }
        }
        assert_eq!(Op::decode(Op::TABLE.len() as u8, &[0; 5]), None);
    }

    /// The bytes are those of every journal so far.
    #[test]
    fn the_format_is_what_it_was() {
        let of = |op: Op| op.bytes();
        let (group, region, folio) = (MemcgId(2), ObjectId(300), FolioId(5));
        assert_eq!(of(Op::Now(300)), [0, 0xAC, 2]);
        let protect = Op::Protect(group, None, Some(6));
        assert_eq!(of(protect), [2, 2, 0, 7]);
        let fed = Some(Fed::Reclaimed(4));
        assert_eq!(of(Op::ChargeStep(9, fed)), [9, 9, 7]);
        let fed = Some(Fed::Oom(true));
        assert_eq!(of(Op::HighStep(9, fed)), [11, 9, 2]);
        let how = Arrival {
            wanted: true,
            write: false,
            returned: false,
            keep: true,
        };
        let insert = Op::Insert(region, 3, how);
        assert_eq!(of(insert), [15, 0xAC, 2, 3, 9]);
        let left = Op::Left(region, 3, Left::Back, Some(0), None);
        assert_eq!(of(left), [17, 0xAC, 2, 3, 2, 1, 0]);
        let answer = Some(Answer::Walked);
        assert_eq!(of(Op::Step(1, answer)), [19, 1, 2, 0]);
        assert_eq!(of(Op::Map(folio, true)), [23, 5, 1]);
        assert_eq!(of(Op::End()), [33]);
    }

    /// The list of the manual is this table.
    #[test]
    fn the_manual_lists_all_operations() {
        let mut list = String::from("| byte | operation | arguments | what |\n|---|---|---|---|\n");
        for (byte, e) in Op::TABLE.iter().enumerate() {
            let two = |&(name, n): &(&str, usize)| match n {
                1 => format!("`{name}`"),
                n => format!("`{name}` ({n} numbers)"),
            };
            let arguments: Vec<String> = e.arguments.iter().map(two).collect();
            let (name, arguments) = (e.name, arguments.join(", "));
            list += &format!("| {byte} | {name} | {arguments} |{} |\n", e.what);
        }
        let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/journal.md");
        let manual = std::fs::read_to_string(manual).expect("the manual");
        assert!(
            manual.contains(&list),
            "docs/journal.md must have this list:\n{list}"
        );
    }
}
