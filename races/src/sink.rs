//! Where steps leave what they lead to.

use crate::world::World;

/// What a step came to: the world, the actor that stepped, and the step in words.
pub(crate) struct Step<A> {
    pub world: World,
    pub actor: A,
    pub text: Option<String>,
}

/// Takes what the steps of one actor lead to.
pub(crate) struct Sink<A> {
    pub out: Vec<Step<A>>,
    /// Also say each step in words.
    texts: bool,
}

impl<A> Sink<A> {
    pub fn new(texts: bool) -> Self {
        Self {
            out: Vec::new(),
            texts,
        }
    }

    /// Takes `world`, in which the actor goes on as `actor`.
    pub fn put(&mut self, mut world: World, actor: A, text: impl FnOnce() -> String) {
        world.reap();
        self.out.push(Step {
            world,
            actor,
            text: self.texts.then(text),
        });
    }
}
