//! Which experiments read ahead otherwise than the kernel does by default.

/// Experiments whose machines do not read ahead as the kernel does by default (128 KiB), and why.
pub const READ_AHEAD_OTHERWISE: &[(&str, &str)] = &[
    (
        "mongodb",
        "512 KiB (assumed: the published run does not say), and without it and with the kernel's 128 KiB as controls",
    ),
    ("slow-io", "512 KiB, as in mongodb, whose server it runs"),
    (
        "android-cold-start",
        "none (`--param read_ahead_kb=128` has the kernel's)",
    ),
    (
        "android-heavy",
        "none (`--param read_ahead_kb=128` has the kernel's)",
    ),
    (
        "aging-oom",
        "a fault reads 32 pages round its own, the kernel's 128 KiB, but no window before it is missing, which takes ten times the CPU time (--param read_ahead=windows has them)",
    ),
];

/// Why an experiment reads ahead otherwise than the kernel does by default; none if it does not.
#[must_use]
pub fn read_ahead_otherwise(experiment: &str) -> Option<&'static str> {
    let listed = READ_AHEAD_OTHERWISE
        .iter()
        .find(|(name, _)| *name == experiment);
    listed.map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::READ_AHEAD_KB;
    use crate::experiments::EXPERIMENTS;
    use coldset_engine::presets::preset;
    use coldset_machine::ReadAhead;

    #[test]
    fn who_reads_ahead_otherwise_says_why() {
        for e in EXPERIMENTS {
            let input = e.input("base", preset("base").unwrap());
            let hosts = (e.hosts)(&input).unwrap();
            let kernel = ReadAhead::Windows { kb: READ_AHEAD_KB };
            let as_kernel = hosts.iter().all(|h| h.read_ahead == kernel);
            let listed = read_ahead_otherwise(e.name).is_some();
            assert!(as_kernel != listed, "{}: {hosts:?}", e.name);
        }
        let known = |name: &str| EXPERIMENTS.iter().any(|e| e.name == name);
        assert!(READ_AHEAD_OTHERWISE.iter().all(|(name, _)| known(name)));
    }
}
