//! Sizes, scales, efforts and swap areas as they are written on the command line.

use super::RunnerError;
use crate::replay::FileDevice;
use crate::traces::About;
use coldset_machine::device::{DeviceKind, ZramAlgorithm};
use coldset_machine::SwapConfig;
use std::fmt;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Greatest denominator of a scale.
pub const SCALE_MAX: u64 = 65_536;
/// Greatest effort, thousandths.
const EFFORT_MAX: u64 = 1_000_000;
const SIZE_FORMS: &str = "a size such as 64MiB, 512KiB, 1.5GiB or 16384pages";

/// A size: pages, or a share of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Pages of 4 KiB.
    Pages(u64),
    /// Per cent of what it is a share of.
    Percent(f64),
}

impl Size {
    /// Reads `64MiB`, `512KiB`, `1.5GiB`, `300pages`, `25%` or `0`. K, M, G and T alone are binary, as KiB to
    /// TiB; KB to TB are powers of ten. Parts of a page do not count.
    ///
    /// # Errors
    /// [`RunnerError::Value`] with the forms that can be read.
    pub fn parse(what: &'static str, text: &str) -> Result<Self, RunnerError> {
        Self::parse_exactly(what, text).map(|(size, _)| size)
    }

    /// As [`Self::parse`], of a size that has no parts of pages.
    ///
    /// # Errors
    /// As [`Self::parse`]; parts of pages.
    pub fn parse_whole(what: &'static str, text: &str) -> Result<Self, RunnerError> {
        match Self::parse_exactly(what, text)? {
            (size, true) => Ok(size),
            (_, false) => Err(RunnerError::value(what, text, "whole pages of 4KiB")),
        }
    }

    /// The size, and whether no part of a page is left out.
    fn parse_exactly(what: &'static str, text: &str) -> Result<(Self, bool), RunnerError> {
        let wrong = |expected: String| RunnerError::value(what, text, expected);
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        if trimmed.starts_with('-') {
            return Err(wrong("a positive size, such as 64MiB".into()));
        }
        let value: f64 = number
            .parse()
            .ok()
            .filter(|v: &f64| v.is_finite())
            .ok_or_else(|| wrong(SIZE_FORMS.into()))?;
        let bytes = |shift: u32| value * f64::from(shift).exp2();
        let pages = match unit.trim().to_ascii_lowercase().as_str() {
            "%" => return Ok((Self::Percent(value), true)),
            "" if value == 0.0 => 0.0,
            "" => return Err(wrong(with_unit(number, value))),
            "page" | "pages" if value.fract() != 0.0 => {
                return Err(wrong("a whole number of pages".into()));
            }
            "page" | "pages" => value,
            "b" | "bytes" => bytes(0) / PAGE as f64,
            "k" | "kib" => bytes(10) / PAGE as f64,
            "m" | "mib" => bytes(20) / PAGE as f64,
            "g" | "gib" => bytes(30) / PAGE as f64,
            "t" | "tib" => bytes(40) / PAGE as f64,
            "kb" => value * 1e3 / PAGE as f64,
            "mb" => value * 1e6 / PAGE as f64,
            "gb" => value * 1e9 / PAGE as f64,
            "tb" => value * 1e12 / PAGE as f64,
            _ => return Err(wrong(SIZE_FORMS.into())),
        };
        if pages > (1u64 << 40) as f64 {
            return Err(wrong("less than 4 PiB".into()));
        }
        Ok((Self::Pages(pages as u64), pages.fract() == 0.0))
    }

    /// In pages; a share is one of `whole`, rounded down.
    #[must_use]
    pub fn pages_of(self, whole: u64) -> u64 {
        match self {
            Self::Pages(pages) => pages,
            Self::Percent(percent) => (whole as f64 * percent / 100.0) as u64,
        }
    }
}

