//! Records of a worker's input that are no accesses.

use coldset_traces::Op;
use std::time::Duration;

/// A record that is no access. Kinds of accesses are below 128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Answer when everything before is done: with the number of accesses since the start.
    Sync,
    /// Likewise, and with their latencies.
    Report,
    /// Wait, as the program that was recorded did. There is no answer. At most 2^56 ns, more than two years.
    Pause(Duration),
}

/// The first kind that is no access.
const FIRST: u8 = 128;

impl Control {
    /// Its record: the kind, and nanoseconds in the other seven bytes.
    pub fn to_bytes(self) -> [u8; Op::BYTES] {
        let (kind, ns) = match self {
            Self::Sync => (FIRST, 0),
            Self::Report => (FIRST + 1, 0),
            Self::Pause(time) => (FIRST + 2, time.as_nanos().min((1 << 56) - 1) as u64),
        };
        (ns << 8 | u64::from(kind)).to_le_bytes()
    }

    /// Back from a record; none: it is no control record, or none of these.
    pub fn from_bytes(bytes: [u8; Op::BYTES]) -> Option<Self> {
        let ns = u64::from_le_bytes(bytes) >> 8;
        match bytes[0].checked_sub(FIRST)? {
            0 => Some(Self::Sync),
            1 => Some(Self::Report),
            2 => Some(Self::Pause(Duration::from_nanos(ns))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_from_accesses() {
        let long = Duration::from_nanos((1 << 56) - 1);
        for control in [Control::Sync, Control::Report, Control::Pause(long)] {
            let bytes = control.to_bytes();
            assert_eq!(Control::from_bytes(bytes), Some(control));
            assert_eq!(Op::from_bytes(bytes), None);
        }
        let longer = Control::Pause(Duration::from_secs(1 << 40));
        assert_eq!(longer.to_bytes(), Control::Pause(long).to_bytes());
        assert_eq!(Control::from_bytes([0; 8]), None);
        assert_eq!(Control::from_bytes([255; 8]), None);
    }
}
