//! The first process of a guest.

mod disk;
mod swap;

use crate::job::{Job, FOLDER, JOB, MODULES, RESULT};
use rustix::mount::{mount, MountFlags};
use rustix::system::{reboot, RebootCommand};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Sets the machine up and gives the job's arguments to `command`, which returns what goes to the result; then the
/// machine is switched off.
pub fn run(command: impl FnOnce(&[String]) -> Result<String, String>) -> ! {
    let done = set_up().and_then(|job| command(&job.arguments));
    match done.and_then(|text| write_result(&text).map_err(|e| format!("{RESULT}: {e}"))) {
        Ok(()) => {}
        Err(error) => eprintln!("coldset: {error}"),
    }
    rustix::fs::sync();
    // Returns only if it is not allowed, and then the kernel panics as its first process ends.
    let _ = reboot(RebootCommand::PowerOff);
    std::process::exit(1);
}

fn write_result(text: &str) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).open(RESULT)?;
    out.write_all(text.as_bytes())?;
    writeln!(out, "{}", crate::job::END)?;
    out.flush()?;
    // The port is slow, and what is left in it goes with the machine.
    rustix::termios::tcdrain(&out)?;
    Ok(())
}

fn set_up() -> Result<Job, String> {
    for (kind, at) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("debugfs", "/sys/kernel/debug"),
    ] {
        mount(kind, at, kind, MountFlags::empty(), None)
            .map_err(|e| format!("mounting {at}: {e}"))?;
    }
    let job = fs::read(JOB).map_err(|e| format!("{JOB}: {e}"))?;
    let job: Job = serde_json::from_slice(&job).map_err(|e| format!("{JOB}: {e}"))?;
    if job.dirty_limits_of_host {
        take_io_controller()?;
    }
    let at = "/sys/fs/cgroup";
    mount("cgroup2", at, "cgroup2", MountFlags::empty(), None)
        .map_err(|e| format!("mounting {at}: {e}"))?;
    for name in &job.modules {
        load(name).map_err(|e| format!("module {name}: {e}"))?;
    }
    settings(&job);
    wait_for("/dev/vda")
        .map_err(|e| format!("{e}: the kernel needs CONFIG_VIRTIO_PCI and CONFIG_VIRTIO_BLK"))?;
    let device = match job.disk_inside {
        Some((mib, ns)) => disk::make(mib, ns)?,
        None => "/dev/vda".into(),
    };
    let name = device.trim_start_matches("/dev/");
    let setting = format!("/sys/block/{name}/queue/read_ahead_kb");
    fs::write(&setting, job.read_ahead_kb.to_string()).map_err(|e| format!("{setting}: {e}"))?;
    let mounted = mount(
        device.as_str(),
        FOLDER,
        job.file_system.name(),
        MountFlags::NOATIME,
        None,
    );
    mounted.map_err(|e| format!("mounting {device}: {e}"))?;
    if job.zram_mib > 0 {
        swap::zram(job.zram_mib)?;
    }
    std::env::set_current_dir(FOLDER).map_err(|e| format!("{FOLDER}: {e}"))?;
    Ok(job)
}

/// Binds the io controller to a hierarchy of its own: without it, the unified one has no write contexts and no dirty limits of
/// memcgs. (With `cgroup_disable=io` it has both.)
fn take_io_controller() -> Result<(), String> {
    let at = "/blkio";
    let taken = fs::create_dir(at).and_then(|()| {
        let options = Some(c"blkio");
        Ok(mount("cgroup", at, "cgroup", MountFlags::empty(), options)?)
    });
    taken.map_err(|e| format!("dirty limits of the host: the io controller in cgroup v1: {e}"))
}

/// What the run depends on. A setting that the kernel does not have is no failure: it is printed with the result.
fn settings(job: &Job) {
    let mut all = vec![
        (
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "never".to_owned(),
        ),
        ("/proc/sys/vm/page-cluster", "0".into()),
        ("/proc/sys/vm/swappiness", job.swappiness.to_string()),
        (
            "/sys/kernel/debug/fault_around_bytes",
            job.fault_around.to_string(),
        ),
        ("/sys/fs/cgroup/cgroup.subtree_control", "+memory".into()),
    ];
    if let Some(on) = job.multi_gen {
        all.push((
            "/sys/kernel/mm/lru_gen/enabled",
            if on { "7" } else { "0" }.into(),
        ));
    }
    for (path, value) in all {
        if let Err(e) = fs::write(path, &value) {
            eprintln!("coldset: {path}: {e}");
        }
    }
}

fn load(name: &str) -> io::Result<()> {
    let file = File::open(Path::new(MODULES).join(name))?;
    // null_blk makes a device of its own unless it is told not to.
    let parameters = if name == "null_blk" {
        c"nr_devices=0"
    } else {
        c""
    };
    match rustix::system::finit_module(&file, parameters, 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        // No such CPU: of several modules for the same, another will do.
        Err(rustix::io::Errno::NODEV) => Ok(()),
        other => Ok(other?),
    }
}

/// Devices come a moment after their modules.
fn wait_for(device: &str) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(10);
    while !Path::new(device).exists() {
        if Instant::now() > end {
            return Err(format!("{device} has not come"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