impl Size {
    /// In pages, as [`Self::pages_of`], for a replay of `trace` that needs `least`.
    ///
    /// # Errors
    /// There are fewer.
    pub(crate) fn at_least(
        self,
        least: u64,
        whole: u64,
        trace: &About,
    ) -> Result<u64, RunnerError> {
        let pages = self.pages_of(whole);
        match pages < least {
            true => {
                let given = (&*self.to_string(), pages);
                Err(RunnerError::too_small("memory", given, least, trace))
            }
            false => Ok(pages),
        }
    }
}

/// As it can be written: `25%`, `300 pages`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(pages) => write!(f, "{pages} pages"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What a number without a unit could mean. From a mebibyte on it is most likely bytes.
fn with_unit(number: &str, value: f64) -> String {
    const MIB: f64 = 1048576.0;
    if value < MIB {
        return format!("a unit: {number}MiB, {number}KiB, {number}GiB or {number}pages");
    }
    // The nearest: 2147483647 is 2 GiB to whoever wrote it, not 1.9.
    let tenths = |size: f64| (size * 10.0).round() / 10.0;
    let (size, unit) = match value / MIB {
        mib if tenths(mib) >= 1024.0 => (mib / 1024.0, "GiB"),
        mib => (mib, "MiB"),
    };
    let tenths = tenths(size);
    let about = if size == tenths { "" } else { "about " };
    format!(
        "a unit: {number}B is {about}{tenths}{unit}; {number}pages would be {:.0}GiB",
        value / 262_144.0
    )
}

/// Pages as a size for people: `16,384 pages (64 MiB)`.
#[must_use]
pub fn show_pages(pages: u64) -> String {
    let kib = pages * 4;
    let size = match kib {
        k if k >= 1 << 20 && k % (1 << 20) == 0 => format!("{} GiB", k >> 20),
        k if k >= 1 << 10 && k % (1 << 10) == 0 => format!("{} MiB", k >> 10),
        k if k >= 100 << 10 => format!("{} MiB", k >> 10),
        k => format!("{} KiB", coldset_report::human(k as f64)),
    };
    format!("{} pages ({size})", coldset_report::human(pages as f64))
}

/// Reads a scale, `1` or `1/N`; returns N.
///
/// # Errors
/// [`RunnerError::Value`].
pub fn parse_scale(text: &str) -> Result<u64, RunnerError> {
    let wrong = || {
        let expected = format!("1 or 1/N with N from 1 to {SCALE_MAX}, for example 1/64");
        RunnerError::value("scale", text, expected)
    };
    let trimmed = text.trim();
    let denominator = if trimmed == "1" {
        "1"
    } else {
        trimmed.strip_prefix("1/").ok_or_else(wrong)?
    };
    denominator
        .parse()
        .ok()
        .filter(|n| (1..=SCALE_MAX).contains(n))
        .ok_or_else(wrong)
}

/// `1` or `1/N`.
#[must_use]
pub fn show_scale(denominator: u64) -> String {
    match denominator {
        1 => "1".into(),
        n => format!("1/{n}"),
    }
}

/// Reads an effort, a number such as `1`, `0.25`, `4` or `1/16`; returns thousandths, rounded
/// down.
///
/// # Errors
/// [`RunnerError::Value`] outside of 0.001 to 1000.
pub fn parse_effort(text: &str) -> Result<u64, RunnerError> {
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let value = match text.split_once('/') {
        Some((n, d)) => number(n).zip(number(d)).map(|(n, d)| n / d),
        None => number(text),
    };
    value
        .map(|v| v * 1000.0 + 1e-6)
        .filter(|v| (1.0..EFFORT_MAX as f64 + 1.0).contains(v))
        .map(|v| v as u64)
        .ok_or_else(|| {
            RunnerError::value(
                "effort",
                text,
                "a factor from 0.001 to 1000, for example 1, 0.25 or 1/16",
            )
        })
}

