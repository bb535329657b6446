//! Sizes and times of the load at a scale.

use crate::experiment::{ExperimentError, RunInput, MIB};
use coldset_machine::device::DeviceKind;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// The typed array of a script: 5 x 131,072 numbers of 8 bytes, pages.
const ARRAY_PAGES: u64 = 5 * 131_072 * 8 / PAGE;
/// Text of the browser, private files and anonymous memory of an instance, MiB.
const BROWSER_MIB: (u64, u64, u64) = (180, 40, 200);
/// Share of those that a request touches, per cent.
const TOUCHED_PERCENT: u64 = 30;
/// Servers start that much before browsers, ns.
const HEAD_START_NS: u64 = 60_000_000_000;
/// A request that takes longer has failed, ns.
const TIMEOUT_NS: u64 = 600_000_000_000;
/// Pause after a failure, ns.
const ERROR_PAUSE_NS: u64 = 1_000_000_000;

/// Where swapped pages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Nowhere.
    None,
    /// Compressed memory, lz4.
    Zram,
    /// Files on a device.
    Disk(DeviceKind),
}

/// What the server writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Zeros, as the published script does without meaning to.
    Zero,
    /// Something that does not compress.
    Random,
}

/// The load at its scale. Times in virtual nanoseconds.
#[derive(Clone, Debug)]
pub struct Shape {
    /// NUMA nodes.
    pub nodes: u32,
    /// Memcgs; each has a worker on every node.
    pub memcgs: u32,
    /// Of the machine, over all nodes.
    pub cpus: u16,
    /// RAM of the machine, pages.
    pub ram_pages: u64,
    /// What is behind anonymous memory.
    pub swap: Backing,
    /// Slots of swap.
    pub swap_pages: u32,
    /// Buffers of a server.
    pub chunks: u32,
    /// Pages of a buffer.
    pub chunk_pages: u32,
    /// What is written there.
    pub fill: Fill,
    /// Time to write through a page.
    pub touch_ns: u64,
    /// Browser text, shared by all.
    pub text_pages: u32,
    /// Files of one browser.
    pub file_pages: u32,
    /// Anonymous memory of one browser.
    pub heap_pages: u32,
    /// Array of a script; four of them are alive.
    pub array_pages: u32,
    /// CPU time of a request without faults.
    pub browser_ns: u64,
    /// Browsers start.
    pub start_ns: u64,
    /// Measured time.
    pub duration_ns: u64,
    /// A request that takes longer has failed.
    pub timeout_ns: u64,
    /// Pause after a failure.
    pub error_pause_ns: u64,
}

impl Shape {
    /// Reads the parameters both experiments have. `effort_divisor`: the measured time is that much
    /// shorter than the published one at effort 1.
    ///
    /// # Errors
    /// A value that cannot be used, or a scale that leaves nothing of a buffer.
    pub fn read(input: &RunInput, effort_divisor: u64) -> Result<Self, ExperimentError> {
        let n = |name| input.number(name);
        let pages = |mib: u64| mib * MIB / input.scale;
        let chunk = pages(n("chunk_mib")?);
        if chunk < 64 {
            return Err(input.too_little("pages a buffer", chunk, 2048));
        }
        let backings = [
            ("none", Backing::None),
            ("zram", Backing::Zram),
            ("disk", Backing::Disk(input.device("swap_device")?)),
        ];
        if input.text("swap") == "none" {
            input.refuse(&["swap_mib"], "there is no swap (swap=none)")?;
        }
        if input.text("swap") != "disk" {
            input.refuse(&["swap_device"], "swap is on no device (needs swap=disk)")?;
        }
        let fills = [("zero", Fill::Zero), ("random", Fill::Random)];
        let within = |name, lo: u64, hi: u64, expected| match n(name)? {
            v if (lo..=hi).contains(&v) => Ok(v),
            _ => Err(input.wrong(name, expected)),
        };
        let stride = within("stride", 1, PAGE, "1 to 4096 bytes")?;
        let per_time = |ns: u64| (ns / input.scale).max(1);
        let duration = n("duration_s")? * 1_000_000_000 / input.scale / effort_divisor;
        let small = |mib: u64| pages(mib).max(1) as u32;
        Ok(Self {
            nodes: within("nodes", 1, 64, "1 to 64")? as u32,
            memcgs: within("memcgs", 1, 4096, "1 to 4096")? as u32,
            cpus: within("cpus", 1, 256, "1 to 256")? as u16,
            ram_pages: pages(n("ram_mib")?).max(1024),
            swap: input.word("swap", &backings, "none, zram or disk")?,
            swap_pages: small(n("swap_mib")?),
            chunks: within("chunks", 1, 1024, "1 to 1024")? as u32,
            chunk_pages: chunk as u32,
            fill: input.word("fill", &fills, "zero or random")?,
            // The cost is that of eight stores.
            touch_ns: (input.cost("script_touch_page_ns") * (PAGE / stride) / 8).max(1),
            text_pages: small(BROWSER_MIB.0),
            file_pages: small(BROWSER_MIB.1),
            heap_pages: small(BROWSER_MIB.2),
            array_pages: (ARRAY_PAGES / input.scale).max(1) as u32,
            browser_ns: per_time(input.cost("browser_request_ns")),
            start_ns: per_time(HEAD_START_NS),
            duration_ns: (duration * input.effort_permille / 1000).max(1_000_000),
            timeout_ns: per_time(TIMEOUT_NS),
            error_pause_ns: per_time(ERROR_PAUSE_NS),
        })
    }

    /// Workers in all.
    pub fn workers(&self) -> u64 {
        u64::from(self.memcgs) * u64::from(self.nodes)
    }

    /// Pages in use once every buffer has been written to.
    pub fn demand_pages(&self) -> u64 {
        let buffers = u64::from(self.chunks) * u64::from(self.chunk_pages);
        let browser = self.file_pages + self.heap_pages + 4 * self.array_pages;
        u64::from(self.text_pages) + self.workers() * (buffers + u64::from(browser))
    }

    /// The part of a region of the browser that a request touches.
    pub fn touched(&self, pages: u32) -> u32 {
        (u64::from(pages) * TOUCHED_PERCENT).div_ceil(100) as u32
    }
}
