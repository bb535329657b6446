//! Settings as text, for command lines and bindings.
//!
//! | what | for example |
//! |---|---|
//! | a size | `4096`, `512M`, `2GiB`, `1.5 GB` |
//! | a swap | `none`, `lz4:8GiB`, `lz4:8GiB+zstd`, `file:/path:8GiB`, `temp:8GiB`, `lz4:2GiB+file:/path:8GiB` |
//! | a time | `5`, `0.5`, `500ms`, `5s` |
//! | a setting | `policy` = `v5`, see [`PoolConfig::set`] |

use super::{FaultMode, PoolConfig, SwapConfig};
use crate::error::{Error, Result};
use crate::store::Codec;

/// Powers of 1024 by one letter or with `iB`, of 1000 with `B`, as GNU's tools have it.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// Bytes of a size such as `4096`, `512M`, `2GiB` or `1.5 GB`. One letter or `KiB`, `MiB`, `GiB`,
/// `TiB` count in powers of 1024, `KB`, `MB`, `GB`, `TB` in powers of 1000; case does not matter.
///
/// # Errors
/// [`Error::Parse`].
pub fn parse_size(text: &str) -> Result<u64> {
    size_in(text, text)
}

/// The size `part` of the setting `text`.
fn size_in(text: &str, part: &str) -> Result<u64> {
    let bad = |what: &str, expected| Err(wrong(text, what, expected, "2GiB, 512M or 4096"));
    let trimmed = part.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim());
    let lower = unit.to_ascii_lowercase();
    let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == lower) else {
        return bad(unit, "a unit (K, M, G, T, KiB ... TiB, KB ... TB)");
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    // More digits of a fraction than the largest unit has make no byte of difference.
    if number.is_empty() || !digits(fraction) || fraction.len() > 12 || whole.is_empty() {
        return bad(number, "a number");
    }
    let mut bytes = match whole.parse::<u64>() {
        Ok(n) => u128::from(n) * u128::from(scale),
        Err(_) => return bad(number, "a number below 2^64"),
    };
    if !fraction.is_empty() {
        let part = fraction.parse::<u128>().expect("at most 12 digits");
        bytes += part * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    }
    match u64::try_from(bytes) {
        Ok(b) => Ok(b),
        Err(_) => bad(part, "below 2^64 bytes"),
    }
}

fn wrong(text: &str, part: &str, expected: &'static str, example: &'static str) -> Error {
    Error::Parse {
        text: text.into(),
        part: part.into(),
        expected,
        example,
    }
}

const SWAP_EXAMPLE: &str =
    "none, lz4:8GiB, lz4:8GiB+zstd, file:/path:8GiB, temp:8GiB, temp:8GiB+encrypt or \
     lz4:2GiB+file:/path:8GiB";

/// A word of the swap's grammar: takes what follows its colon, if there is one.
struct Word {
    name: &'static str,
    /// What must follow, for messages.
    form: &'static str,
    /// What it is, for the documentation.
    doc: &'static str,
    apply: fn(SwapConfig, &str, Option<&str>) -> Result<SwapConfig>,
}

