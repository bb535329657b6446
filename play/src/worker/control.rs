//! Records of a worker's input that are not the trace's.

use coldset_traces::Op;

/// A record that is not the trace's. The kinds of those are below 128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Answer when everything before is done: with the number of accesses since the start.
    Sync = 128,
    /// Likewise, and with their latencies.
    Report = 129,
}

impl Control {
    /// Its record.
    pub fn to_bytes(self) -> [u8; Op::BYTES] {
        [self as u8, 0, 0, 0, 0, 0, 0, 0]
    }

    /// Back from a record; none: it is not one of these.
    pub fn from_bytes(bytes: [u8; Op::BYTES]) -> Option<Self> {
        [Self::Sync, Self::Report]
            .into_iter()
            .find(|control| *control as u8 == bytes[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldset_traces::Record;

    #[test]
    fn they_are_told_from_what_a_trace_has() {
        for control in [Control::Sync, Control::Report] {
            let bytes = control.to_bytes();
            assert_eq!(Control::from_bytes(bytes), Some(control));
            assert_eq!(Record::from_bytes(bytes), None);
        }
        assert_eq!(Control::from_bytes([0; 8]), None);
        assert_eq!(Control::from_bytes([255; 8]), None);
    }
}
