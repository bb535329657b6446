//! Zones of a machine in words: `PAGES:MIN,LOW,HIGH,RESERVE` of each, lowest first, or `MIN,LOW,HIGH` of the only one.

use super::RunnerError;
use coldset_machine::{Marks, ZoneSpec};

/// Of `--watermarks`.
///
/// # Errors
/// Not of that form.
pub fn parse_zones(text: &str) -> Result<Vec<ZoneSpec>, RunnerError> {
    let several = text.contains(['/', ':']);
    let zone = |text: &str| {
        let (pages, marks) = match text.split_once(':') {
            Some((pages, marks)) => (pages.trim().parse().ok().filter(|n| *n > 0)?, marks),
            None if several => return None,
            None => (1, text),
        };
        let numbers: Option<Vec<u64>> = marks.split(',').map(|n| n.trim().parse().ok()).collect();
        let (min, low, high, reserve) = match *numbers?.as_slice() {
            [min, low, high] => (min, low, high, 0),
            [min, low, high, reserve] if several => (min, low, high, reserve),
            _ => return None,
        };
        let marks = Marks { min, low, high };
        Some(ZoneSpec {
            pages,
            marks,
            reserve,
        })
    };
    let zones: Option<Vec<ZoneSpec>> = text.split('/').map(zone).collect();
    zones.ok_or_else(|| {
        RunnerError::value(
            "watermarks",
            text,
            "three numbers of pages, MIN,LOW,HIGH, or PAGES:MIN,LOW,HIGH,RESERVE of each zone, lowest first, with a / between",
        )
    })
}

/// The same, as it was given.
pub fn show_zones(zones: &[ZoneSpec]) -> String {
    let show = |z: &ZoneSpec| {
        let Marks { min, low, high } = z.marks;
        match zones.len() {
            1 => format!("{min},{low},{high}"),
            _ => format!("{}:{min},{low},{high},{}", z.pages, z.reserve),
        }
    };
    zones.iter().map(show).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_shown() {
        for text in ["60,90,120", "9000:533,666,799,770/461:128,470,812,0"] {
            assert_eq!(show_zones(&parse_zones(text).unwrap()), text);
        }
        let short = parse_zones("5:1,2,3/7:4,5,6").unwrap();
        assert_eq!((short[1].pages, short[1].reserve), (7, 0));
        for text in [
            "10",
            "1,2,3,4",
            "1,2,3/4,5,6",
            "0:1,2,3/4:5,6,7",
            "5:1,2",
            "5:1,2,3/",
            "",
        ] {
            assert!(parse_zones(text).is_err(), "{text}");
        }
    }
}
