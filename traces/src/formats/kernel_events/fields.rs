//! Fields of the events of the page cache.

use crate::fields::parse;
use crate::formats::event_line::words_of;

/// Page of the kernels that are read here, as a power of two: unit of an index and of an order.
const KERNEL_PAGE_SHIFT: u32 = 12;
/// Largest order of a folio: 4 GiB.
pub(super) const ORDER_MAX: u64 = 20;

/// A hexadecimal number, with or without prefix.
pub(super) fn hex(word: &[u8]) -> Option<u64> {
    parse(word.strip_prefix(b"0x").unwrap_or(word), 16)
}

/// Fields of the events of the page cache. Kernels print `dev 8:1 ino 1f` or `dev=8:1 ino=1f`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileFields {
    pub device: Option<(u64, u64)>,
    pub inode: Option<u64>,
    /// First byte, and last if it is printed.
    pub offset: Option<(u64, Option<u64>)>,
    /// First page, in place of an offset.
    index: Option<u64>,
    order: u64,
}

impl FileFields {
    /// Reads them; nothing if one cannot be read.
    pub fn parse(text: &[u8]) -> Option<FileFields> {
        let mut fields = FileFields::default();
        let mut words = words_of(text);
        while let Some(word) = words.next() {
            let (name, value) = match word.iter().position(|&byte| byte == b'=') {
                Some(equals) => (&word[..equals], &word[equals + 1..]),
                None if matches!(word, b"dev" | b"ino") => (word, words.next()?),
                None => continue,
            };
            let decimal = |text: &[u8]| parse(text, 10);
            match name {
                b"dev" => {
                    let colon = value.iter().position(|&byte| byte == b':')?;
                    let (major, minor) = (&value[..colon], &value[colon + 1..]);
                    fields.device = Some((decimal(major)?, decimal(minor)?));
                }
                b"ino" => fields.inode = Some(hex(value)?),
                b"ofs" => {
                    fields.offset = Some(match value.iter().position(|&byte| byte == b'-') {
                        Some(dash) => {
                            (decimal(&value[..dash])?, Some(decimal(&value[dash + 1..])?))
                        }
                        None => (decimal(value)?, None),
                    });
                }
                b"index" => fields.index = Some(decimal(value)?),
                b"order" => fields.order = decimal(value)?,
                _ => {}
            }
        }
        Some(fields)
    }

    /// First and last byte.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        let (start, end) = match (self.offset, self.index) {
            (Some(offset), _) => offset,
            (None, Some(index)) => (index.checked_mul(1 << KERNEL_PAGE_SHIFT)?, None),
            (None, None) => return None,
        };
        if self.order > ORDER_MAX {
            return None;
        }
        let folio = 1u64 << (KERNEL_PAGE_SHIFT as u64 + self.order);
        let end = match end {
            Some(end) => end,
            None => start.checked_add(folio - 1)?,
        };
        (start <= end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(text: &str) -> Option<(u64, u64)> {
        let (start, end) = FileFields::parse(text.as_bytes())?.bytes()?;
        Some((start >> 12, end >> 12))
    }

    #[test]
    fn offsets_indices_and_orders() {
        for (text, expected) in [
            (
                "dev 254:0 ino 3c7da pfn=0x1f49db ofs=16384 order=0",
                Some((4, 4)),
            ),
            (
                "dev 254:0 ino 3c7da pfn=0x1f49db ofs=16384 order=2",
                Some((4, 7)),
            ),
            (
                "dev 8:1 ino 2a page=000000009fe0a7b1 pfn=123 ofs=4096",
                Some((1, 1)),
            ),
            ("dev=8:1 ino=2a index=5 order=9", Some((5, 516))),
            ("dev=254:0 ino=4fc26 ofs=622592-630783", Some((152, 153))),
            ("dev=254:0 ino=4fc26 ofs=0-4095", Some((0, 0))),
            ("dev=254:0 ino=4fc26 ofs=0-4096", Some((0, 1))),
            ("dev=254:0 ino=4fc26 ofs=1916928", Some((468, 468))),
            ("dev 8:1 ino 2a order=0", None),
            ("dev 8:1 ino 2a ofs=8192-4095", None),
            ("dev 8:1 ino 2a ofs=-1", None),
            ("dev 8:1 ino 2a ofs=0 order=21", None),
            ("dev 8:1 ino 2a index=18446744073709551615", None),
            ("dev 8 ino 2a ofs=0", None),
            ("dev 8:1 ino xyz ofs=0", None),
        ] {
            assert_eq!(pages(text), expected, "{text}");
        }
    }

    #[test]
    fn devices_inodes_and_bytes() {
        let fields = FileFields::parse(b"dev 8:1 ino 2a ofs=16384 order=1").expect("sound");
        assert_eq!(fields.device, Some((8, 1)));
        assert_eq!(fields.inode, Some(0x2a));
        assert_eq!(fields.bytes(), Some((16384, 24575)));
    }
}
