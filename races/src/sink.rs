//! Where steps leave their successors.

use crate::world::{Actor, World};

/// What a step came to.
pub(crate) struct Successor {
    pub world: World,
    /// Who stepped; [`crate::world::ACTORS`] is the device.
    pub who: usize,
    pub text: Option<String>,
}

/// Takes the successors of a state.
#[derive(Default)]
pub(crate) struct Sink {
    pub out: Vec<Successor>,
    /// Also say each step in words.
    pub texts: bool,
}

impl Sink {
    /// Takes `world`, in which actor `who` goes on as `actor`.
    pub fn put(
        &mut self,
        mut world: World,
        who: usize,
        actor: Actor,
        text: impl FnOnce() -> String,
    ) {
        world.actors[who] = actor;
        self.event(world, who, text);
    }

    /// Takes `world`, in which no actor is further than before, or has been set.
    pub fn event(&mut self, mut world: World, who: usize, text: impl FnOnce() -> String) {
        world.reap();
        self.out.push(Successor {
            world,
            who,
            text: self.texts.then(text),
        });
    }
}
