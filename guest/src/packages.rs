//! Debian's kernels: which there are, fetched into a folder of ours and unpacked there. The machine's package lists
//! stay as they are, and nothing is installed.

use crate::GuestError;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where packages and their lists are kept.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// A kernel on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Version, or file name.
    pub name: String,
    /// The bootable file.
    pub image: PathBuf,
    /// Its `/lib/modules/VERSION`.
    pub modules: PathBuf,
}

/// Releases that have kernels.
const SUITES: [&str; 4] = ["bookworm-backports", "trixie", "trixie-backports", "sid"];
/// Ends the name of a kernel with everything Debian builds: 6.18.15+deb13-amd64.
const WHOLE: &str = "-amd64";
/// Ends the packages of the small kernels for virtual machines, which go by their versions alone: 6.18.15+deb13.
const SMALL: &str = "-cloud-amd64";
/// A kernel is one package or, of late, several.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

impl Cache {
    /// `COLDSET_CACHE`, or the user's folder for such things.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open() -> Result<Self, GuestError> {
        let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
        let of = |name| env::var_os(name).map(PathBuf::from);
        let base = of("COLDSET_CACHE")
            .or_else(|| Some(of("XDG_CACHE_HOME").or_else(home)?.join("coldset")))
            .unwrap_or_else(|| env::temp_dir().join("coldset"));
        let dir = base.join("kernels");
        for sub in ["lists/partial", "cache/archives/partial", "packages"] {
            let path = dir.join(sub);
            fs::create_dir_all(&path).map_err(GuestError::io(format!("{}", path.display())))?;
        }
        Ok(Self { dir })
    }

    /// Names of the kernels that are to be had, the newest first: versions, and `VERSION-amd64`.
    ///
    /// # Errors
    /// No apt, no network.
    pub fn list(&self) -> Result<Vec<String>, GuestError> {
        let lock = self.lock()?;
        self.known(&lock)
    }

    /// Others that fetch, or renew the lists, wait until this is dropped.
    fn lock(&self) -> Result<File, GuestError> {
        let path = self.dir.join("lock");
        let lock = File::create(&path).and_then(|file| file.lock().map(|()| file));
        lock.map_err(GuestError::io(path.display().to_string()))
    }

    fn known(&self, _lock: &File) -> Result<Vec<String>, GuestError> {
        self.update()?;
        let names = self.apt("apt-cache", &["pkgnames", PARTS[0]])?;
        let mut kernels: Vec<String> = names.lines().filter_map(of_package).collect();
        kernels.sort_by_key(|v| (std::cmp::Reverse(numbers(v)), v.len()));
        kernels.dedup();
        Ok(kernels)
    }

    /// A kernel named `debian:VERSION`: the newest whose version begins so. It is fetched if it is not here.
    ///
    /// # Errors
    /// There is none, or it cannot be fetched.
    pub fn get(&self, wanted: &str) -> Result<Kernel, GuestError> {
        if let Some(kernel) = self.here(wanted) {
            return Ok(kernel);
        }
        let lock = self.lock()?;
        // Somebody else may have fetched it meanwhile.
        if let Some(kernel) = self.here(wanted) {
            return Ok(kernel);
        }
        let all = self.known(&lock)?;
        let Some(version) = all.iter().find(|v| begins(v, wanted)) else {
            let have = match all.as_slice() {
                [] => "none are to be had".to_owned(),
                all => format!("there are {}", all.join(", ")),
            };
            let wanted = format!("debian:{wanted}");
            return Err(GuestError::NoKernel { wanted, have });
        };
        self.fetch(version)?;
        self.here(version).ok_or_else(|| GuestError::NoKernel {
            wanted: format!("debian:{wanted}"),
            have: format!("the packages of {version} have no image"),
        })
    }

    /// The newest that is here already.
    pub fn here(&self, wanted: &str) -> Option<Kernel> {
        let folders = fs::read_dir(self.dir.join("packages")).ok()?.flatten();
        let mut names: Vec<String> = folders
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| begins(name, wanted))
            .collect();
        names.sort_by_key(|v| numbers(v));
        let kernels = names.iter().rev();
        kernels
            .filter_map(|name| unpacked(&self.dir.join("packages").join(name), name))
            .next()
    }

    fn fetch(&self, version: &str) -> Result<(), GuestError> {
        let failed = |dir: &Path| GuestError::io(dir.display().to_string());
        let partial = self.dir.join("packages").join(format!(".{version}"));
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial).map_err(failed(&partial))?;
        let known = self.apt("apt-cache", &["pkgnames", "linux-"])?;
        for part in PARTS {
            let package = match version.ends_with(WHOLE) {
                true => format!("{part}{version}"),
                false => format!("{part}{version}{SMALL}"),
            };
            if known.lines().any(|name| name == package) {
                let mut command = self.command("apt-get");
                command
                    .current_dir(&partial)
                    .args(["download", "-q", &package]);
                run(command, "apt-get", "apt")?;
            }
        }
        for entry in fs::read_dir(&partial).map_err(failed(&partial))?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "deb") {
                let mut command = Command::new("dpkg");
                command.arg("-x").arg(&path).arg(&partial);
                run(command, "dpkg", "dpkg")?;
                let _ = fs::remove_file(&path);
            }
        }
        let done = self.dir.join("packages").join(version);
        fs::rename(&partial, &done).map_err(failed(&done))
    }

    /// Lists of packages, of a day at most.
    fn update(&self) -> Result<(), GuestError> {
        let stamp = self.dir.join("updated");
        let fresh = fs::metadata(&stamp).and_then(|m| m.modified()).ok();
        let day = std::time::Duration::from_secs(24 * 3600);
        if fresh
            .and_then(|t| t.elapsed().ok())
            .is_some_and(|age| age < day)
        {
            return Ok(());
        }
        let uri = mirror();
        let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let line = |suite: &str| format!("deb [signed-by={key}] {uri} {suite} main\n");
        let lines: String = SUITES.iter().map(|s| line(s)).collect();
        let list = self.dir.join("sources.list");
        fs::write(&list, lines).map_err(GuestError::io(list.display().to_string()))?;
        self.apt("apt-get", &["update", "-q"])?;
        fs::write(&stamp, "").map_err(GuestError::io(stamp.display().to_string()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = |name: &str| self.dir.join(name).display().to_string();
        for (option, value) in [
            ("Dir::Etc::sourcelist", path("sources.list")),
            ("Dir::Etc::sourceparts", "-".into()),
            ("Dir::State::lists", path("lists")),
            ("Dir::Cache", path("cache")),
            ("APT::Architecture", "amd64".into()),
        ] {
            command.arg("-o").arg(format!("{option}={value}"));
        }
        command
    }

    fn apt(&self, program: &'static str, arguments: &[&str]) -> Result<String, GuestError> {
        let mut command = self.command(program);
        command.args(arguments);
        run(command, program, "apt")
    }
}

/// The mirror the machine uses.
fn mirror() -> String {
    let mut texts = Vec::new();
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        texts.extend(
            folder
                .flatten()
                .filter_map(|e| fs::read_to_string(e.path()).ok()),
        );
    }
    texts.extend(fs::read_to_string("/etc/apt/sources.list"));
    let words = texts.iter().flat_map(|t| t.split_whitespace());
    let mut mirrors = words.filter(|w| {
        let w = w.trim_end_matches('/');
        w.starts_with("http") && w.ends_with("/debian") && !w.contains("security")
    });
    mirrors
        .next()
        .unwrap_or("http://deb.debian.org/debian")
        .to_owned()
}

