//! What a journal begins with.

use coldset_engine::Switches;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// First line of a journal.
pub(crate) const MAGIC: &str = "coldset-journal 4";
/// Without the version.
pub(crate) const MAGIC_NAME: &str = "coldset-journal";
/// Window that a frame may ask for, as a power of two: as much as its operations take, unpacked.
const WINDOW_LOG: u32 = 26;

/// What a policy is made from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyConfig {
    pub(crate) switches: Switches,
    /// Pages that may be in memory.
    pub(crate) budget: u64,
    /// Swap slots; 0 = no swap.
    pub(crate) slots: u32,
}

/// First bytes of a journal that begins with `state`, or with an empty policy.
pub(super) fn header(config: &PolicyConfig, state: Option<&[u8]>) -> Vec<u8> {
    let mut text = format!(
        "{MAGIC}\nwritten-by {}\nbudget {}\nslots {}\n",
        env!("CARGO_PKG_VERSION"),
        config.budget,
        config.slots
    );
    for s in config.switches.describe() {
        text += &format!("switch {}={}\n", s.name, s.value);
    }
    if let Some(state) = state {
        text += &format!("state {}\n", state.len());
    }
    text.push('\n');
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(state.unwrap_or_default());
    bytes
}

/// True if the file begins as a journal does, of whatever version.
///
/// # Errors
/// It cannot be read at all.
pub fn is_journal(path: impl AsRef<Path>) -> io::Result<bool> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        // A pipe could not be read again.
        return Ok(false);
    }
    begins_as_journal(&file)
}

/// As [`is_journal`], of a regular file that has not been read.
pub(super) fn begins_as_journal(file: &File) -> io::Result<bool> {
    let mut head = Vec::new();
    let Ok(z) = decoder(BufReader::new(file)) else {
        return Ok(false);
    };
    let read = z.take(MAGIC_NAME.len() as u64).read_to_end(&mut head);
    Ok(read.is_ok() && head == MAGIC_NAME.as_bytes())
}

pub(crate) fn decoder<R: BufRead>(from: R) -> io::Result<zstd::Decoder<'static, R>> {
    let mut decoder = zstd::Decoder::with_buffer(from)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(decoder)
}