/// All words. Parts are joined by `+`; each word may be there once.
const WORDS: &[Word] = &[
    Word {
        name: "lz4",
        form: "lz4:SIZE",
        doc: "Compressed memory for SIZE of contents (before they are compressed); counts to the budget and takes at most half of it. With a file behind it, pages that LZ4 makes less than an eighth smaller go to the file, and so do those evicted longest ago.",
        apply: |swap, text, rest| {
            let compressed = some_size(text, rest.unwrap_or(""), "lz4:SIZE")?;
            if swap.compressed > 0 {
                return Err(wrong(text, "lz4", "not after zstd:SIZE", SWAP_EXAMPLE));
            }
            Ok(SwapConfig { compressed, ..swap })
        },
    },
    // After LZ4 the second tier; with a size of its own all there is.
    Word {
        name: "zstd",
        form: "zstd",
        doc: "After `lz4:SIZE`: what stays is compressed again, smaller, by Zstandard. `zstd:SIZE` is Zstandard alone.",
        apply: |swap, text, rest| match rest {
            None if swap.compressed > 0 => Ok(swap.and_zstd()),
            Some(size) if swap.compressed == 0 => {
                let compressed = some_size(text, size, "zstd:SIZE")?;
                let codec = Codec::Zstd;
                Ok(SwapConfig {
                    compressed,
                    codec,
                    ..swap
                })
            }
            _ => Err(wrong(
                text,
                "zstd",
                "zstd after lz4:SIZE, or zstd:SIZE alone",
                SWAP_EXAMPLE,
            )),
        },
    },
    Word {
        name: "file",
        form: "file:PATH:SIZE",
        doc: "A file, which gets its space at once, is its owner's alone and this pool's alone. One that exists must be a swap file that nobody uses.",
        apply: |swap, text, rest| {
            let rest = rest.unwrap_or("");
            // The path may have colons of its own.
            match rest.rsplit_once(':') {
                Some((path, size)) if !path.is_empty() => {
                    Ok(swap.and_file(path, some_size(text, size, "file:PATH:SIZE")?))
                }
                _ => Err(wrong(text, rest, "PATH:SIZE after file:", SWAP_EXAMPLE)),
            }
        },
    },
    Word {
        name: "temp",
        form: "temp:SIZE",
        doc: "A file without a name in `$TMPDIR` or `/var/tmp`, which gets its space at once. Behind `lz4:SIZE`, the swap holds the larger of the two sizes and not their sum: each page has a place in the file for the time when memory does not take it, and the file is as large as that.",
        apply: |swap, text, rest| {
            Ok(swap.and_temporary(some_size(text, rest.unwrap_or(""), "temp:SIZE")?))
        },
    },
    Word {
        name: "encrypt",
        form: "encrypt",
        doc: "Beside `file:` or `temp:`: what goes there is encrypted with a key of the pool's life.",
        apply: |swap, text, rest| match rest {
            None => Ok(swap.encrypt(true)),
            Some(_) => Err(wrong(text, "encrypt", "encrypt alone, without a colon", SWAP_EXAMPLE)),
        },
    },
];

fn some_size(text: &str, part: &str, form: &'static str) -> Result<u64> {
    if part.trim().is_empty() {
        return Err(wrong(text, part, form, SWAP_EXAMPLE));
    }
    match size_in(text, part)? {
        0 => Err(wrong(text, part, "a size above 0", SWAP_EXAMPLE)),
        n => Ok(n),
    }
}

/// The parts of a swap. A `+` belongs to a path unless a word follows it.
fn parts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices('+') {
        let next = text[at + 1..].split([':', '+']).next().unwrap_or("").trim();
        if !text[from..at].starts_with("file:") || WORDS.iter().any(|w| w.name == next) {
            found.push(&text[from..at]);
            from = at + 1;
        }
    }
    found.push(&text[from..]);
    found
}

