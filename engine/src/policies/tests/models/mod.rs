//! The policies in a few lines each, without any list but a deque, compared read by read.

mod learned;
mod queues;
mod stacks;

use crate::policies::ListKind;
use crate::testing::Cache;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Front = newest.
type Deque = VecDeque<u32>;

fn drop_from(q: &mut Deque, page: u32) -> bool {
    let at = q.iter().position(|&p| p == page);
    at.map(|at| q.remove(at)).is_some()
}

/// Which reads miss, given what a read of a page does.
fn run(pages: &[u32], mut read: impl FnMut(u32) -> bool) -> Vec<bool> {
    pages.iter().map(|&p| !read(p)).collect()
}

/// Which reads miss in a cache of so many pages.
type Model = fn(&[u32], usize) -> Vec<bool>;

/// A policy without a model is tested by the battery alone.
const MODELS: &[(ListKind, Model)] = &[
    (ListKind::Fifo, queues::fifo),
    (ListKind::Lru, queues::lru),
    (ListKind::Clock, queues::clock),
    (ListKind::TwoQ, queues::twoq),
    (ListKind::Slru, queues::slru),
    (ListKind::Lirs, stacks::lirs),
    (ListKind::Arc, queues::arc),
    (ListKind::ClockPro, stacks::clockpro),
    (ListKind::WTinyLfu, learned::wtinylfu),
    (ListKind::Lhd, learned::lhd),
    (ListKind::S3Fifo, queues::s3fifo),
    (ListKind::Sieve, queues::sieve),
];

fn pages() -> impl Strategy<Value = Vec<u32>> {
    let page = prop_oneof![4 => 0u32..10, 2 => 0u32..30, 1 => 0u32..100];
    let part = prop_oneof![
        3 => prop::collection::vec(page, 1..80),
        1 => (0u32..100, 1u32..40).prop_map(|(from, n)| (from..from + n).collect()),
    ];
    prop::collection::vec(part, 1..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_read_is_as_in_the_model(capacity in 1usize..40, pages in pages()) {
        for (kind, model) in MODELS {
            let mut cache = Cache::new(*kind, capacity);
            prop_assert_eq!(cache.misses(&pages), model(&pages, capacity), "{}", kind.name());
        }
    }
}
