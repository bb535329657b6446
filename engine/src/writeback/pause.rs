//! How long a throttled dirtier sleeps at a time (`docs/rules/writeback.md#throttling`). Rates are pages per second,
//! times scheduler ticks.

use super::params::DirtyParams;
use crate::ids::Pages;

/// Below this a pause would be too short to be worth it, pages.
const MIN_PAUSE_PAGES: Pages = 32;

/// Longest useful pause, ticks: short enough that the wb does not run dry meanwhile.
pub fn max_pause(p: &DirtyParams, wb_dirty: Pages, bandwidth: Pages) -> u64 {
    let eighth = (1 + p.hz / 8).next_power_of_two();
    p.ticks(p.max_pause)
        .max(1)
        .min(1 + wb_dirty / (1 + bandwidth / eighth))
}

/// What a pause should be like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseTarget {
    /// Pauses shorter than this are skipped, ticks.
    pub min_pause: u64,
    /// Pages to dirty until the next look.
    pub pages: Pages,
}

/// Shortest useful pause and the pages to dirty between pauses, from the task's rate, the wb's
/// ratelimit and its bandwidth (pages per second).
pub fn pause_target(
    p: &DirtyParams,
    max_pause: u64,
    rate: Pages,
    ratelimit: Pages,
    bandwidth: Pages,
) -> PauseTarget {
    let log2 = |v: u64| v.max(1).ilog2();
    let pages_in = |rate: u64, t: u64| {
        (u128::from(rate) * u128::from(t) / u128::from(p.hz.next_power_of_two())) as u64
    };
    let slower = u64::from(log2(bandwidth).saturating_sub(log2(ratelimit)));
    let mut t = p.ticks(p.base_pause) + slower * p.ticks(p.pause_slope) / 1024;
    t = t.min(1 + max_pause / 2);
    let mut pages = pages_in(ratelimit, t);
    if pages < MIN_PAUSE_PAGES {
        t = max_pause;
        pages = pages_in(ratelimit, t);
        if pages > MIN_PAUSE_PAGES {
            pages = MIN_PAUSE_PAGES;
            t = p.hz * MIN_PAUSE_PAGES / ratelimit.max(1);
        }
    }
    let slept = u128::from(p.hz) * u128::from(pages) / (u128::from(rate) + 1);
    if slept > u128::from(max_pause) {
        t = max_pause;
        pages = pages_in(rate, t);
    }
    let min_pause = if pages >= MIN_PAUSE_PAGES {
        1 + t / 2
    } else {
        t
    };
    PauseTarget { min_pause, pages }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_pauses() {
        let p = DirtyParams::default();
        assert_eq!(max_pause(&p, 27_113, 25_600), 135);
        assert_eq!(max_pause(&p, 3000, 25_600), 15);
        let t = pause_target(&p, 135, 25_600, 25_600, 25_600);
        assert_eq!(
            t,
            PauseTarget {
                min_pause: 6,
                pages: 250
            }
        );
    }

    #[test]
    fn slow_tasks_sleep_long() {
        let p = DirtyParams::default();
        // 1/256 of the bandwidth: 10 + 8 * 9 = 88 ticks would make 8 pages; at 200 ticks 19.
        let t = pause_target(&p, 200, 100, 100, 25_600);
        assert_eq!(
            t,
            PauseTarget {
                min_pause: 200,
                pages: 19
            }
        );
        // 1000 pages a second: 10 + 4 * 9 = 50 ticks make 48 pages.
        let t = pause_target(&p, 200, 1000, 1000, 25_600);
        assert_eq!(t.pages, (10 + 5 * 10_000 / 1024) * 1000 / 1024);
    }
}
