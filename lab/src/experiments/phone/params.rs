//! The parameters of a phone, with the defaults of `docs/reference/experiments.md#android-cold-start`. Values at scale 1.

use super::Hardware;
use crate::experiment::{ExperimentError, Host, ParamDoc, RunInput, MEMBERS_MAX};
use coldset_machine::FileSystem;

pub(in crate::experiments) const RAM_MIB: ParamDoc = ParamDoc::new("ram_mib", "8192", "RAM, MiB");
pub(in crate::experiments) const FIRMWARE_MIB: ParamDoc = ParamDoc::new(
    "firmware_mib",
    "1638",
    "what kernel and firmware hold of it, MiB",
);
pub(in crate::experiments) const ZRAM_MIB: ParamDoc =
    ParamDoc::new("zram_mib", "8192", "compressed swap, MiB");
pub(in crate::experiments) const APPS: ParamDoc =
    ParamDoc::new("apps", "20", "apps, not scaled").up_to(MEMBERS_MAX);
pub(in crate::experiments) const CPUS: ParamDoc = ParamDoc::new("cpus", "8", "CPUs, not scaled");
pub(in crate::experiments) const SWAPPINESS: ParamDoc =
    ParamDoc::new("swappiness", "60", "vm.swappiness");
pub(in crate::experiments) const DEVICE: ParamDoc = ParamDoc::new("device", "ufs", "storage");
pub(in crate::experiments) const FILE_SYSTEM: ParamDoc = ParamDoc::new(
    "file_system",
    "f2fs",
    "what the files are on (f2fs, ext4): on f2fs a write takes the mark of reclaim away",
);
pub(in crate::experiments) const WATERMARKS: ParamDoc = ParamDoc::new(
    "watermark_scale_factor",
    "10",
    "vm.watermark_scale_factor: distance of the watermarks, ten-thousandths of the memory",
);
pub(in crate::experiments) const READ_AHEAD: ParamDoc = ParamDoc::new(
    "read_ahead_kb",
    "0",
    "largest window of read-ahead, KiB (the kernel's default is 128); 0: what is asked for is read, and nothing more",
);
pub(in crate::experiments) const TOUCHED: ParamDoc = ParamDoc::new("touched", "hot", "how \"40 % touched per second\" is read: pages drawn anew each second (rate), or always the same ones (hot)");
pub(in crate::experiments) const MEMCGS: ParamDoc =
    ParamDoc::new("memcgs", "off", "a memcg for every app (on, off)");

/// The hardware that the parameters describe.
pub(in crate::experiments) fn hardware(input: &RunInput) -> Result<Hardware, ExperimentError> {
    let n = |name| input.number(name);
    let switch = [("on", true), ("off", false)];
    let reading = [("rate", false), ("hot", true)];
    let systems = FileSystem::ALL.map(|f| (f.name(), f));
    Ok(Hardware {
        ram_mib: n("ram_mib")?,
        firmware_mib: n("firmware_mib")?,
        zram_mib: n("zram_mib")?,
        cpus: n("cpus")?,
        swappiness: n("swappiness")?,
        watermark_scale_factor: n("watermark_scale_factor")?,
        read_ahead_kb: u32::try_from(n("read_ahead_kb")?)
            .map_err(|_| input.wrong("read_ahead_kb", "KiB of a window, below 2^32"))?,
        device: input.device("device")?,
        file_system: input.word("file_system", &systems, "f2fs or ext4")?,
        memcgs: input.word("memcgs", &switch, "on or off")?,
        touched_hot: input.word("touched", &reading, "rate or hot")?,
    })
}

/// The machine that the parameters describe.
pub(in crate::experiments) fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    Ok(vec![hardware(input)?.host(input.scale)])
}

/// Milliseconds of CPU that a start may need.
pub(in crate::experiments) fn cpu_ms(input: &RunInput) -> (u64, u64) {
    let ms = |ns| ns / 1_000_000;
    let (min, max) = (
        ms(input.cost("app_start_min_ns")),
        ms(input.cost("app_start_max_ns")),
    );
    (min, max.max(min))
}
