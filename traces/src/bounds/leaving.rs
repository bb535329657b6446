//! Pages that are gone for good: their memory was given back, or their file cut.

/// The pages that leave a sequence, to be asked for position by position.
#[derive(Debug, Clone)]
pub struct Leaving<'a> {
    /// Position of the first reference after it, and page.
    coming: &'a [(u32, u32)],
}

impl<'a> Leaving<'a> {
    pub(super) fn of(coming: &'a [(u32, u32)]) -> Self {
        Self { coming }
    }

    /// Those that leave before the reference at a position, and after the position last asked for.
    #[inline]
    pub fn before(&mut self, position: usize) -> impl Iterator<Item = u32> + use<'a> {
        let due = |&&(at, _): &&(u32, u32)| at as usize <= position;
        let now = match self.coming.first().filter(due) {
            None => 0,
            Some(_) => self.coming.iter().take_while(due).count(),
        };
        let (now, coming) = self.coming.split_at(now);
        self.coming = coming;
        now.iter().map(|&(_, page)| page)
    }
}