/// Runs a program; what it wrote.
pub(crate) fn run(
    mut command: Command,
    program: &'static str,
    package: &'static str,
) -> Result<String, GuestError> {
    let out = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => GuestError::Program { program, package },
        _ => GuestError::io(program)(e),
    })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.lines().rev().find(|l| !l.trim().is_empty());
    Err(GuestError::Failed {
        program: program.into(),
        said: said.map_or_else(|| out.status.to_string(), |l| l.trim().to_owned()),
    })
}

/// The kernel in an unpacked package, old or new.
fn unpacked(dir: &Path, name: &str) -> Option<Kernel> {
    let modules = ["usr/lib/modules", "lib/modules"].iter().find_map(|sub| {
        let mut entries = fs::read_dir(dir.join(sub)).ok()?.flatten();
        entries.next().map(|e| e.path())
    })?;
    let version = modules.file_name()?.to_str()?.to_owned();
    let places = [
        modules.join("vmlinuz"),
        dir.join(format!("boot/vmlinuz-{version}")),
    ];
    let image = places.into_iter().find(|p| p.is_file())?;
    Some(Kernel {
        name: name.to_owned(),
        image,
        modules,
    })
}

/// The kernel whose image is in this package.
fn of_package(name: &str) -> Option<String> {
    let name = name.strip_prefix(PARTS[0])?;
    let (version, end) = match name.strip_suffix(SMALL) {
        Some(version) => (version, ""),
        None => (name.strip_suffix(WHOLE)?, WHOLE),
    };
    // "7.2.12+deb14": released; "7.3~rc2" is, too. Real-time and other builds have one more word.
    let plain = version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains('-');
    plain.then(|| format!("{version}{end}"))
}

