//! The machines that the server runs on: the one that the parameters describe, and the controls.

use crate::experiment::{ExperimentError, Host, RunInput};
use coldset_machine::{Advice, ReadAhead};

/// Where and how the server runs.
pub struct Setting {
    /// Its machine.
    pub host: Host,
    /// What it says about the way it reads its data.
    pub advice: Advice,
}

/// What a control does differently. Its counters begin with its name.
struct Control {
    name: &'static str,
    read_ahead_kb: Option<u32>,
    memcg_writeback: bool,
    advice: Advice,
}

const SAME: Control = Control {
    name: "",
    read_ahead_kb: None,
    memcg_writeback: false,
    advice: Advice::Normal,
};

/// Each takes away, or adds, one thing that the difference between before and after may come from.
const CONTROLS: [Control; 4] = [
    Control {
        name: "ra0.",
        read_ahead_kb: Some(0),
        ..SAME
    },
    Control {
        name: "ra128.",
        read_ahead_kb: Some(128),
        ..SAME
    },
    Control {
        name: "memcg.",
        memcg_writeback: true,
        ..SAME
    },
    Control {
        name: "random.",
        advice: Advice::Random,
        ..SAME
    },
];

impl Setting {
    /// As the parameters say.
    ///
    /// # Errors
    /// Parameters that cannot be used.
    pub fn main(input: &RunInput) -> Result<Self, ExperimentError> {
        let kb = input.number("read_ahead_kb")?;
        let too_large = |_| input.wrong("read_ahead_kb", "KiB of a window, below 2^32");
        let limits = [("host", false), ("memcg", true)];
        Ok(Self {
            host: Host {
                cpus: input.number("cpus")?,
                ram: Some(pages(input, "ram_mib")?),
                devices: vec![input.device("device")?],
                cgroup_v2: input.text("cgroup") != "v1",
                read_ahead: ReadAhead::Windows {
                    kb: u32::try_from(kb).map_err(too_large)?,
                },
                memcg_writeback: input.word("dirty_limits", &limits, "host or memcg")?,
                ..Host::default()
            },
            advice: Advice::Normal,
        })
    }

    /// The main one and, unless they are off, the controls.
    ///
    /// # Errors
    /// Parameters that cannot be used.
    pub fn all(input: &RunInput) -> Result<Vec<Self>, ExperimentError> {
        let mut all = vec![Self::main(input)?];
        if input.word("controls", &[("on", true), ("off", false)], "on or off")? {
            for control in &CONTROLS {
                all.push(Self::main(input)?.under(control));
            }
        }
        Ok(all)
    }

    fn under(self, control: &Control) -> Self {
        let read_ahead = control.read_ahead_kb.map(|kb| ReadAhead::Windows { kb });
        Self {
            host: Host {
                name: control.name.into(),
                read_ahead: read_ahead.unwrap_or(self.host.read_ahead),
                memcg_writeback: self.host.memcg_writeback || control.memcg_writeback,
                ..self.host
            },
            advice: control.advice,
        }
    }
}

/// A size of the server or its machine, pages.
///
/// # Errors
/// It is no number.
pub fn pages(input: &RunInput, name: &str) -> Result<u64, ExperimentError> {
    Ok(input.pages(name)?.max(64))
}
