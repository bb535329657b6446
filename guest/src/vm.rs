//! QEMU: a guest is started, waited for, and has written something.

use crate::child::Bound;
use crate::file_system::FileSystem;
use crate::job::END;
use crate::packages::Kernel;
use crate::GuestError;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The virtual machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// CPUs.
    pub cpus: u32,
    /// MiB of memory.
    pub memory_mib: u64,
    /// NUMA nodes that share memory and CPUs; node 0 has the first CPU.
    pub nodes: u32,
    /// MiB of the disk.
    pub disk_mib: u64,
    /// What is on it.
    pub file_system: FileSystem,
    /// One CPU whose clock goes on by a nanosecond an instruction.
    pub virtual_time: bool,
    /// More words of the kernel's command line.
    pub append: String,
    /// The guest is stopped when its console has been silent for so long.
    pub patience: Duration,
}

const QEMU: &str = "qemu-system-x86_64";

/// KVM works if the CPU says so: the device alone may be there and lead nowhere.
fn has_kvm() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = flags.lines().find(|l| l.starts_with("flags"));
    let virtual_cpus = line.is_some_and(|l| l.split(' ').any(|f| f == "vmx" || f == "svm"));
    let kvm = Path::new("/dev/kvm");
    let usable = rustix::fs::access(
        kvm,
        rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK,
    );
    virtual_cpus && usable.is_ok()
}

/// How guests are run here: for people.
pub fn acceleration(virtual_time: bool) -> &'static str {
    match (virtual_time, has_kvm()) {
        (true, _) => "software, virtual time",
        (_, true) => "KVM",
        (_, false) => "software",
    }
}

/// Why the kernel has stopped, or the last that a console shows: a bar that is drawn anew is the end of its line.
fn last_line(console: &str) -> &str {
    if let Some(panic) = console.rfind("Kernel panic") {
        return console[panic..].lines().next().unwrap_or("").trim();
    }
    let shown = |line: &&str| !line.trim().is_empty();
    let parts = console.rsplit(['\n', '\r']);
    let clear = "\u{1b}[2K";
    let last = parts
        .map(|p| p.rsplit(clear).next().unwrap_or(p))
        .find(shown);
    last.unwrap_or("nothing").trim()
}