/// Thousandths as a number: `1`, `0.25`.
#[must_use]
pub fn show_effort(permille: u64) -> String {
    format!("{}", permille as f64 / 1000.0)
}

/// Reads the device of a replay's files: a kind, or `delay:TIME`.
///
/// # Errors
/// [`RunnerError::Value`] with what can be written.
pub fn parse_device(text: &str) -> Result<FileDevice, RunnerError> {
    let trimmed = text.trim();
    let found = match trimmed.strip_prefix("delay:") {
        Some(time) => parse_time(time).map(|ns| FileDevice {
            kind: DeviceKind::Delayed,
            delay_write_ns: Some(ns),
        }),
        None => trimmed.parse().ok().map(|kind| FileDevice {
            kind,
            delay_write_ns: None,
        }),
    };
    found.ok_or_else(|| {
        let kinds = DeviceKind::ALL.map(DeviceKind::name).join(", ");
        let expected =
            format!("{kinds}, or delay:TIME up to 1000s, for example delay:1s or delay:20ms");
        RunnerError::value("device", text, expected)
    })
}

/// A device as [`parse_device`] reads it.
#[must_use]
pub fn show_device(device: FileDevice) -> String {
    let Some(ns) = device.delay_write_ns else {
        return device.kind.name().to_owned();
    };
    let units = [(1_000_000_000, "s"), (1_000_000, "ms")];
    let unit = units.iter().find(|(of, _)| ns % of == 0);
    match unit {
        Some((of, unit)) => format!("delay:{}{unit}", ns / of),
        None => format!("delay:{}us", ns as f64 / 1e3),
    }
}

/// `1s`, `20ms`, `1.5ms` or `80us` in ns, from 1 us to 1000 s.
fn parse_time(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let of = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * of;
    (1e3..=1e12).contains(&ns).then_some(ns as u64)
}

/// A swap area whose size may be a share of the pages of a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum SwapSpec {
    /// No swap: anonymous memory stays.
    None,
    /// zram of a size, with an algorithm.
    Zram(Size, ZramAlgorithm),
    /// On a device.
    Disk(Size, DeviceKind),
}

impl SwapSpec {
    /// Reads `none`, `zram:SIZE[:ALGORITHM]` or `DEVICE:SIZE`.
    ///
    /// # Errors
    /// Unknown kind or algorithm, or a size that cannot be read.
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        let mut parts = text.trim().split(':');
        let kind = parts.next().unwrap_or_default();
        let (size, algorithm) = (parts.next(), parts.next());
        let wrong = || {
            RunnerError::value(
                "swap",
                text,
                "none, zram:SIZE[:ALGORITHM] or DEVICE:SIZE, for example zram:512MiB:lz4",
            )
        };
        if parts.next().is_some() || (algorithm.is_some() && kind != "zram") {
            return Err(wrong());
        }
        let Some(size) = size else {
            return match kind {
                "none" => Ok(Self::None),
                "zram" => Err(wrong()),
                other if other.parse::<DeviceKind>().is_ok() => Err(wrong()),
                other => Err(unknown_swap(other)),
            };
        };
        let parsed = Size::parse("swap size", size)?;
        if parsed.pages_of(u64::from(u32::MAX)) == 0 {
            return Err(RunnerError::value(
                "swap size",
                size,
                "at least one page (4KiB), or --swap none",
            ));
        }
        if kind == "zram" {
            let name = algorithm.unwrap_or("lz4");
            let known = ZramAlgorithm::ALL.map(ZramAlgorithm::name);
            let algorithm = ZramAlgorithm::ALL
                .into_iter()
                .find(|a| a.name() == name)
                .ok_or_else(|| {
                    RunnerError::name(
                        "zram algorithm",
                        name,
                        known,
                        "known: lz4, lzo-rle, lzo, zstd",
                    )
                })?;
            return Ok(Self::Zram(parsed, algorithm));
        }
        match kind.parse() {
            Ok(device) => Ok(Self::Disk(parsed, device)),
            Err(_) => Err(unknown_swap(kind)),
        }
    }

    /// The machine's setting for a trace of `unique` pages.
    ///
    /// # Errors
    /// The area has no page, or more than a slot number can tell apart.
    pub fn config(&self, unique: u64) -> Result<SwapConfig, RunnerError> {
        let slots = |size: &Size| {
            let pages = size.pages_of(unique);
            u32::try_from(pages)
                .ok()
                .filter(|p| (1..1 << 30).contains(p))
                .ok_or_else(|| {
                    RunnerError::value(
                        "swap size",
                        &format!("{pages} pages"),
                        "1 page to less than 4 TiB",
                    )
                })
        };
        Ok(match self {
            Self::None => SwapConfig::None,
            Self::Zram(size, algorithm) => SwapConfig::Zram {
                pages: slots(size)?,
                algorithm: algorithm.name().into(),
            },
            Self::Disk(size, device) => SwapConfig::Disk {
                pages: slots(size)?,
                device: *device,
            },
        })
    }
}

