//! Modules of a kernel: found, unpacked, in the order of their dependencies.

use crate::GuestError;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// All modules of a kernel, by name.
#[derive(Debug)]
pub struct Modules {
    dir: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

/// A module, unpacked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Name, words joined by underscores.
    pub name: String,
    /// The ELF file.
    pub bytes: Vec<u8>,
}

/// What a guest of ours needs beside its file system: name, option of the kernel's configuration, and whether it can do without.
pub const NEEDED: &[(&str, &str, bool)] = &[
    ("virtio_pci", "CONFIG_VIRTIO_PCI", true),
    ("virtio_blk", "CONFIG_VIRTIO_BLK", true),
    ("crc32c_intel", "", false),
    ("crc32c_generic", "", false),
];
/// For swap on zram, and its compressors.
pub const ZRAM: &[(&str, &str, bool)] = &[
    ("zsmalloc", "CONFIG_ZSMALLOC", false),
    ("lz4_compress", "", false),
    ("lz4hc_compress", "", false),
    ("lzo_rle", "", false),
    ("zram", "CONFIG_ZRAM", true),
];
/// For a disk inside the guest.
pub const DISK_INSIDE: &[(&str, &str, bool)] = &[
    ("configfs", "CONFIG_CONFIGFS_FS", false),
    ("null_blk", "CONFIG_BLK_DEV_NULL_BLK", true),
];

impl Modules {
    /// Those below `dir`, a `/lib/modules/VERSION`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn of(dir: &Path) -> Result<Self, GuestError> {
        let mut files = BTreeMap::new();
        let mut folders = vec![dir.to_owned()];
        while let Some(folder) = folders.pop() {
            let reading = || GuestError::io(folder.display().to_string());
            for entry in fs::read_dir(&folder).map_err(reading())? {
                let entry = entry.map_err(reading())?;
                let path = entry.path();
                match entry.file_type().map_err(reading())?.is_dir() {
                    true => folders.push(path),
                    false => {
                        if let Some(name) = module_name(&path) {
                            files.insert(name, path);
                        }
                    }
                }
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            files,
        })
    }

    /// These with what they depend on, in an order in which they can be loaded.
    ///
    /// # Errors
    /// One that is needed is missing, or cannot be unpacked.
    pub fn load_order(
        &self,
        wanted: &[(&'static str, &'static str, bool)],
    ) -> Result<Vec<Module>, GuestError> {
        // Some packages have no such list; what is missing then is missed in the guest.
        let list = fs::read_to_string(self.dir.join("modules.builtin")).ok();
        let built_in = |name: &str| {
            let named = |line| module_name(Path::new(line)).as_deref() == Some(name);
            list.as_ref().is_none_or(|list| list.lines().any(named))
        };
        let mut order = Vec::new();
        for &(name, config, needed) in wanted {
            match self.files.contains_key(name) {
                true => self.add(name, &mut order)?,
                false if needed && !built_in(name) => {
                    return Err(GuestError::NoModule {
                        name,
                        dir: self.dir.display().to_string(),
                        config,
                    })
                }
                false => {}
            }
        }
        Ok(order)
    }

    fn add(&self, name: &str, order: &mut Vec<Module>) -> Result<(), GuestError> {
        let Some(path) = self.files.get(name) else {
            // Built in.
            return Ok(());
        };
        if order.iter().any(|m| m.name == name) {
            return Ok(());
        }
        let bytes = unpack(path).map_err(GuestError::io(path.display().to_string()))?;
        for other in depends(&bytes) {
            self.add(&other, order)?;
        }
        order.push(Module {
            name: name.to_owned(),
            bytes,
        });
        Ok(())
    }
}

/// `.../zram.ko.xz` is zram; names use dashes and underscores for the same.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, rest) = file.split_once(".ko")?;
    let packed = ["", ".xz", ".zst", ".gz"].contains(&rest);
    packed.then(|| name.replace('-', "_"))
}

fn unpack(path: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    let mut out = Vec::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => liblzma::read::XzDecoder::new(&*bytes).read_to_end(&mut out)?,
        Some("zst") => zstd::stream::read::Decoder::new(&*bytes)?.read_to_end(&mut out)?,
        Some("gz") => flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut out)?,
        _ => return Ok(bytes),
    };
    Ok(out)
}

/// What a module says of itself: `depends=a,b`, between zero bytes.
fn depends(bytes: &[u8]) -> Vec<String> {
    let mut fields = bytes.split(|&b| b == 0);
    let field = fields.find_map(|f| f.strip_prefix(b"depends="));
    let text = String::from_utf8_lossy(field.unwrap_or_default()).into_owned();
    let names = text.split(',').filter(|n| !n.is_empty());
    names.map(|n| n.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_depend_on() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, depends: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0");
            fs::write(dir.path().join(name), text).unwrap();
        };
        write("ext4.ko", "jbd2,mb-cache");
        write("mb-cache.ko", "");
        write("jbd2.ko", "crc16");
        fs::write(dir.path().join("modules.builtin"), "kernel/virtio-pci.ko\n").unwrap();
        let modules = Modules::of(dir.path()).unwrap();
        let wanted = [
            ("virtio_pci", "A", true),
            ("ext4", "B", true),
            ("other", "", false),
        ];
        let order = modules.load_order(&wanted).unwrap();
        let names: Vec<&str> = order.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["jbd2", "mb_cache", "ext4"]);
        let error = modules
            .load_order(&[("zram", "CONFIG_ZRAM", true)])
            .unwrap_err();
        assert!(error.to_string().contains("CONFIG_ZRAM"), "{error}");
    }
}
