//! A region: a range of addresses whose pages come and go.
//!
//! | file | what |
//! |---|---|
//! | `area.rs` | the region itself: its memory, words, book and file |
//! | `torn.rs` | regions that the program has changed by system calls |

pub(crate) mod area;
pub(crate) mod torn;
