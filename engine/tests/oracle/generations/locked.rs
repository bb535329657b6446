//! Pages that are locked into memory (`docs/rules/batches.md#locked-into-memory`).

use super::batches::Wait;
use super::model::{At, Model};
use crate::host::Name;

impl Model {
    /// A mapping locks the page. Its list changes when the batch is drained.
    pub(super) fn lock(&mut self, cpu: usize, name: Name) {
        self.pages.get_mut(&name).unwrap().locked = true;
        self.queue(cpu, Wait::Lock, name);
    }

    pub(super) fn unlock(&mut self, cpu: usize, name: Name) {
        self.queue(cpu, Wait::Unlock, name);
    }

    /// An entry of the batch is drained. What is on no list is left to those who will put it on one.
    pub(super) fn lock_or_unlock(&mut self, name: Name, wait: Wait) {
        let p = self.pages.get_mut(&name).unwrap();
        if wait == Wait::Unlock {
            p.locked = false;
        }
        if p.locked && p.on.is_some() {
            self.saw("locked on a list");
            self.cull(name);
        } else if !p.locked && p.unevictable {
            let n = p.size() as i64;
            p.unevictable = false;
            self.insert(name, false);
            self.groups[name.0].counts.rescued += n;
            self.saw("unlocked");
        }
    }

    /// To the unevictable list.
    pub(super) fn cull(&mut self, name: Name) {
        let p = self.pages.get_mut(&name).unwrap();
        (p.on, p.active, p.unevictable) = (None, false, true);
        self.groups[name.0].counts.culled += p.size() as i64;
    }

    /// Pages on the unevictable list.
    pub(super) fn unevictable(&self, v: At) -> u64 {
        let own = self.own(v).filter(|(_, p)| p.unevictable);
        own.map(|(_, p)| p.size()).sum()
    }
}
