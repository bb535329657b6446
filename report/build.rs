//! Tells the crate a hash of its own sources (`SOURCES`): stored results of a sweep belong to the
//! sources that computed them.

use std::path::{Path, PathBuf};

/// FNV-1a, 128 bits.
const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder src") {
        let path = entry.expect("an entry of src").path();
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut all = Vec::new();
    files(Path::new("src"), &mut all);
    all.sort();
    let mut hash = OFFSET;
    let mut add = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    };
    for path in all {
        add(path.to_string_lossy().as_bytes());
        add(&std::fs::read(&path).expect("a file of src"));
    }
    println!("cargo::rustc-env=COLDSET_SOURCES={hash:032x}");
}
