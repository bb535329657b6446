//! What runs leave that were killed: groups, folders and files that are named after a process that is no more.

use std::fs;
use std::path::Path;

/// How everything of ours is called: this and the process that made it.
const PREFIX: &str = "coldset-play-";

/// The name of what this process makes.
#[must_use]
pub fn own_name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Calls `remove` with each entry of `dir` that its process has left.
pub fn sweep(dir: &Path, remove: impl Fn(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if is_abandoned(&entry.file_name().to_string_lossy()) {
            remove(&entry.path());
        }
    }
}

/// `name` is the prefix and a process that is no more, whatever follows.
fn is_abandoned(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let pid = rest.split(|c: char| !c.is_ascii_digit()).next();
    let pid = pid.and_then(|digits| digits.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_have_left_is_abandoned() {
        let own = own_name();
        assert!(!is_abandoned(&own) && !is_abandoned(&format!("{own}-task-0")));
        assert!(is_abandoned("coldset-play-4194305"));
        assert!(is_abandoned("coldset-play-4194305-task-0"));
        for other in ["coldset-play-", "coldset-play-x", "user.slice", ""] {
            assert!(!is_abandoned(other), "{other}");
        }
    }
}
