//! What can be wrong with a trace. Every message is one line that names the file, the
//! place in it, what was expected and what to do.

use std::io;

use super::problem::{BadLine, Position, Problem};

/// A trace that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file is missing or may not be read.
    #[error("{name}: cannot open the trace: {source}; check the path and its permissions")]
    Open {
        /// File as given by the user.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file that is read again has become shorter.
    #[error(
        "{name}: it had {accesses} accesses when it was read first and has {now} now; \
         leave it alone while it is replayed"
    )]
    Changed {
        /// File as given by the user.
        name: String,
        /// Accesses it had.
        accesses: u64,
        /// Accesses it has.
        now: u64,
    },
    /// The path is a folder.
    #[error("{name}: this is a folder, not a trace; name one file in it")]
    Folder {
        /// Folder as given by the user.
        name: String,
    },
    /// Reading failed: an input/output error, or packed data that are damaged or cut short.
    #[error(
        "{name}: cannot read {packing} data beyond unpacked byte {offset}: {source}; \
         the file is damaged or cut short, copy it again"
    )]
    Read {
        /// File as given by the user.
        name: String,
        /// `plain`, `gzip`, `zstd` or `xz`.
        packing: &'static str,
        /// Bytes, after unpacking, that were read without error.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Unpacking takes more memory than any trace should.
    #[error(
        "{name}: {packing} data that need more than 64 MiB of memory to unpack; unpack it first"
    )]
    Window {
        /// File as given by the user.
        name: String,
        /// `zstd` or `xz`.
        packing: &'static str,
    },
    /// A packed file has more in it than a trace of its size.
    #[error(
        "{name}: {packed} bytes of {packing} unpack to {unpacked} and more, as damaged or hostile \
         files do; if it is a trace that repeats itself, unpack it first"
    )]
    Unpacks {
        /// File as given by the user.
        name: String,
        /// `gzip`, `zstd` or `xz`.
        packing: &'static str,
        /// Bytes of it that were read.
        packed: u64,
        /// Bytes that they hold.
        unpacked: u64,
    },
    /// A line or a record is not what the format demands.
    #[error("{name}, {position}: {problem}")]
    Malformed {
        /// File as given by the user.
        name: String,
        /// Line or record.
        position: Position,
        /// What was found, what was expected, what to do.
        problem: Problem,
    },
    /// The trace holds no reference at all.
    #[error("{name}: the trace holds no reference; record it again, or name its true format (read as {format})")]
    Empty {
        /// File as given by the user.
        name: String,
        /// Format that it was read as.
        format: &'static str,
    },
    /// More lines are bad than good: the file is of another format, or damaged.
    #[error(
        "{name}: {bad} of {lines} lines are bad, read as {format} ({how}); the first is line {}: {}; \
         if the file is of another format, name it with --format: {known}",
        .first.line, .first.problem
    )]
    MostlyBad {
        /// File as given by the user.
        name: String,
        /// Format that it was read as.
        format: &'static str,
        /// How the format was found.
        how: &'static str,
        /// Lines that cannot be read.
        bad: u64,
        /// All lines that are not empty.
        lines: u64,
        /// The first bad one.
        first: Box<BadLine>,
        /// Names of the known formats.
        known: String,
    },
    /// What a recorder keeps for itself; its text is wanted.
    #[error("{name}: this is {what}, not text; print it first: {remedy}")]
    Recording {
        /// File as given by the user.
        name: String,
        /// What it is.
        what: &'static str,
        /// Command that prints it.
        remedy: &'static str,
    },
    /// The format was neither given nor recognised.
    #[error(
        "{name}: the format is not recognised from the name or the first bytes; name it: {known}"
    )]
    Unrecognised {
        /// File as given by the user.
        name: String,
        /// Names of the known formats.
        known: String,
    },
    /// An option that makes no sense.
    #[error("trace option {option} = {found}: expected {expected}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The value given.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// A format name that does not exist.
    #[error("there is no trace format '{found}' (known: {known}){hint}")]
    NoSuchFormat {
        /// Name as given by the user.
        found: String,
        /// See [`coldset_nearest::did_you_mean`].
        hint: String,
        /// Names of the known formats.
        known: String,
    },
    /// The trace cannot be written.
    #[error("{name}: cannot write the trace: {source}; check the folder, its permissions and the free space")]
    Write {
        /// File as given by the user.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}
