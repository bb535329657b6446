//! The parameters of browsers and servers, with the defaults of `docs/reference/experiments.md#fairness`. Values at scale 1.

use crate::experiment::ParamDoc;

pub(in crate::experiments) const RAM_MIB: ParamDoc = ParamDoc {
    name: "ram_mib",
    default: "131072",
    doc: "RAM of the host, MiB",
};
pub(in crate::experiments) const NODES: ParamDoc = ParamDoc {
    name: "nodes",
    default: "2",
    doc: "NUMA nodes, not scaled",
};
pub(in crate::experiments) const CPUS: ParamDoc = ParamDoc {
    name: "cpus",
    default: "96",
    doc: "CPUs of all nodes, not scaled",
};
pub(in crate::experiments) const MEMCGS: ParamDoc = ParamDoc {
    name: "memcgs",
    default: "32",
    doc: "memcgs, each with a worker on every node, not scaled",
};
pub(in crate::experiments) const CHUNKS: ParamDoc = ParamDoc {
    name: "chunks",
    default: "8",
    doc: "buffers of a server",
};
pub(in crate::experiments) const CHUNK_MIB: ParamDoc = ParamDoc {
    name: "chunk_mib",
    default: "512",
    doc: "size of a buffer, MiB",
};
pub(in crate::experiments) const STRIDE: ParamDoc = ParamDoc {
    name: "stride",
    default: "512",
    doc: "bytes from one store to the next",
};
pub(in crate::experiments) const FILL: ParamDoc = ParamDoc {
    name: "fill",
    default: "zero",
    doc: "contents of the buffers: zero or random",
};
pub(in crate::experiments) const SWAP: ParamDoc = ParamDoc {
    name: "swap",
    default: "zram",
    doc: "none, zram or disk",
};
pub(in crate::experiments) const SWAP_MIB: ParamDoc = ParamDoc {
    name: "swap_mib",
    default: "262144",
    doc: "size of swap, MiB",
};
pub(in crate::experiments) const DURATION_S: ParamDoc = ParamDoc {
    name: "duration_s",
    default: "3600",
    doc: "measured time, s, before effort",
};
