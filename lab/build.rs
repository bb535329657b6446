//! Tells the crate a hash of the sources that decide results (`COLDSET_SOURCES`): stored results of a
//! sweep belong to the sources that computed them. Outside the repository there is only this crate;
//! there the versions of the others stand for their sources.

use std::path::{Path, PathBuf};

/// FNV-1a, 128 bits.
const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}

fn main() {
    let manifest = std::fs::read_to_string("Cargo.toml").expect("the manifest");
    let ours = manifest.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("coldset-")?.split_once('.')?;
        Some(PathBuf::from(format!("../{name}/src")))
    });
    let mut all = Vec::new();
    for folder in ours.chain(["src".into()]).filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        files(&folder, &mut all);
    }
    all.sort();
    let mut hash = OFFSET;
    let mut add = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    };
    for path in all {
        add(path.to_string_lossy().as_bytes());
        add(&std::fs::read(&path).expect("a source file"));
    }
    println!("cargo::rustc-env=COLDSET_SOURCES={hash:032x}");
}