impl Machine {
    /// Boots `kernel` with an initramfs; `folder` is for its files. `go_on` is asked now and then. What the guest has written to
    /// its result.
    ///
    /// # Errors
    /// No QEMU, or a guest that did not come to its end.
    pub fn boot(
        &self,
        kernel: &Kernel,
        initramfs: &Path,
        folder: &Path,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<String, GuestError> {
        let path = |name: &str| folder.join(name);
        let disk = path("disk");
        self.make_disk(&disk)?;
        let (console, result) = (path("console"), path("result"));
        let mut command = self.command(kernel, initramfs, &disk, &console, &result);
        let mut guest = Bound::spawn(&mut command).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => GuestError::Program {
                program: QEMU,
                package: "qemu-system-x86",
            },
            _ => GuestError::io(QEMU)(e),
        })?;
        let last_line = || {
            let bytes = fs::read(&console).unwrap_or_default();
            last_line(&String::from_utf8_lossy(&bytes)).to_owned()
        };
        let said = || fs::metadata(&console).map_or(0, |m| m.len());
        let failed = |what: String| GuestError::Guest {
            what,
            console: last_line(),
        };
        let mut heard = (said(), Instant::now());
        let status = loop {
            if let Some(status) = guest.0.try_wait().map_err(GuestError::io(QEMU))? {
                break status;
            }
            if !go_on() {
                return Err(failed("was interrupted".into()));
            }
            if said() != heard.0 {
                heard = (said(), Instant::now());
            }
            if heard.1.elapsed() > self.patience {
                let s = self.patience.as_secs();
                return Err(failed(format!("has been silent for {s} s")));
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let written = fs::read(&result).unwrap_or_default();
        let written = String::from_utf8_lossy(&written).replace('\r', "");
        match written.strip_suffix(&format!("{END}\n")) {
            Some(text) => Ok(text.to_owned()),
            None => {
                let mut said = String::new();
                if let Some(mut errors) = guest.0.stderr.take() {
                    let _ = std::io::Read::read_to_string(&mut errors, &mut said);
                }
                let said = said.lines().find(|l| !l.contains("warning"));
                let said = said.map_or_else(|| status.to_string(), str::to_owned);
                Err(failed(format!("ended early ({said})")))
            }
        }
    }

    /// An empty file system; the file takes what is written to it.
    fn make_disk(&self, path: &Path) -> Result<(), GuestError> {
        let making = || GuestError::io(format!("{}: the guest's disk", path.display()));
        let file = fs::File::create(path).map_err(making())?;
        file.set_len(self.disk_mib << 20).map_err(making())?;
        self.file_system.make(path)
    }

    /// Its nodes, if they are several.
    fn numa(&self, cpus: u32) -> Vec<String> {
        if self.nodes <= 1 {
            return Vec::new();
        }
        let mut args = Vec::new();
        let nodes = u64::from(self.nodes);
        let of_nodes = parts(self.memory_mib, nodes).zip(parts(cpus.into(), nodes));
        for (n, (mib, cpus)) in of_nodes.enumerate() {
            let size = mib.end - mib.start;
            args.push("-object".into());
            args.push(format!("memory-backend-ram,id=m{n},size={size}M"));
            args.push("-numa".into());
            let cpus = match cpus.is_empty() {
                true => String::new(),
                false => format!(",cpus={}-{}", cpus.start, cpus.end - 1),
            };
            args.push(format!("node,nodeid={n},memdev=m{n}{cpus}"));
        }
        args
    }

    fn command(
        &self,
        kernel: &Kernel,
        initramfs: &Path,
        disk: &Path,
        console: &Path,
        result: &Path,
    ) -> Command {
        let mut c = Command::new(QEMU);
        match (self.virtual_time, has_kvm()) {
            (true, _) => {
                c.args([
                    "-accel",
                    "tcg,thread=single,tb-size=256",
                    "-icount",
                    "shift=0,sleep=off",
                ]);
                c.args(["-rtc", "clock=vm,base=2026-01-01"]);
            }
            (_, true) => {
                c.args(["-accel", "kvm"]);
            }
            (_, false) => {
                c.args(["-accel", "tcg,thread=multi,tb-size=256"]);
            }
        }
        let cpus = if self.virtual_time { 1 } else { self.cpus };
        c.args(["-cpu", "max", "-smp", &cpus.to_string()]);
        c.args(["-m", &self.memory_mib.to_string()]);
        c.args(self.numa(cpus));
        c.args(["-display", "none", "-no-reboot", "-nodefaults"]);
        for port in [console, result] {
            c.arg("-serial").arg(format!("file:{}", port.display()));
        }
        c.arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(initramfs);
        c.arg("-drive").arg(format!(
            "file={},format=raw,if=virtio,cache=unsafe,aio=threads",
            disk.display()
        ));
        // Files of the guest's own are no memory that it can swap out.
        c.arg("-append").arg(format!(
            "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off random.trust_cpu=on oops=panic \
             no_timer_check rootfstype=ramfs rdinit=/init {} -- kernel-guest",
            self.append
        ));
        c.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // Ctrl-C at the terminal is ours to handle.
        c.process_group(0);
        c
    }
}

/// Parts of so many things, as many as nodes, the first ones the larger.
fn parts(of: u64, nodes: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..nodes).map(move |n| (n * of).div_ceil(nodes)..((n + 1) * of).div_ceil(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_memory_and_cpus() {
        let machine = |nodes| Machine {
            cpus: 3,
            memory_mib: 1001,
            nodes,
            disk_mib: 1,
            file_system: FileSystem::Ext4,
            virtual_time: false,
            append: String::new(),
            patience: Duration::ZERO,
        };
        assert_eq!(machine(1).numa(3), [""; 0]);
        let two = [
            "-object",
            "memory-backend-ram,id=m0,size=501M",
            "-numa",
            "node,nodeid=0,memdev=m0,cpus=0-1",
            "-object",
            "memory-backend-ram,id=m1,size=500M",
            "-numa",
            "node,nodeid=1,memdev=m1,cpus=2-2",
        ];
        assert_eq!(machine(2).numa(3), two);
        let one_cpu = machine(2).numa(1);
        assert_eq!(one_cpu[3], "node,nodeid=0,memdev=m0,cpus=0-0");
        assert_eq!(one_cpu[7], "node,nodeid=1,memdev=m1");
    }

    #[test]
    fn of_a_bar_the_last_state_is_shown() {
        let bar = "booted\npoints [>  ] 1/90 \r\u{1b}[2Kpoints [=> ] 60/90  \r\n \n";
        assert_eq!(last_line(bar), "points [=> ] 60/90");
        assert_eq!(last_line("one\npanic: why\n"), "panic: why");
        assert_eq!(last_line("\r\n"), "nothing");
        let stopped =
            "[ 5.5] Kernel panic - not syncing: Out of memory\r\n[ 5.5] Kernel Offset: 0x3\r\n";
        assert_eq!(
            last_line(stopped),
            "Kernel panic - not syncing: Out of memory"
        );
        let unbroken = "points 1/90 \u{1b}[2Kpoints 2/90 ";
        assert_eq!(last_line(unbroken), "points 2/90");
    }
}
