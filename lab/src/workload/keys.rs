//! Every key of a workload: what the reader accepts, and what `docs/reference/workloads.md` lists.

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table it stands in: empty for the top.
    pub section: &'static str,
    /// The key.
    pub name: &'static str,
    /// What can stand behind it.
    pub takes: &'static str,
    /// Without it; empty: it must be there.
    pub default: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// A value that can be read, in TOML.
    pub example: &'static str,
}

const fn key(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    doc: &'static str,
    example: &'static str,
) -> Key {
    Key {
        section,
        name,
        takes,
        default,
        doc,
        example,
    }
}

/// Tables, in the order of the reference, each with a heading and what it describes.
pub const SECTIONS: &[(&str, &str, &str)] = &[
    ("", "The top of the file", "What is run, over which variants."),
    ("effort", "effort", "What an effort of 1 is; a table behind the key `effort`."),
    ("params", "[params]", "Values that `--param NAME=VALUE` can set. Each key is a name; its value is the default, or a table \
      with the keys below. Where a text of the file begins with `$NAME`, the parameter's value stands there: `\"$NAME\"`, or with a unit `\"$NAME MiB\"`."),
    ("costs", "[[costs]]", "Rows of the table of costs (`coldset lab params`) that are different here."),
    ("machines", "[[machines]]", "A machine. With several of them, each does its work by itself, one after the other, and its results \
      begin with its name and a dot. Without one there is a machine with everything at its default."),
    ("cgroups", "[[cgroups]]", "A memory cgroup. Sizes shrink with the scale."),
    ("files", "[[files]]", "A file, nothing of it cached at first."),
    ("memory", "[[memory]]", "A region of anonymous memory; each process has its own."),
    ("tasks", "[[tasks]]", "A group of tasks that do the same."),
    ("phases", "[[tasks.phases]]", "A part of the work of a group, one after the other. It goes through its steps again and again; \
      once through the steps is an operation."),
    ("steps", "steps", "A step of a phase: `steps` is a list of tables. Each has one of the keys `load` to `cpu`, and may have some of the others."),
    ("at", "at", "Which block a step uses, where `at` is a table."),
    ("claims", "[[claims]]", "A row of the table of claims: what you expect, judged over the seeds."),
];

const SIZE: &str = "a size";
const TIME: &str = "a time";
const NAME: &str = "a name";
const TEXT: &str = "text";
const FLAG: &str = "true or false";
const BLOCK: &str = "name of a file or memory";

