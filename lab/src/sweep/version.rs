//! Which program computed a result.

use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Version of the package and a hash of the sources of engine, machine, traces, report and lab, for example
/// `0.1.0+3f9a...`. A change of any of them is another version: whether it changes results
/// only a run would tell.
#[must_use]
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let sources = [
            coldset_engine::VERSION,
            coldset_machine::VERSION,
            coldset_traces::VERSION,
            coldset_report::VERSION,
            crate::SOURCES,
        ];
        let digest = Sha256::digest(sources.join(" "));
        format!("{}+{}", env!("CARGO_PKG_VERSION"), hex(&digest[..8]))
    })
}
