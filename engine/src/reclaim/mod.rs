//! Reclaim as a task that is stepped: each step does bounded work on the engine's own
//! data and returns the next thing that must happen in the world.
//!
//! | file | what |
//! |---|---|
//! | `work.rs` | the requests to the host and its answers |
//! | `task.rs` | entry points and the outer loops: limit, direct, kswapd, proactive |
//! | `node.rs` | one node visit: memcgs in turn, throttling decisions |
//! | `gen_root.rs` | root reclaim of multi-gen memcgs |
//! | `order/` | which memcg is next, and which are protected: walk, memcg LRU, heat, wheel |
//! | `lruvec_loop.rs` | one lruvec, by its policy: |
//! | `before.rs`, `after.rs` | multi-gen before and since the series; `faulty_loop.rs` puts faults in |
//! | `eviction.rs` | one batch of a multi-gen lruvec |
//! | `classic_loop.rs`, `list_loop.rs` | active and inactive lists; policies of the literature |
//! | `request.rs`, `scan_protection.rs` | what a request means for one lruvec; what memory.low leaves of its scan budget |
//! | (scan budget) | `whole_budget` (`after.rs`), `round` (`before.rs`), `get_scan_count` (`classic/balance.rs`) |
//! | `shrink_list.rs` | a list of isolated folios on its way through |
//! | `folio_path.rs` | one of them up to the decision to write it, steps 1 to 14 |
//! | `split.rs` | large folios that cannot leave memory as a whole |
//! | `pageout.rs` | writing one folio, freeing, the end of a list |
//! | `pageout_batch.rs` | dirty folios that share one TLB flush |
//! | `pageout_task.rs` | reclaim of folios that the host names |
//! | `debug.rs` | aging and eviction by command |
//! | `scan_control.rs`, `cx.rs` | the request; what a step works with |

mod after;
mod before;
pub mod classic_loop;
pub(crate) mod cx;
pub mod debug;
mod eviction;
mod faulty_loop;
mod folio_path;
pub mod gen_root;
pub mod kswapd;
mod list_loop;
pub(crate) mod lruvec_loop;
pub mod node;
pub mod order;
mod pageout;
mod pageout_batch;
mod pageout_task;
mod put_back;
pub(crate) mod request;
pub mod scan_control;
mod scan_protection;
pub mod shrink_list;
mod split;
pub mod task;
pub mod work;

#[cfg(test)]
mod tests;

pub use debug::{DebugCommand, DebugError};
pub use pageout_task::PageoutTask;
pub use scan_control::{ReclaimKind, ScanControl, DEF_PRIORITY, SWAP_CLUSTER_MAX};
pub use task::{Outcome, ReclaimTask};
pub use work::{Answer, Decision, Freed, References, Work, Written};