impl SwapConfig {
    /// The parts of a swap's description, and what each is.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        WORDS.iter().map(|w| (w.form, w.doc))
    }

    /// A swap by its description: `none`, `lz4:8GiB`, `file:/path:8GiB`, `temp:8GiB` (a temporary
    /// file), or what takes pages first and what takes the rest: `lz4:2GiB+file:/path:8GiB`.
    /// `lz4:8GiB+zstd` is [`Self::and_zstd`], `zstd:8GiB` is [`Self::zstd`], `temp:8GiB+encrypt` is
    /// [`Self::encrypt`]. Sizes as in [`parse_size`].
    ///
    /// # Errors
    /// [`Error::Parse`], also for two files.
    ///
    /// ```
    /// use coldset_pager::SwapConfig;
    ///
    /// assert_eq!(SwapConfig::parse("lz4:2GiB+file:/tmp/swap:8GiB")?.capacity(), 8 << 30);
    /// let wrong = SwapConfig::parse("lz5:8GiB").unwrap_err().to_string();
    /// assert!(wrong.contains("lz5") && wrong.contains("for example"));
    /// # Ok::<(), coldset_pager::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        if trimmed.eq_ignore_ascii_case("none") {
            return Ok(Self::none());
        }
        let mut swap = Self::none();
        let mut seen: Vec<&str> = Vec::new();
        for part in parts(trimmed) {
            let part = part.trim();
            let (name, rest) = match part.split_once(':') {
                Some((name, rest)) => (name, Some(rest)),
                None => (part, None),
            };
            let Some(word) = WORDS.iter().find(|w| w.name == name) else {
                return Err(wrong(
                    text,
                    part,
                    "a kind of swap this program knows",
                    SWAP_EXAMPLE,
                ));
            };
            let file = |n: &str| n == "file" || n == "temp";
            if seen.iter().any(|&s| s == name || (file(s) && file(name))) {
                return Err(wrong(text, part, "given once only", SWAP_EXAMPLE));
            }
            if rest.is_none() && word.form.contains(':') {
                return Err(wrong(text, part, word.form, SWAP_EXAMPLE));
            }
            swap = (word.apply)(swap, text, rest)?;
            seen.push(name);
        }
        if swap.encrypt && swap.file.is_none() {
            let expected = "beside file:PATH:SIZE or temp:SIZE; compressed memory is not encrypted";
            return Err(wrong(text, "encrypt", expected, SWAP_EXAMPLE));
        }
        Ok(swap)
    }
}

impl FaultMode {
    /// A mode by its name in lower case.
    ///
    /// # Errors
    /// [`Error::Parse`].
    pub fn parse(text: &str) -> Result<Self> {
        let found = FAULT_MODES.iter().find(|(name, _)| *name == text.trim());
        let expected = "a fault mode this program knows";
        let found = found.ok_or_else(|| wrong(text, text, expected, FAULT_MODE_EXAMPLE))?;
        Ok(found.1)
    }
}

const FAULT_MODES: &[(&str, FaultMode)] = &[
    ("sigbus", FaultMode::Sigbus),
    ("thread", FaultMode::Thread),
    ("explicit", FaultMode::Explicit),
    ("auto", FaultMode::Auto),
];
const FAULT_MODE_EXAMPLE: &str = "sigbus, thread, explicit or auto";

type Set = fn(PoolConfig, &str) -> Result<PoolConfig>;

/// What [`PoolConfig::set`] knows.
const SETTINGS: &[(&str, &str, Set)] = &[
    (
        "budget",
        "Memory for pages and compressed contents: a size such as `512M` or `2GiB`, or `50%` of the memory cgroup's limit or else of the machine's memory.",
        |mut c, v| {
            if let Some(percent) = v.trim().strip_suffix('%') {
                let number = percent.trim().parse::<f64>();
                let number = number.map_err(|_| wrong(v, percent, "a number", "50%"))?;
                return c.with_share(number / 100.0);
            }
            c.budget = parse_size(v)?;
            c.share = None;
            Ok(c)
        },
    ),
    (
        "policy",
        "A variant's name. It resets all switches, so set it before them.",
        |c, v| c.policy(v),
    ),
    ("switch", "One switch, `NAME=VALUE`.", |c, v| c.switch(v)),
    (
        "swap",
        "Where pages go that are not of files: `none`, or the parts below.",
        |c, v| Ok(c.swap(SwapConfig::parse(v)?)),
    ),
    (
        "fault_mode",
        "How misses are noticed: `sigbus`, `thread` (needs privilege), `explicit` or `auto`.",
        |c, v| Ok(c.fault_mode(FaultMode::parse(v)?)),
    ),
    (
        "journal",
        "Records every decision in this file, which is new or an older journal.",
        |c, v| Ok(c.journal(v)),
    ),
    (
        "read_ahead",
        "Pages that a miss in order brings in, at most.",
        |c, v| Ok(c.read_ahead(count(v)?)),
    ),
    (
        "full_wait",
        "How long evictions wait for room when the disk of the swap or of a file is full: seconds, or such as `500ms`.",
        |c, v| Ok(c.full_wait(time(v)?)),
    ),
    (
        "overcommit",
        "`true`: regions may be larger than budget and swap together.",
        |c, v| Ok(c.overcommit(truth(v)?)),
    ),
    (
        "shrink_under_pressure",
        "`true`: the budget shrinks while threads wait for memory, and grows back.",
        |c, v| Ok(c.shrink_under_pressure(truth(v)?)),
    ),
    ("batch", "Pages that are evicted together.", |c, v| {
        Ok(c.batch(count(v)?))
    }),
    (
        "background",
        "`false`: no background threads that keep room free and read ahead. A program with one thread then has the same misses in every run.",
        |c, v| Ok(c.background(truth(v)?)),
    ),
    (
        "map_streams",
        "`false`: a file that is read in order is copied as any other, not mapped from the page cache.",
        |c, v| Ok(c.map_streams(truth(v)?)),
    ),
];

