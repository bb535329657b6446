//! The parameters of browsers and servers, with the defaults of `docs/reference/experiments.md#fairness`. Values at scale 1.

use crate::experiment::ParamDoc;

pub(in crate::experiments) const RAM_MIB: ParamDoc =
    ParamDoc::new("ram_mib", "131072", "RAM of the host, MiB");
pub(in crate::experiments) const NODES: ParamDoc =
    ParamDoc::new("nodes", "2", "NUMA nodes, not scaled");
pub(in crate::experiments) const CPUS: ParamDoc =
    ParamDoc::new("cpus", "96", "CPUs of all nodes, not scaled");
pub(in crate::experiments) const MEMCGS: ParamDoc = ParamDoc::new(
    "memcgs",
    "32",
    "memcgs, each with a worker on every node, not scaled",
);
pub(in crate::experiments) const CHUNKS: ParamDoc =
    ParamDoc::new("chunks", "8", "buffers of a server");
pub(in crate::experiments) const CHUNK_MIB: ParamDoc =
    ParamDoc::new("chunk_mib", "512", "size of a buffer, MiB");
pub(in crate::experiments) const STRIDE: ParamDoc =
    ParamDoc::new("stride", "512", "bytes from one store to the next");
pub(in crate::experiments) const FILL: ParamDoc =
    ParamDoc::new("fill", "zero", "contents of the buffers: zero or random");
pub(in crate::experiments) const SWAP: ParamDoc =
    ParamDoc::new("swap", "zram", "none, zram or disk");
pub(in crate::experiments) const SWAP_MIB: ParamDoc =
    ParamDoc::new("swap_mib", "262144", "size of swap, MiB");
pub(in crate::experiments) const SWAP_DEVICE: ParamDoc =
    ParamDoc::new("swap_device", "nvme-swap", "device of swap=disk");
pub(in crate::experiments) const DURATION_S: ParamDoc =
    ParamDoc::new("duration_s", "3600", "measured time, s, before effort");
