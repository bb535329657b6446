//! Which object a number stands for: a file for all tasks, anonymous memory for each process apart.

use super::problem::Problem;
use std::collections::HashMap;

/// An object of a trace, as its process means it: the number that the trace has for it, and the process, if it is anonymous
/// memory. In one word, for it is compared for every reference; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Object(u32);

impl Object {
    const NONE: Self = Self(0);

    #[inline]
    fn new(number: u8, process: Option<u16>) -> Self {
        let whose = match process {
            None => 1 << 24,
            Some(process) => 2 << 24 | u32::from(process),
        };
        Self(whose | u32::from(number) << 16)
    }

    fn number(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

/// The numbers of objects: as the trace has them, but for anonymous memory of that number in a second process, which has
/// one that is free.
#[derive(Debug)]
pub(super) struct Objects {
    /// By number in the trace: whether it is anonymous, once known.
    anon: [Option<bool>; 256],
    /// By number that is given away.
    given: [Object; 256],
    /// Those with another number than the trace has.
    moved: HashMap<Object, u8>,
}

impl Objects {
    pub fn new() -> Self {
        Self {
            anon: [None; 256],
            given: [Object::NONE; 256],
            moved: HashMap::new(),
        }
    }

    /// The number of an object that has one. `process`: whose memory it is; none: it is a file.
    #[inline]
    pub fn known(&self, number: u8, process: Option<u16>) -> Option<u8> {
        let object = Object::new(number, process);
        match self.given[usize::from(number)] == object {
            true => Some(number),
            false => self.moved(object),
        }
    }

    #[cold]
    fn moved(&self, object: Object) -> Option<u8> {
        self.moved.get(&object).copied()
    }

    /// Whether an object is anonymous, if that is known.
    pub fn is_anon(&self, number: u8) -> Option<bool> {
        self.anon[usize::from(number)]
    }

    /// The number for an object, which has one from now on.
    ///
    /// # Errors
    /// An object that is a file and anonymous memory, and one more than there are numbers. Processes have one memory in
    /// common where there are too few.
    pub fn number(&mut self, number: u8, process: Option<u16>) -> Result<u8, Problem> {
        let at = usize::from(number);
        if *self.anon[at].get_or_insert(process.is_some()) != process.is_some() {
            return Err(Problem {
                found: format!("object {number} as a file and as anonymous memory"),
                expected: "one of the two throughout the trace",
                remedy: "give anonymous memory an object number of its own",
            });
        }
        let object = Object::new(number, process);
        let given = self.given[at];
        if given == Object::NONE || given == object {
            self.given[at] = object;
            return Ok(number);
        }
        if let Some(moved) = self.known(number, process) {
            return Ok(moved);
        }
        match self.given.iter().rposition(|&given| given == Object::NONE) {
            Some(free) => {
                self.given[free] = object;
                self.moved.insert(object, free as u8);
                Ok(free as u8)
            }
            None if given.number() == number => Ok(number),
            None => Err(Problem {
                found: format!("object {number} beside 256 others"),
                expected: "at most 256 files and regions, those of each process counted",
                remedy: "split the trace, or leave processes out",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_all_and_memory_is_of_each_process() {
        let mut o = Objects::new();
        for process in [None, None] {
            assert_eq!(o.number(0, process).unwrap(), 0);
        }
        let of = |o: &mut Objects, number, process| o.number(number, Some(process)).unwrap();
        assert_eq!(of(&mut o, 1, 0), 1);
        assert_eq!(of(&mut o, 1, 7), 255);
        assert_eq!(of(&mut o, 1, 8), 254);
        assert_eq!(of(&mut o, 1, 7), 255);
        assert_eq!(of(&mut o, 1, 0), 1);
        // A number of the trace that has been given away by then.
        assert_eq!(of(&mut o, 255, 7), 253);
        assert_eq!(o.number(254, None).unwrap(), 252);
        let known = [
            (1, Some(0)),
            (0, None),
            (1, Some(7)),
            (254, None),
            (255, Some(7)),
        ];
        let known = known.map(|(number, process)| o.known(number, process));
        assert_eq!(known, [1, 0, 255, 252, 253].map(Some));
        assert_eq!([o.known(255, None), o.known(1, None)], [None, None]);
        assert!(o.number(1, None).is_err() && o.number(0, Some(1)).is_err());
    }

    #[test]
    fn without_free_numbers_memory_is_shared_and_nothing_is_mistaken_for_another() {
        let mut o = Objects::new();
        for process in 0..255 {
            o.number(9, Some(process)).unwrap();
        }
        o.number(3, None).unwrap_or_else(|_| panic!("the last one"));
        assert_eq!(o.number(9, Some(300)).unwrap(), 9);
        assert!(o.number(200, None).is_err());
    }
}
