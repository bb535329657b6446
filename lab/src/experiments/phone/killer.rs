//! Background apps, and who ends them when memory is short.

use super::app::Running;
use super::meter::free_and_cached;
use super::Phone;
use coldset_machine::sim::Affinity;
use coldset_machine::Ctx;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Free memory and page cache below which the killer acts, MiB.
const LEAST_MIB: u64 = 1024;
/// For how many tenths of a second it must be below.
const PATIENCE: u32 = 5;

/// Apps in the background, oldest first.
#[derive(Default)]
pub struct Kept {
    apps: RefCell<VecDeque<Running>>,
    /// Apps killed.
    pub killed: Cell<u64>,
}

impl Kept {
    /// An app goes to the background.
    pub fn keep(&self, app: Running) {
        self.apps.borrow_mut().push_back(app);
    }

    /// Apps in the background.
    pub fn len(&self) -> usize {
        self.apps.borrow().len()
    }

    /// True if no app is in the background.
    pub fn is_empty(&self) -> bool {
        self.apps.borrow().is_empty()
    }

    /// Ends the oldest one. False if there is none.
    pub fn kill_oldest(&self, phone: &Phone, ctx: &Ctx) -> bool {
        let Some(app) = self.apps.borrow_mut().pop_front() else {
            return false;
        };
        phone.machine.exit_mm(ctx, app.process.mm);
        self.killed.set(self.killed.get() + 1);
        true
    }
}

/// Starts the killer.
pub fn spawn(phone: &Rc<Phone>, kept: &Rc<Kept>) {
    let (phone, kept) = (phone.clone(), kept.clone());
    let mm = phone.plain_mm();
    let machine = phone.machine.clone();
    machine.spawn("killer", Affinity::Any, mm, move |m, ctx| async move {
        let mut low = 0;
        loop {
            phone.pause(&ctx, 100).await;
            let (free, cached) = free_and_cached(&m.world());
            if free + cached >= u64::from(phone.pages(LEAST_MIB)) {
                low = 0;
                continue;
            }
            low += 1;
            if low >= PATIENCE {
                kept.kill_oldest(&phone, &ctx);
                low = 0;
            }
        }
    });
}
