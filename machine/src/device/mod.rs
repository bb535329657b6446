//! Block devices of the simulated machine (`docs/rules/machine.md`).
//!
//! A device is a FIFO server with parallel channels. Submitting a request is a pure function of
//! the device's state: it says when the request starts and ends and with what result, and the
//! caller makes the time pass. Requests must be submitted in the order of time.

mod fault;
mod kind;
mod server;
mod zram;

#[cfg(test)]
mod tests;

pub use fault::{FailRule, FailWhen, FaultPlan, SlowDown};
pub use kind::{DeviceKind, DeviceSpec, UnknownDevice};
pub use server::{Device, DeviceStats};
pub use zram::{UnknownAlgorithm, ZramAlgorithm, ZramTiming};

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
}

/// A request to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Request {
    /// A request that reads.
    #[must_use]
    pub const fn read(offset: u64, bytes: u64) -> Self {
        Self {
            op: Op::Read,
            offset,
            bytes,
        }
    }

    /// A request that writes.
    #[must_use]
    pub const fn write(offset: u64, bytes: u64) -> Self {
        Self {
            op: Op::Write,
            offset,
            bytes,
        }
    }

    const fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceError {
    /// EIO: the medium failed. The data is as it was before, or unreadable.
    #[error("input/output error")]
    Io,
    /// ENOSPC: the device has no room for a write.
    #[error("no space left on device")]
    NoSpace,
}

/// When a request is served, and with what result. Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the caller must let the time of the request pass"]
pub struct Completion {
    /// When a channel begins to serve it.
    pub start: u64,
    /// When it is complete.
    pub end: u64,
    /// CPU time of the submitter; not 0 only for synchronous devices, whose requests are complete
    /// once the submitter has spent it.
    pub cpu_ns: u64,
    /// It was merged with the request before it.
    pub merged: bool,
    /// Its result, known at `end`.
    pub result: Result<(), DeviceError>,
}