fn truth(text: &str) -> Result<bool> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong(text, text, "true or false", "true")),
    }
}

fn count(text: &str) -> Result<usize> {
    let n = text.trim().parse();
    n.map_err(|_| wrong(text, text, "a number of pages", "32"))
}

/// A time such as `5`, `0.5s` or `500ms`.
fn time(text: &str) -> Result<std::time::Duration> {
    let trimmed = text.trim();
    let (number, unit) = match trimmed.strip_suffix("ms") {
        Some(n) => (n, 0.001),
        None => (trimmed.strip_suffix('s').unwrap_or(trimmed), 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|n| n * unit);
    // Longer than a day is no waiting.
    match seconds.filter(|s| (0.0..=86400.0).contains(s)) {
        Some(s) => Ok(std::time::Duration::from_secs_f64(s)),
        None => Err(wrong(
            text,
            text,
            "a time of 0 s to 86400 s",
            "5, 0.5 or 500ms",
        )),
    }
}

impl PoolConfig {
    /// One setting by name: `budget`, `policy` (which resets the switches), `switch` (`name=value`),
    /// `swap`, `fault_mode`, `journal`, `overcommit`, `shrink_under_pressure`, `read_ahead`, `full_wait`, `batch`,
    /// `background` and `map_streams`.
    ///
    /// # Errors
    /// [`Error::Parse`] for an unknown name or a value that cannot be read; an unknown policy or
    /// switch.
    pub fn set(self, name: &str, value: &str) -> Result<Self> {
        match SETTINGS.iter().find(|(n, ..)| *n == name) {
            Some((_, _, set)) => set(self, value),
            None => Err(wrong(
                name,
                name,
                "a setting of a pool",
                "budget, policy, switch, swap, fault_mode, journal, read_ahead, full_wait, overcommit, \
                 shrink_under_pressure, batch, background or map_streams",
            )),
        }
    }

    /// Names of what [`Self::set`] takes, and what each is.
    pub fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
        SETTINGS.iter().map(|&(name, doc, _)| (name, doc))
    }

    /// Variables of the environment that every program with a pool looks at, and what each is.
    pub const ENVIRONMENT: &'static [(&'static str, &'static str)] = &[
        (
            "COLDSET_OBSERVE",
            "Not empty and not 0: `coldset top` may look at the process.",
        ),
        (
            "COLDSET_METRICS",
            "An address such as `127.0.0.1:9100`, at which Prometheus is answered.",
        ),
        (
            "COLDSET_JOURNAL",
            "A file for the journal of the first pool; the nth pool writes to the same name with `.n`.",
        ),
    ];
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
