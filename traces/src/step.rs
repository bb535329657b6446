//! What a task does besides accesses, in version 2 of `pageops`.

use super::op::{Op, OpKind};

/// What a step does. The numbers are those of the `pageops` format.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepKind {
    /// `fsync` of a file.
    Fsync = 32,
    /// Advice on a file, by its descriptor: the value is one of [`Advice`].
    Advise = 33,
    /// A file ends with the page of this value: what is beyond it is gone.
    Truncate = 34,
    /// A file is removed. Later accesses are to a new file.
    Unlink = 35,
    /// An object is no longer mapped; anonymous memory is gone with it.
    Unmap = 36,
    /// The task ends, and with the last of its process all of its mappings.
    Exit = 37,
    /// The task does something else for so many nanoseconds. Longer times take several steps.
    Think = 38,
    /// A part of the work with this number begins: counters are read.
    Phase = 39,
    /// The task belongs to the process with this number. Without it each task is a process.
    Process = 40,
    /// This many accesses that follow, to pages one after the other, are one call.
    Call = 41,
    /// The first record of a file with steps: the version of the format.
    Version = 42,
}

/// Advice by number.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Read-ahead as usual.
    Normal = 0,
    /// No read-ahead.
    Random = 1,
    /// Twice the read-ahead.
    Sequential = 2,
}

impl Advice {
    /// The advice with this number, if there is one.
    pub fn from_u32(number: u32) -> Option<Self> {
        [Self::Normal, Self::Random, Self::Sequential]
            .get(number as usize)
            .copied()
    }
}

/// One step of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// What is done.
    pub kind: StepKind,
    /// File or anonymous region; 0 where none is concerned.
    pub object: u8,
    /// Task that does it.
    pub task: u16,
    /// By kind.
    pub value: u32,
}

/// A step and its place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// It comes before the access with this number, and after those before that.
    pub at: u64,
    /// What happens.
    pub step: Step,
}

impl StepKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::Fsync,
        Self::Advise,
        Self::Truncate,
        Self::Unlink,
        Self::Unmap,
        Self::Exit,
        Self::Think,
        Self::Phase,
        Self::Process,
        Self::Call,
        Self::Version,
    ];

    /// Whether its object is a file and nothing else.
    pub fn is_of_file(self) -> bool {
        matches!(
            self,
            Self::Fsync | Self::Advise | Self::Truncate | Self::Unlink
        )
    }

    /// The kind with this number, if there is one.
    pub fn from_u8(number: u8) -> Option<Self> {
        let index = number.checked_sub(Self::Fsync as u8)?;
        Self::ALL.get(usize::from(index)).copied()
    }
}

impl Step {
    /// The version of `pageops` that has steps.
    pub const VERSION: u32 = 2;

    /// The record that a file with steps begins with.
    pub fn version() -> Self {
        Self {
            kind: StepKind::Version,
            object: 0,
            task: 0,
            value: Self::VERSION,
        }
    }

    /// Its `pageops` record (little-endian).
    pub fn to_bytes(self) -> [u8; Op::BYTES] {
        let [t0, t1] = self.task.to_le_bytes();
        let [v0, v1, v2, v3] = self.value.to_le_bytes();
        [self.kind as u8, self.object, t0, t1, v0, v1, v2, v3]
    }

    /// Reads a `pageops` record; none if its kind is not a step's, or its value none of that kind.
    pub fn from_bytes(bytes: [u8; Op::BYTES]) -> Option<Self> {
        let [kind, object, t0, t1, v0, v1, v2, v3] = bytes;
        let step = Self {
            kind: StepKind::from_u8(kind)?,
            object,
            task: u16::from_le_bytes([t0, t1]),
            value: u32::from_le_bytes([v0, v1, v2, v3]),
        };
        let known = step.kind != StepKind::Advise || Advice::from_u32(step.value).is_some();
        known.then_some(step)
    }
}

/// What a trace has, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A reference to a page.
    Access(Op),
    /// Something else.
    Step(Step),
}

impl Record {
    /// Who does it.
    pub fn task(self) -> u16 {
        match self {
            Self::Access(op) => op.task,
            Self::Step(step) => step.task,
        }
    }

    /// It is a step of this kind.
    pub fn is_step(self, kind: StepKind) -> bool {
        matches!(self, Self::Step(step) if step.kind == kind)
    }

    /// In `pageops` (little-endian).
    pub fn to_bytes(self) -> [u8; Op::BYTES] {
        match self {
            Self::Access(op) => op.to_bytes(),
            Self::Step(step) => step.to_bytes(),
        }
    }

    /// Reads a `pageops` record; none: it is neither.
    pub fn from_bytes(bytes: [u8; Op::BYTES]) -> Option<Self> {
        match OpKind::from_u8(bytes[0]) {
            Some(_) => Op::from_bytes(bytes).map(Self::Access),
            None => Step::from_bytes(bytes).map(Self::Step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_go_there_and_back() {
        for (number, kind) in (32..).zip(StepKind::ALL) {
            assert_eq!(kind as u8, number);
            let step = Step {
                kind,
                object: 3,
                task: 0x0405,
                value: 2,
            };
            assert_eq!(step.to_bytes()[..4], [number, 3, 5, 4]);
            assert_eq!(Step::from_bytes(step.to_bytes()), Some(step));
        }
        assert_eq!(StepKind::from_u8(31), None);
        assert_eq!(StepKind::from_u8(43), None);
        assert_eq!(Step::from_bytes([33, 0, 0, 0, 3, 0, 0, 0]), None);
    }
}