/// 7.2 begins 7.2.12 and 7.2~rc1, and not 7.20; 7.2-amd64 begins 7.2.12-amd64, and 7.2 does not.
fn begins(kernel: &str, wanted: &str) -> bool {
    let parts = |name| match str::strip_suffix(name, WHOLE) {
        Some(version) => (version, true),
        None => (name, false),
    };
    let ((version, whole), (wanted, wants_whole)) = (parts(kernel), parts(wanted));
    let rest = version.strip_prefix(wanted);
    whole == wants_whole && rest.is_some_and(|r| !r.starts_with(|c: char| c.is_ascii_digit()))
}

/// The numbers of a version, to compare by; a candidate is older than the release.
fn numbers(version: &str) -> Vec<i64> {
    let mut out = Vec::new();
    for part in version.split(['.', '+', '-']) {
        let (number, candidate) = match part.split_once("~rc") {
            Some((number, rc)) => (number, rc.parse().unwrap_or(0) - 1000),
            None => (part, 0),
        };
        let digits: String = number.chars().filter(char::is_ascii_digit).collect();
        out.push(digits.parse().unwrap_or(0));
        if candidate != 0 {
            out.push(candidate);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let mut all = ["6.18.9+deb14", "7.2.12+deb14", "6.18.15+deb14", "7.2~rc3"];
        all.sort_by_key(|v| std::cmp::Reverse(numbers(v)));
        assert_eq!(
            all,
            ["7.2.12+deb14", "7.2~rc3", "6.18.15+deb14", "6.18.9+deb14"]
        );
        assert!(begins("7.2.12+deb14", "7.2") && begins("7.2.12+deb14", "7.2.12"));
        assert!(!begins("7.20.1", "7.2") && !begins("6.7.2", "7.2"));
        assert!(begins("7.2.12+deb14-amd64", "7.2-amd64"));
        assert!(!begins("7.2.12+deb14-amd64", "7.2") && !begins("7.2.12+deb14", "7.2-amd64"));
    }

    #[test]
    fn packages_are_of_small_kernels_and_of_whole_ones() {
        let of = |name: &str| of_package(&format!("linux-image-{name}"));
        assert_eq!(
            of("7.2.12+deb13-cloud-amd64").as_deref(),
            Some("7.2.12+deb13")
        );
        assert_eq!(
            of("7.2.12+deb13-amd64").as_deref(),
            Some("7.2.12+deb13-amd64")
        );
        for other in ["7.2.12+deb13-rt-amd64", "7.2.12+deb13-amd64-dbg", "amd64"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