/// All of them.
pub const KEYS: &[Key] = &[
    key("", "name", NAME, "the file's name", "name of the experiment in tables and results", "\"mine\""),
    key("", "about", TEXT, "nothing", "one line about it", "\"what it is\""),
    key("", "source", TEXT, "nothing", "where the figures of the claims come from", "\"a paper\""),
    key("", "before", "a variant", "base", "the variant that stands for \"before\"", "\"base\""),
    key("", "after", "a variant", "v5", "the variant that stands for \"after\"", "\"v5\""),
    key("", "variants", "a list of variants", "none", "further variants that are run by default, shown between the two", "[\"classic\"]"),
    key("", "scale", "1 or 1/N", "1", "the default of `--scale`: sizes, counts and the times of phases are divided by N", "\"1/8\""),
    key("", "fixed_scale", FLAG, "false", "another scale than this one is refused", "false"),
    key("", "effort", "a table", "nothing published", "what an effort of 1 is, for the report", "{ published = \"300 s\", part = 4 }"),
    key("", "params", "a table", "none", "values that `--param` can set", "{ threads = 4 }"),
    key("", "costs", "a list of tables", "none", "costs that are different here", "[]"),
    key("", "machines", "a list of tables", "one machine", "the machines", "[]"),
    key("", "cgroups", "a list of tables", "none", "the memory cgroups", "[]"),
    key("", "files", "a list of tables", "none", "the files", "[]"),
    key("", "memory", "a list of tables", "none", "the regions of anonymous memory", "[]"),
    key("", "tasks", "a list of tables", "", "the tasks", ""),
    key("", "results", "a list of `NAME` or `NAME = FORMULA`", "a selection", "what is reported of a machine, in order: quantities by name, or computed from them", "[\"ops\", \"per_page = ops / max(pages, 1)\"]"),
    key("", "mechanism", "a list of results", "all results", "the results that the report shows first", "[\"ops\"]"),
    key("", "claims", "a list of tables", "none", "what you expect", "[]"),
    key("effort", "published", TEXT, "", "the published duration or amount", "\"300 s\""),
    key("effort", "part", "a whole number from 1", "1", "an effort of 1 is one of so many parts of it", "4"),
    key("effort", "fixed", FLAG, "false", "the run does all of it, whatever the effort", "false"),
    key("params", "default", "a text, a number, true or false", "", "the value unless `--param` gives one", "4"),
    key("params", "about", TEXT, "nothing", "what it is, with its unit", "\"threads\""),
    key("costs", "name", "a cost", "", "the row of the table of costs", "\"timer_hz\""),
    key("costs", "value", "a whole number", "", "its value here", "250"),
    key("costs", "machine", "name of a machine", "all", "the only machine that has it; `--cost` does not change it then", "\"m\""),
    key("costs", "why", TEXT, "nothing", "why the table does not do", "\"because\""),
    key("costs", "source", TEXT, "nothing", "where the value comes from", "\"measured\""),
    key("machines", "name", NAME, "nothing", "its results begin with it and a dot; without it with nothing", "\"m\""),
    key("machines", "cpus", "1 to 256", "4", "CPUs; not scaled", "8"),
    key("machines", "nodes", "1 to 8", "1", "NUMA nodes", "1"),
    key("machines", "ram", SIZE, "no end", "RAM; without it only cgroups limit memory", "\"8GiB\""),
    key("machines", "swap", "none, zram:SIZE[:ALGORITHM] or DEVICE:SIZE", "none", "where anonymous pages can go", "\"zram:1GiB:lz4\""),
    key("machines", "devices", "a list of devices", "[\"nvme\"]", "devices with files (`coldset lab list`)", "[\"nvme\", \"hdd\"]"),
    key("machines", "swappiness", "0 to 200", "60", "vm.swappiness", "100"),
    key("machines", "page_cluster", "0 to 8", "3", "vm.page-cluster: a fault reads up to 2^this pages of swap", "0"),
    key("machines", "read_ahead_kb", "0 to 65536", "128, the kernel's", "windows of read-ahead of at most so many KiB, as Linux has them", "128"),
    key("machines", "file_system", "ext4 or f2fs", "ext4", "what its files are on", "\"f2fs\""),
    key("machines", "large_folios", "0 to 9", "0", "greatest order of a folio of files", "2"),
    key("machines", "cgroup", "v2 or v1", "v2", "hierarchy of the cgroups; v1 has no writeback by cgroup", "\"v2\""),
    key("machines", "dirty_ratio", "0 to 100", "the kernel's", "vm.dirty_ratio, per cent", "20"),
    key("machines", "dirty_background_ratio", "0 to 100", "the kernel's", "vm.dirty_background_ratio, per cent", "10"),
    key("machines", "dirty_balance", FLAG, "true", "writers are throttled at the dirty limits", "true"),
    key("machines", "memcg_writeback", FLAG, "true", "dirty pages of a cgroup have limits and a flusher of their own", "true"),
    key("machines", "stop_at_oom", FLAG, "false", "an OOM kill ends the run", "true"),
    key("cgroups", "name", NAME, "", "tasks name it; its counters are quantities `NAME.COUNTER`", "\"g\""),
    key("cgroups", "machine", "name of a machine", "all", "the only machine that has it", "\"m\""),
    key("cgroups", "parent", "name of a cgroup", "the root", "the cgroup above it, listed before", "\"top\""),
    key("cgroups", "limit", SIZE, "none", "memory.max", "\"256MiB\""),
    key("cgroups", "high", SIZE, "none", "memory.high", "\"200MiB\""),
    key("cgroups", "low", SIZE, "0", "memory.low", "\"64MiB\""),
    key("cgroups", "min", SIZE, "0", "memory.min", "\"16MiB\""),
    key("cgroups", "swap_limit", SIZE, "none", "memory.swap.max", "\"1GiB\""),
    key("files", "name", NAME, "", "steps name it", "\"f\""),
    key("files", "machine", "name of a machine", "all", "the only machine that has it", "\"m\""),
    key("files", "size", SIZE, "", "its length; shrinks with the scale", "\"1GiB\""),
    key("files", "device", "a device of the machine", "the first", "where it lies", "\"nvme\""),
    key("files", "own", FLAG, "false", "each process has one of its own", "true"),
    key("files", "advice", "normal, random or sequential", "normal", "how it will be used (fadvise, madvise); random: accessed bits of mappings are ignored", "\"random\""),
    key("files", "exec", FLAG, "false", "mappings are executable", "false"),
    key("memory", "name", NAME, "", "steps name it", "\"heap\""),
    key("memory", "machine", "name of a machine", "all", "the only machine that has it", "\"m\""),
    key("memory", "size", SIZE, "", "its length; shrinks with the scale", "\"1GiB\""),
    key("memory", "fill", "mixed, same or random", "mixed", "what its pages hold, for zram: typical contents, one value, or nothing that can be compressed", "\"mixed\""),
    key("memory", "locked", FLAG, "false", "mlock: its pages are not reclaimed", "false"),
    key("tasks", "name", NAME, "", "its quantities are `NAME.ops` and so on; seeds its random draws", "\"t\""),
    key("tasks", "machine", "name of a machine", "all", "the only machine that runs it", "\"m\""),
    key("tasks", "count", "1 to 10000", "1", "tasks of the group; not scaled", "4"),
    key("tasks", "threads", FLAG, "false", "they are threads of one process, not a process each", "true"),
    key("tasks", "cgroup", "name of a cgroup", "the root", "where they are", "\"g\""),
    key("tasks", "start", "a time or [FROM, TO]", "0s", "they start at that time, or at random in that range; shrinks with the scale", "[\"0s\", \"1s\"]"),
    key("tasks", "background", FLAG, "false", "the run does not wait for them", "false"),
    key("tasks", "draws", NAME, "the group's name", "name of its random draws: groups of the same name draw the same", "\"t\""),
    key("tasks", "phases", "a list of tables", "", "what they do", ""),
    key("phases", "time", TIME, "-", "how long; the times of phases follow one another, and shrink with the scale (of measured phases with the effort, too)", "\"10s\""),
    key("phases", "count", "a whole number from 1", "-", "operations of each task; shrinks like a time", "1000"),
    key("phases", "measured", FLAG, "all if none is marked", "results are about the measured phases; measuring begins when the first task gets there", "true"),
    key("phases", "together", FLAG, "false", "it begins when all tasks of the group have got there", "true"),
    key("phases", "steps", "a list of tables", "", "what an operation is", ""),
    key("steps", "load", BLOCK, "-", "reads through a mapping, a page at a time", "\"f\""),
    key("steps", "store", BLOCK, "-", "writes through a mapping, a page at a time", "\"f\""),
    key("steps", "pread", "name of a file", "-", "one read call", "\"f\""),
    key("steps", "pwrite", "name of a file", "-", "one write call", "\"f\""),
    key("steps", "fsync", "name of a file", "-", "waits until what is dirty is on the device", "\"f\""),
    key("steps", "truncate", "name of a file", "-", "drops all its pages from the cache and from the device", "\"f\""),
    key("steps", "sleep", "a time or [FROM, TO]", "-", "think time; not scaled", "[\"1ms\", \"3ms\"]"),
    key("steps", "cpu", "a time, [FROM, TO] or a cost", "-", "computes; behind another step, after it. Not scaled. A row of the table of costs by its name, which `--cost` can set", "\"20us\""),
    key("steps", "at", "uniform, sequential, cyclic, share, or a table", "uniform", "which block: any; from the first to the last, once; the same again and again; \
      the task's part of the region (the group shares it out), once. A phase without `time` and `count` ends with the first region that is through", "\"uniform\""),
    key("steps", "size", SIZE, "4KiB", "size of a block; not scaled", "\"16KiB\""),
    key("steps", "part", "[FROM, TO] in per cent", "[\"0%\", \"100%\"]", "only that part of the region", "[\"0%\", \"50%\"]"),
    key("steps", "times", "1 to 1000000", "1", "so often in an operation", "2"),
    key("steps", "chance", "a share in per cent", "100%", "only in that share of the operations", "\"25%\""),
    key("steps", "partial", FLAG, "false", "pwrite: of each page only a part, so that it is read first", "true"),
    key("at", "zipf", "0.1 to 4, not 1", "-", "theta: few blocks are used most, scattered over the region (fio's zipf)", "1.1"),
    key("at", "own_hot", FLAG, "false", "zipf: each task has other blocks it uses most", "true"),
    key("at", "hot", "a share in per cent", "-", "a hot set: the first blocks of the region, so much of it", "\"10%\""),
    key("at", "hits", "a share in per cent", "90%", "the share of operations that go to the hot set; the others go to the rest", "\"90%\""),
    key("claims", "name", TEXT, "", "the row's name; {before} and {after} stand for the variants", "\"faster\""),
    key("claims", "ratio", "a result", "-", "measures: that of `to`, divided by that of `from`", "\"ops\""),
    key("claims", "difference", "a result", "-", "measures: that of `to`, minus that of `from`", "\"ops\""),
    key("claims", "value", "a result or a formula", "-", "measures: that of the variant `of`", "\"ops\""),
    key("claims", "of", "before, after or a variant", "after", "whose value", "\"before\""),
    key("claims", "from", "before, after or a variant", "before", "of a ratio or difference", "\"before\""),
    key("claims", "to", "before, after or a variant", "after", "of a ratio or difference", "\"after\""),
    key("claims", "band", "[LEAST, MOST]", "-", "the accepted band", "[0.9, 1.1]"),
    key("claims", "around", "[CENTRE, WIDTH]", "-", "the same: centre plus or minus width", "[1.0, 0.1]"),
    key("claims", "at_least", "a number", "-", "the same, open above", "1.1"),
    key("claims", "at_most", "a number", "-", "the same, open below", "0.9"),
    key("claims", "exactly", "a number", "-", "the same, of one value", "1"),
    key("claims", "class", "A, B, N or D", "B with a band, else D", "A: in the band under every seed; B: the median; N: no difference, the median of the ratio within 1 ± 0.03, no seed outside twice that; D: the direction, which decides nothing", "\"B\""),
    key("claims", "width", "a number above 0", "0.03", "N: another width", "0.05"),
    key("claims", "published", "a number, [BEFORE, AFTER] or text", "none", "the figure of the source", "1.2"),
    key("claims", "unit", TEXT, "none", "unit of the result", "\"ms\""),
    key("claims", "better", "higher or lower", "neither", "which way is good", "\"higher\""),
    key("claims", "restates", "a parameter", "none", "the figure only gives back that parameter, and counts in no total", "\"limit\""),
    key("claims", "note", TEXT, "none", "a remark for the reader", "\"a remark\""),
];

/// The keys of a table.
pub(super) fn of(section: &str) -> impl Iterator<Item = &'static Key> + use<'_> {
    KEYS.iter().filter(move |k| k.section == section)
}
