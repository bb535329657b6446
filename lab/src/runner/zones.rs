//! Zones of a machine in words: `PAGES:MIN,LOW,HIGH,RESERVE,BATCH` of each, lowest first, or `MIN,LOW,HIGH,RESERVE,BATCH` of the
//! only one, in both without what is as usual at the end. `/` is between zones of a node, `//` between nodes.

use super::RunnerError;
use coldset_machine::{Marks, ZoneSpec};

/// Of `--watermarks`.
///
/// # Errors
/// Not of that form.
pub fn parse_zones(text: &str) -> Result<Vec<ZoneSpec>, RunnerError> {
    let several = text.contains(['/', ':']);
    let zone = |(node, text): (u32, &str)| {
        let (pages, marks) = match text.split_once(':') {
            Some((pages, marks)) => (pages.trim().parse().ok().filter(|n| *n > 0)?, marks),
            None if several => return None,
            None => (1, text),
        };
        let numbers: Option<Vec<u64>> = marks.split(',').map(|n| n.trim().parse().ok()).collect();
        let (marks, reserve, batch) = match *numbers?.as_slice() {
            [min, low, high] => (Marks { min, low, high }, 0, None),
            [min, low, high, reserve] => (Marks { min, low, high }, reserve, None),
            [min, low, high, reserve, batch] => (Marks { min, low, high }, reserve, Some(batch)),
            _ => return None,
        };
        // One zone holds nothing back from a higher one.
        if !several && reserve > 0 {
            return None;
        }
        Some(ZoneSpec {
            node,
            pages,
            marks,
            reserve,
            batch,
        })
    };
    let of_nodes = (0..).zip(text.split("//"));
    let texts = of_nodes.flat_map(|(node, text)| text.split('/').map(move |text| (node, text)));
    let zones: Option<Vec<ZoneSpec>> = texts.map(zone).collect();
    zones.ok_or_else(|| {
        RunnerError::value(
            "watermarks",
            text,
            "three numbers of pages, MIN,LOW,HIGH, or PAGES:MIN,LOW,HIGH,RESERVE of each zone, lowest first, with a / between, and // between nodes; \
             a fifth number is the batch of the lists of CPUs",
        )
    })
}

/// The same, as it was given.
pub fn show_zones(zones: &[ZoneSpec]) -> String {
    let show = |z: &ZoneSpec| {
        let Marks { min, low, high } = z.marks;
        let batch = z.batch.map(|n| format!(",{n}")).unwrap_or_default();
        match (zones.len(), z.batch) {
            (1, None) => format!("{min},{low},{high}"),
            (1, _) => format!("{min},{low},{high},{}{batch}", z.reserve),
            _ => format!("{}:{min},{low},{high},{}{batch}", z.pages, z.reserve),
        }
    };
    let of_node = |zones: &[ZoneSpec]| zones.iter().map(show).collect::<Vec<_>>().join("/");
    let nodes = zones.chunk_by(|a, b| a.node == b.node);
    nodes.map(of_node).collect::<Vec<_>>().join("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_shown() {
        for text in [
            "60,90,120",
            "60,90,120,0,31",
            "9000:533,666,799,770,31/461:128,470,812,0",
            "9000:533,666,799,770/461:128,470,812,0",
            "9000:533,666,799,770/461:128,470,812,0//8000:500,600,700,0",
        ] {
            assert_eq!(show_zones(&parse_zones(text).unwrap()), text);
        }
        let short = parse_zones("5:1,2,3/7:4,5,6").unwrap();
        assert_eq!((short[1].pages, short[1].reserve), (7, 0));
        let nodes = parse_zones("5:1,2,3/7:4,5,6//8:4,5,6").unwrap();
        assert_eq!(nodes.iter().map(|z| z.node).collect::<Vec<_>>(), [0, 0, 1]);
        for text in [
            "10",
            "1,2,3,4",
            "1,2,3,0,31,5",
            "1,2,3/4,5,6",
            "0:1,2,3/4:5,6,7",
            "5:1,2",
            "5:1,2,3/",
            "5:1,2,3///5:1,2,3",
            "",
        ] {
            assert!(parse_zones(text).is_err(), "{text}");
        }
    }
}
