//! What a caller can do wrong with the memcg tree.

use crate::ids::MemcgId;

/// Errors of the memcg tree and of its control files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemcgError {
    /// A field of the configuration is out of range.
    #[error("configuration: {field} is {value}; use {allowed}")]
    Config {
        /// Name of the field.
        field: &'static str,
        /// The value that was refused.
        value: u64,
        /// What is accepted, in words.
        allowed: &'static str,
    },
    /// No memcg has this id (never created, or released).
    #[error("no memcg has id {}: it was never created or is released", .0 .0)]
    Unknown(MemcgId),
    /// The operation is not defined for the root memcg.
    #[error("the root memcg cannot be {0}; name a memcg below it")]
    Root(&'static str),
    /// The memcg is offline already.
    #[error("memcg {} is offline; use an online memcg", .0 .0)]
    Offline(MemcgId),
    /// Online children keep a memcg from being taken offline.
    #[error("memcg {} has online children; take them offline first", .0 .0)]
    HasChildren(MemcgId),
    /// All 65535 ids for shadows and swap slots are in use.
    #[error(
        "all 65535 memcg ids are in use by online memcgs and by swap slots of removed ones; \
         remove memcgs or free swap"
    )]
    CssIdsExhausted,
    /// Something still holds the memcg.
    #[error("memcg {} cannot be released: {what}", .id.0)]
    Busy {
        /// Id that names no such memcg.
        id: MemcgId,
        /// What holds it.
        what: &'static str,
    },
    /// Text written to a control file that cannot be parsed.
    #[error("{file}: cannot read {text:?}; write {expected}")]
    Parse {
        /// Name of the control file, such as memory.max.
        file: &'static str,
        /// What was written to it.
        text: String,
        /// What is accepted.
        expected: &'static str,
    },
}
