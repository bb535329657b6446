//! The kinds of devices, and the figures that make them up.

use std::str::FromStr;

use crate::params::Params;

/// A device of the machine (`docs/rules/machine.md`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceKind {
    /// Consumer NVMe drive.
    Nvme,
    /// Low-latency NVMe drive.
    NvmeFast,
    /// SATA SSD.
    Sata,
    /// Disk with 7200 revolutions per minute.
    Hdd,
    /// Network block device.
    Net,
    /// Storage of a phone.
    Ufs,
    /// Swap files on an NVMe drive.
    NvmeSwap,
    /// Consumer NVMe drive behind a delay target.
    Delayed,
    /// RAM disk; synchronous.
    Ramdisk,
}

impl DeviceKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 9] = [
        Self::Nvme,
        Self::NvmeFast,
        Self::Sata,
        Self::Hdd,
        Self::Net,
        Self::Ufs,
        Self::NvmeSwap,
        Self::Delayed,
        Self::Ramdisk,
    ];

    /// The name used in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::NvmeFast => "nvme-fast",
            Self::Sata => "sata",
            Self::Hdd => "hdd",
            Self::Net => "net",
            Self::Ufs => "ufs",
            Self::NvmeSwap => "nvme-swap",
            Self::Delayed => "delayed",
            Self::Ramdisk => "ramdisk",
        }
    }

    /// The figures of the kind. They may be changed before a [`Device`](super::Device) is made.
    #[must_use]
    pub fn spec(self, p: &Params) -> DeviceSpec {
        let flash = DeviceSpec {
            read_lat_ns: p.nvme_read_lat_ns,
            write_lat_ns: p.nvme_write_lat_ns,
            seq_lat_ns: None,
            read_bytes_per_s: p.nvme_read_bytes_per_s,
            write_bytes_per_s: p.nvme_write_bytes_per_s,
            channels: p.nvme_channels,
            max_req_bytes: p.nvme_max_req_bytes,
            merge_window_ns: p.dev_merge_window_ns,
            burst_bytes: None,
            burst_after_percent: p.dev_write_burst_after_percent,
            jitter_ppm: p.dev_jitter_ppm,
            delay_read_ns: 0,
            delay_write_ns: 0,
            synchronous: false,
            full_duplex: p.dev_full_duplex_enabled == 1,
        };
        let nvme = DeviceSpec {
            burst_bytes: Some(p.dev_write_burst_bytes),
            ..flash
        };
        match self {
            Self::Nvme => nvme,
            Self::NvmeFast => DeviceSpec {
                read_lat_ns: p.nvme_fast_read_lat_ns,
                write_lat_ns: p.nvme_fast_write_lat_ns,
                read_bytes_per_s: p.nvme_fast_read_bytes_per_s,
                write_bytes_per_s: p.nvme_fast_write_bytes_per_s,
                channels: p.nvme_fast_channels,
                max_req_bytes: p.nvme_fast_max_req_bytes,
                burst_bytes: Some(p.dev_write_burst_bytes),
                ..flash
            },
            Self::Sata => DeviceSpec {
                read_lat_ns: p.sata_read_lat_ns,
                write_lat_ns: p.sata_write_lat_ns,
                read_bytes_per_s: p.sata_read_bytes_per_s,
                write_bytes_per_s: p.sata_write_bytes_per_s,
                channels: p.sata_channels,
                max_req_bytes: p.sata_max_req_bytes,
                full_duplex: false,
                burst_bytes: Some(p.dev_write_burst_bytes),
                ..flash
            },
            Self::Hdd => DeviceSpec {
                read_lat_ns: p.hdd_random_lat_ns,
                write_lat_ns: p.hdd_random_lat_ns,
                seq_lat_ns: Some(p.hdd_seq_lat_ns),
                read_bytes_per_s: p.hdd_bytes_per_s,
                write_bytes_per_s: p.hdd_bytes_per_s,
                channels: 1,
                max_req_bytes: p.hdd_max_req_bytes,
                full_duplex: false,
                ..flash
            },
            Self::Net => DeviceSpec {
                read_lat_ns: p.net_lat_ns,
                write_lat_ns: p.net_lat_ns,
                read_bytes_per_s: p.net_bytes_per_s,
                write_bytes_per_s: p.net_bytes_per_s,
                channels: p.net_channels,
                max_req_bytes: p.net_max_req_bytes,
                ..flash
            },
            Self::Ufs => DeviceSpec {
                read_lat_ns: p.ufs_lat_ns,
                write_lat_ns: p.ufs_lat_ns,
                read_bytes_per_s: p.ufs_bytes_per_s,
                write_bytes_per_s: p.ufs_bytes_per_s,
                channels: p.ufs_channels,
                max_req_bytes: p.ufs_max_req_bytes,
                ..flash
            },
            Self::NvmeSwap => DeviceSpec {
                read_lat_ns: p.nvme_swap_lat_ns,
                write_lat_ns: p.nvme_swap_lat_ns,
                read_bytes_per_s: p.nvme_swap_bytes_per_s,
                write_bytes_per_s: p.nvme_swap_bytes_per_s,
                channels: p.nvme_swap_channels,
                ..flash
            },
            Self::Delayed => DeviceSpec {
                delay_read_ns: p.delay_read_ns,
                delay_write_ns: p.delay_write_ns,
                max_req_bytes: p.delay_max_req_bytes,
                ..nvme
            },
            Self::Ramdisk => DeviceSpec {
                read_lat_ns: 0,
                write_lat_ns: 0,
                read_bytes_per_s: p.ramdisk_bytes_per_s,
                write_bytes_per_s: p.ramdisk_bytes_per_s,
                max_req_bytes: p.ramdisk_max_req_bytes,
                merge_window_ns: 0,
                jitter_ppm: 0,
                synchronous: true,
                ..flash
            },
        }
    }
}

/// No device has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no device is named `{0}`; the devices are nvme, nvme-fast, sata, hdd, net, ufs, nvme-swap, delayed, ramdisk")]
pub struct UnknownDevice(pub String);

impl FromStr for DeviceKind {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownDevice(name.to_owned()))
    }
}

/// The figures of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    /// Latency of a read, ns.
    pub read_lat_ns: u64,
    /// Latency of a write, ns.
    pub write_lat_ns: u64,
    /// Latency of a request that begins where the last one ended, ns, if the place matters.
    pub seq_lat_ns: Option<u64>,
    /// Bandwidth for reads of all channels together, bytes per second; 0 counts as 1.
    pub read_bytes_per_s: u64,
    /// Bandwidth for writes, likewise.
    pub write_bytes_per_s: u64,
    /// Requests whose latencies pass side by side; 0 counts as 1.
    pub channels: u64,
    /// Larger requests are split; 0 means no limit.
    pub max_req_bytes: u64,
    /// A request that continues the last one within this time is merged with it, ns.
    pub merge_window_ns: u64,
    /// Bytes that can be written at full speed.
    pub burst_bytes: Option<u64>,
    /// Write bandwidth after that, per cent; 0 counts as 1.
    pub burst_after_percent: u64,
    /// Jitter of the latency, peak to peak, parts per million of it; at most 1,000,000.
    pub jitter_ppm: u64,
    /// Added to each read after the device is done with it, without occupying a channel, ns.
    pub delay_read_ns: u64,
    /// Added to each write likewise, ns.
    pub delay_write_ns: u64,
    /// Requests take CPU time of the submitter instead of a channel.
    pub synchronous: bool,
    /// Reads and writes have a wire each instead of one together.
    pub full_duplex: bool,
}
