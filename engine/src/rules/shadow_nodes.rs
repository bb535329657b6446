//! How many index nodes with shadows only are kept (`docs/rules/workingset.md#shadow-nodes`).

use crate::switches::ShadowNodeLimit;

/// What the rule goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfMemcg {
    /// Pages on its lists.
    pub(crate) lists: u64,
    /// Pages of its slab.
    pub(crate) slab: u64,
    /// Its lists have generations.
    pub(crate) generations: bool,
}

/// Nodes that a memcg keeps.
pub(super) type Kept = fn(OfMemcg) -> u64;

/// The rule of a switch value; none: any number is kept.
pub(super) fn kept(limit: ShadowNodeLimit) -> Option<Kept> {
    match limit {
        ShadowNodeLimit::None => None,
        ShadowNodeLimit::Lists => Some(by_lists),
        ShadowNodeLimit::Slab => Some(by_slab),
    }
}

/// One for eight pages. An eighth of the entries are then in use.
fn by_lists(of: OfMemcg) -> u64 {
    (of.lists + of.slab) / 8
}

/// Lists with generations are taken for empty.
fn by_slab(of: OfMemcg) -> u64 {
    match of.generations {
        true => of.slab / 8,
        false => by_lists(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_with_generations_do_not_keep_shadow_nodes_on_7_2() {
        let of = |generations| OfMemcg {
            lists: 16_000,
            slab: 80,
            generations,
        };
        assert_eq!(by_lists(of(true)), 2010);
        assert_eq!((by_slab(of(true)), by_slab(of(false))), (10, 2010));
    }
}
