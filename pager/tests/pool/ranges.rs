//! Which pages a range of bytes is about: those it touches, those that lie in it as a whole, and none if it is empty.

use crate::common::*;
use coldset_pager::{Advice, FaultMode, PoolConfig, Region, SwapConfig};

const PAGES: usize = 8;

/// In every mode there is, of anonymous memory and of a file: a region whose last page is a part of one, all of it in
/// memory and filled with 1. The other argument is what a page has that has been let go.
fn regions(test: impl Fn(&Region, u8)) {
    let _others = together();
    let path = temp("ranges");
    let len = PAGES * PAGE - 100;
    for mode in [FaultMode::Explicit, FaultMode::Sigbus] {
        let config = PoolConfig::new(2 * MIB).swap(SwapConfig::lz4(16 * MIB));
        // Nothing is read ahead but what is asked for.
        let config = config.fault_mode(mode).background(false).read_ahead(1);
        let Some(pool) = faulting(config) else {
            continue;
        };
        std::fs::write(&path, vec![0; len]).unwrap();
        let all = [pool.anonymous(len), pool.file(&path)];
        for (kept, region) in [0, 1].into_iter().zip(all) {
            let mut region = region.unwrap();
            if region.is_explicit() {
                (0..PAGES).for_each(|p| region.fix_mut(p).unwrap().fill(1));
            } else {
                region.bytes_mut().fill(1);
            }
            test(&region, kept);
            pool.check();
        }
    }
    std::fs::remove_file(path).unwrap();
}

/// Pages in memory, one by one.
fn there(region: &Region) -> [usize; PAGES] {
    let len = region.len();
    std::array::from_fn(|p| {
        let page = p * PAGE..((p + 1) * PAGE).min(len);
        region.resident(page).unwrap()
    })
}

fn first_byte(region: &Region, page: usize) -> u8 {
    match region.is_explicit() {
        true => region.fix(page).unwrap()[0],
        false => region.bytes()[page * PAGE],
    }
}

#[test]
fn an_empty_range_is_about_no_page() {
    regions(|region, _| {
        let len = region.len();
        let empty = [0, 5, PAGE, PAGE + 5, len - 1, len];
        for at in empty {
            assert_eq!(region.resident(at..at).unwrap(), 0);
            region.sync(at..at).unwrap();
            region.advise(at..at, Advice::DontNeed).unwrap();
        }
        assert_eq!(there(region), [1; PAGES], "nothing has gone");
        region.advise(0..len, Advice::DontNeed).unwrap();
        assert_eq!(there(region), [0; PAGES]);
        for at in empty {
            region.advise(at..at, Advice::WillNeed).unwrap();
            for write in [false, true] {
                let pin = region.pin(at..at, write).unwrap();
                assert!(pin.range().is_empty(), "{:?}", pin.range());
                assert!(pin.range().start <= at, "{:?}", pin.range());
            }
        }
        assert_eq!(there(region), [0; PAGES], "nothing has come");
        assert_eq!(region.pin(5..6, false).unwrap().range(), 0..PAGE);
    });
}

#[test]
fn dont_need_is_about_whole_pages() {
    regions(|region, kept| {
        let len = region.len();
        // Within a page, over the border of two: no page lies in it as a whole.
        for range in [
            1..PAGE,
            0..PAGE - 1,
            5..6,
            PAGE - 1..PAGE + 1,
            1..2 * PAGE - 1,
        ] {
            region.advise(range, Advice::DontNeed).unwrap();
        }
        assert_eq!(there(region), [1; PAGES]);
        region.advise(1..3 * PAGE + 1, Advice::DontNeed).unwrap();
        assert_eq!(there(region), [1, 0, 0, 1, 1, 1, 1, 1]);
        region
            .advise(5 * PAGE + 1..len - 1, Advice::DontNeed)
            .unwrap();
        assert_eq!(there(region), [1, 0, 0, 1, 1, 1, 0, 1]);
        // The last page is whole to the end of the region.
        region.advise(len - 1..len, Advice::DontNeed).unwrap();
        assert_eq!(there(region), [1, 0, 0, 1, 1, 1, 0, 1], "begins in it");
        region
            .advise((PAGES - 1) * PAGE..len, Advice::DontNeed)
            .unwrap();
        assert_eq!(there(region), [1, 0, 0, 1, 1, 1, 0, 0]);
        // Of anonymous memory the contents are gone, of a file not.
        let first: [u8; PAGES] = std::array::from_fn(|p| first_byte(region, p));
        assert_eq!(first, [1, kept, kept, 1, 1, 1, kept, kept]);
    });
}

/// What is brought in is every page of which a part is asked for.
#[test]
fn will_need_and_pins_are_about_every_page_touched() {
    regions(|region, _| {
        region.advise(0..region.len(), Advice::DontNeed).unwrap();
        region.advise(PAGE - 1..PAGE + 1, Advice::WillNeed).unwrap();
        assert_eq!(there(region), [1, 1, 0, 0, 0, 0, 0, 0]);
        let pin = region.pin(4 * PAGE - 1..4 * PAGE + 1, false).unwrap();
        assert_eq!(pin.range(), 3 * PAGE..5 * PAGE);
        assert_eq!(there(region), [1, 1, 0, 1, 1, 0, 0, 0]);
        assert_eq!(region.resident(PAGE - 1..4 * PAGE + 1).unwrap(), 4);
    });
}