/// A swap area as [`SwapSpec::parse`] reads it.
#[must_use]
pub fn show_swap(swap: &SwapConfig) -> String {
    match swap {
        SwapConfig::None => "none".to_owned(),
        SwapConfig::Zram { pages, algorithm } => format!("zram:{pages}pages:{algorithm}"),
        SwapConfig::Disk { pages, device } => format!("{}:{pages}pages", device.name()),
    }
}

fn unknown_swap(kind: &str) -> RunnerError {
    let known = ["none", "zram"]
        .into_iter()
        .chain(DeviceKind::ALL.map(DeviceKind::name));
    RunnerError::name("swap", kind, known, "write none, zram:SIZE or DEVICE:SIZE")
}

/// `TASK=SIZE`: memory.low of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Low {
    /// Task of the trace.
    pub task: u16,
    /// Its protection; a share is one of the limit.
    pub size: Size,
}

impl Low {
    /// Reads `TASK=SIZE`.
    ///
    /// # Errors
    /// [`RunnerError::Value`].
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        let wrong = || RunnerError::value("low", text, "TASK=SIZE, for example 0=38MiB");
        let (task, size) = text.split_once('=').ok_or_else(wrong)?;
        let size = Size::parse("low", size)?;
        if matches!(size, Size::Percent(percent) if percent > 100.0) {
            return Err(RunnerError::value(
                "low",
                text,
                "at most 100%, of the limit",
            ));
        }
        Ok(Self {
            task: task.trim().parse().map_err(|_| wrong())?,
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a message proposes for a number without a unit is what was meant, to the tenth of a unit.
    #[test]
    fn a_number_without_a_unit_is_told_the_nearest_size() {
        for (number, size) in [
            ("2147483647", "about 2GiB"),
            ("2147483648", "2GiB"),
            ("1073741823", "about 1GiB"),
            ("1610612736", "1.5GiB"),
            ("104857600", "100MiB"),
            ("100000000", "about 95.4MiB"),
        ] {
            let text = Size::parse("memory", number).unwrap_err().to_string();
            assert!(text.contains(&format!("{number}B is {size};")), "{text}");
            let pages = |text: &str| Size::parse("memory", text).unwrap().pages_of(0) as f64;
            let (proposed, exact) = (
                pages(size.trim_start_matches("about ")),
                pages(&format!("{number}B")),
            );
            assert!((proposed / exact - 1.0).abs() < 0.01, "{proposed} {exact}");
        }
    }

    #[test]
    fn sizes() {
        let pages = |t| Size::parse("size", t).unwrap().pages_of(2213);
        assert_eq!(pages("64MiB"), 16_384);
        assert_eq!(pages("1.5 GiB"), 393_216);
        assert_eq!(pages("512k"), 128);
        assert_eq!(pages("300pages"), 300);
        assert_eq!(pages("10%"), 221);
        assert_eq!(pages("0"), 0);
        assert_eq!(pages("40MB"), 9765);
        assert_eq!(pages("40M"), 10_240);
        let offers = |t| Size::parse("size", t).unwrap_err().to_string();
        for (typed, meant) in [
            ("64", "64MiB, 64KiB, 64GiB or 64pages"),
            ("409600000", "409600000B is about 390.6MiB"),
            ("67108864", "67108864B is 64MiB"),
        ] {
            assert!(offers(typed).contains(meant), "{}", offers(typed));
        }
        for text in ["10%", "12.5%", "221 pages"] {
            assert_eq!(Size::parse("size", text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "MiB",
            "64",
            "64mbit",
            "-1MiB",
            "1e3MiB",
            "inf",
            "1..2KiB",
            "9999999999TiB",
            "1.5pages",
        ] {
            assert!(Size::parse("size", bad).is_err(), "{bad}");
        }
        for (text, pages) in [
            ("4KiB", Some(1)),
            ("0.5MiB", Some(128)),
            ("5KiB", None),
            ("1B", None),
        ] {
            let whole = Size::parse_whole("size", text).ok();
            assert_eq!(whole, pages.map(Size::Pages), "{text}");
        }
        assert!(Low::parse("0=100%").is_ok() && Low::parse("0=8GiB").is_ok());
        assert!(Low::parse("0=200%")
            .unwrap_err()
            .to_string()
            .contains("at most 100%"));
        assert_eq!(show_pages(16_384), "16,384 pages (64 MiB)");
        assert_eq!(show_pages(221), "221 pages (884 KiB)");
    }

    #[test]
    fn scales_and_efforts() {
        assert_eq!(parse_scale("1").unwrap(), 1);
        assert_eq!(parse_scale("1/64").unwrap(), 64);
        for bad in [
            "0", "1/0", "3/2", "1/100000", "2", "1/", "1/-4", "1/6.4", "",
        ] {
            assert!(parse_scale(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_effort("1").unwrap(), 1000);
        assert_eq!(parse_effort("1/16").unwrap(), 62);
        assert_eq!(parse_effort("0.001").unwrap(), 1);
        assert_eq!(parse_effort("1000").unwrap(), 1_000_000);
        for bad in ["0", "-1", "1/0", "0.0001", "1001", "nan", "x"] {
            assert!(parse_effort(bad).is_err(), "{bad}");
        }
        assert_eq!(show_effort(250), "0.25");
    }

    #[test]
    fn swap_areas() {
        let zram = SwapSpec::parse("zram:100%:zstd")
            .unwrap()
            .config(77)
            .unwrap();
        assert_eq!(
            zram,
            SwapConfig::Zram {
                pages: 77,
                algorithm: "zstd".into()
            }
        );
        let disk = SwapSpec::parse("nvme:1GiB").unwrap().config(0).unwrap();
        assert_eq!(
            disk,
            SwapConfig::Disk {
                pages: 262_144,
                device: DeviceKind::Nvme
            }
        );
        assert_eq!(SwapSpec::parse("none").unwrap(), SwapSpec::None);
        for bad in [
            "zram",
            "zram:0",
            "nvme",
            "nvme:1GiB:lz4",
            "zarm:1GiB",
            "zram:1GiB:lz5",
            "zram:1GiB:lz4:x",
        ] {
            assert!(SwapSpec::parse(bad).is_err(), "{bad}");
        }
        assert!(SwapSpec::parse("zram:64TiB").unwrap().config(1).is_err());
    }

    #[test]
    fn protections() {
        let low = Low::parse("1=38MiB").unwrap();
        assert_eq!((low.task, low.size.pages_of(0)), (1, 9728));
        assert!(Low::parse("38MiB").is_err() && Low::parse("x=1MiB").is_err());
    }
}
