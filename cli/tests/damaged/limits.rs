//! What a process may take, and what the kernel says that it has taken.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::fs;

/// Memory of a process at its peak, MiB: what the lab promises for bad input.
pub const RESIDENT_MAX: u64 = 200;
/// Address space beyond that of the start, MiB: one allocation for a number that the input has made up
/// is more.
const SPACE: u64 = 512;
/// Processor time, seconds, after which a reader does not end.
const SECONDS: u64 = 300;

/// A line of `/proc/self/status`, in KiB.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let number = line.and_then(|l| {
        l.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    number.unwrap_or_else(|| panic!("{name} in /proc/self/status"))
}

fn lower(resource: Resource, to: u64) {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = Some(to.min(maximum.unwrap_or(u64::MAX)));
    setrlimit(resource, Rlimit { current, maximum }).expect("a lower limit");
}

/// From here on, what is asked for beyond reason fails, and what does not end is killed.
pub fn begin() {
    lower(Resource::As, (status("VmSize") << 10) + (SPACE << 20));
    lower(Resource::Cpu, SECONDS);
    lower(Resource::Core, 0);
}

/// Runs `f`, and says the peak of this process's memory meanwhile, in MiB.
pub fn peak_of(f: impl FnOnce()) -> u64 {
    // What was used before does not count.
    fs::write("/proc/self/clear_refs", "5").expect("a peak to be reset");
    f();
    status("VmHWM") >> 10
}
