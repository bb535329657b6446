//! The generations of a group, as the multi-gen LRU shows them in debugfs.

use crate::cgroup::{Cgroup, Hierarchy};
use std::fs;
use std::path::Path;

const FILE: &str = "/sys/kernel/debug/lru_gen";

/// A generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generation {
    /// Its number: the least is the oldest.
    pub seq: u64,
    /// Since it was opened, ms.
    pub age_ms: u64,
    /// Pages of anonymous memory.
    pub anon: u64,
    /// Pages of files.
    pub file: u64,
}

/// The generations of a memory cgroup on a node, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lists {
    /// The group, from the root of its hierarchy.
    pub memcg: String,
    /// The node.
    pub node: u32,
    /// Its generations.
    pub generations: Vec<Generation>,
}

/// Those of a group and of groups below it; none: the kernel shows nothing of it.
pub fn read(group: &Cgroup) -> Option<Vec<Lists>> {
    let text = fs::read_to_string(FILE).ok()?;
    let root = Hierarchy::find().ok()?.root;
    let name = group.path().strip_prefix(root).ok()?;
    let lists = parse(&text, name);
    (!lists.is_empty()).then_some(lists)
}

/// `name` is the group's, from the root of its hierarchy.
fn parse(text: &str, name: &Path) -> Vec<Lists> {
    let mut all: Vec<Lists> = Vec::new();
    let mut memcg = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i)?.parse::<u64>().ok();
        match words.as_slice() {
            ["memcg", _, shown] => {
                let within = Path::new(shown.trim_start_matches('/')).starts_with(name);
                memcg = within.then(|| (*shown).to_owned());
            }
            ["memcg", ..] => memcg = None,
            ["node", node] => {
                if let (Some(memcg), Ok(node)) = (&memcg, node.parse()) {
                    all.push(Lists {
                        memcg: memcg.clone(),
                        node,
                        generations: Vec::new(),
                    });
                }
            }
            _ => {
                let figures = (number(0), number(1), number(2), number(3));
                let (Some(_), (Some(seq), Some(age_ms), Some(anon), Some(file))) =
                    (&memcg, figures)
                else {
                    continue;
                };
                if let Some(lists) = all.last_mut() {
                    lists.generations.push(Generation {
                        seq,
                        age_ms,
                        anon,
                        file,
                    });
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
memcg     1 /
 node     0
          0      90000          7           8
memcg    40 /a/coldset-play-1
 node     0
          2       1200          0         310
          3         40         11           4 
 node     1
          0          9          1           0
memcg    41 /a/coldset-play-1/task0
 node     0
          5          1          0           2
memcg    42 /a/coldset-play-12
 node     0
          6          1          0           2
";

    #[test]
    fn those_of_the_group_and_below_are_read() {
        let all = parse(TEXT, Path::new("a/coldset-play-1"));
        let named: Vec<_> = all.iter().map(|l| (l.memcg.as_str(), l.node)).collect();
        let group = "/a/coldset-play-1";
        assert_eq!(
            named,
            [(group, 0), (group, 1), ("/a/coldset-play-1/task0", 0)]
        );
        let oldest = Generation {
            seq: 2,
            age_ms: 1200,
            anon: 0,
            file: 310,
        };
        assert_eq!(
            (all[0].generations[0], all[0].generations.len()),
            (oldest, 2)
        );
        assert_eq!(all[0].generations[1].anon, 11);
        assert!(parse(TEXT, Path::new("elsewhere")).is_empty());
        assert!(parse("no\n such 1 2\n", Path::new("a")).is_empty());
    }
}
