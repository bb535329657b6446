//! Workloads of users: every key of a file, and every quantity that it can report.

use super::markdown::{code, prose, Page};
use coldset_lab::workload::{Quantity, KEYS, OF_GROUP, OF_MACHINE, SECTIONS, SUMS};

/// Keys and quantities.
pub fn page() -> Page {
    let mut page = Page::new(
        "workloads.md",
        "Keys of a workload",
        "What a file for `coldset lab run FILE.toml` can say, and what can be reported of it.",
    );
    page.paragraph(
        "[Your own workload](../how-to/own-workload.md) explains how to write one. Sizes are texts such as `\"64MiB\"`, `\"1.5GiB\"` or \
         `\"300pages\"`, times such as `\"10s\"`, `\"1.5ms\"` or `\"20us\"`, shares such as `\"25%\"`. A key whose default is \"must be there\" \
         must be there; of keys with `-`, one is chosen.",
    );
    for (section, heading, about) in SECTIONS {
        page.heading(2, heading);
        page.paragraph(about);
        let keys = KEYS.iter().filter(|k| k.section == *section);
        page.table(
            &["key", "takes", "default", "what"],
            keys.map(|k| {
                let default = match k.default {
                    "" => "must be there".to_owned(),
                    default => prose(default),
                };
                vec![code(k.name), prose(k.takes), default, prose(k.doc)]
            }),
        );
    }
    page.heading(2, "Quantities");
    page.paragraph(
        "For `results`. Of a machine, without a name before them; of a group of tasks or a cgroup, as `NAME.QUANTITY`. [Counters](counters.md) \
         are quantities as well: those of the cgroup if the machine has one of them, else those of the machine. Everything but \
         `elapsed_ns`, `finished` and `killed` is about the measured phases. A formula has numbers, quantities, `+`, `-`, `*`, `/`, \
         brackets, `min(A, B)`, `max(A, B)` and `floor(A)`; write spaces round a `-`.",
    );
    let rows = |of: &'static str, all: &'static [Quantity]| {
        all.iter()
            .map(move |(name, doc)| vec![code(name), of.to_owned(), prose(doc)])
    };
    page.table(
        &["quantity", "of", "what"],
        rows("machine, group", OF_GROUP)
            .chain(rows("machine", OF_MACHINE))
            .chain(rows("machine, cgroup", SUMS)),
    );
    page
}
