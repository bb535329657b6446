//! What the engine can be: variants, switches; what it counts.

use super::markdown::{code, prose, Page};
use crate::error::Failure;
use coldset_engine::presets::{PRESETS, SUFFIXES};
use coldset_engine::switches::patches::PATCHES;
use coldset_engine::{Counter, Switches};
use coldset_lab::runner::{RunnerError, Variant};
use coldset_pager::observe::is_counted;

/// What the tables compare with.
const PLAIN: &str = "base";

fn preset(name: &str) -> Result<Switches, RunnerError> {
    Ok(Variant::parse(name, &[])?.switches)
}

/// Presets, suffixes and patches.
pub fn variants() -> Result<Page, Failure> {
    let mut page = Page::new(
        "variants.md",
        "Variants",
        "The policies by name, and what each is made of.",
    );
    page.paragraph(
        "`--variants NAME[+SUFFIX][+SWITCH=VALUE],...` takes any of them. The first is \"before\", \
         the last one \"after\".",
    );
    page.table(
        &["variant", "also called", "what"],
        PRESETS.iter().map(|p| {
            let others: Vec<String> = p.names[1..].iter().map(|n| code(n)).collect();
            vec![code(p.names[0]), others.join(", "), prose(&p.what())]
        }),
    );
    page.heading(2, "Suffixes");
    page.paragraph("Behind any variant, as in `base+tlbbatch`:");
    page.table(
        &["suffix", "what", "switches"],
        SUFFIXES.iter().map(|s| {
            let set: Vec<String> = s.set.iter().map(|(n, v)| format!("`{n}={v}`")).collect();
            vec![code(s.name), prose(s.doc), set.join(", ")]
        }),
    );
    page.heading(2, "Patches of the series");
    page.paragraph(
        "`stepN` is `base` with the patches up to N. `coldset lab ablate` adds each alone and takes \
         each away. Patches that only move code are not listed.",
    );
    page.table(
        &["patch", "subject", "switches"],
        PATCHES.iter().map(|p| {
            let set: Vec<String> = p.switches().map(code).collect();
            vec![p.number.to_string(), prose(p.subject), set.join(", ")]
        }),
    );
    page.heading(2, "Switches of each variant");
    page.paragraph(&format!(
        "Those in which it differs from `{PLAIN}`; `coldset lab params --switches NAME` prints all."
    ));
    let plain = preset(PLAIN)?;
    let mut rows = Vec::new();
    for p in PRESETS {
        let own = preset(p.names[0])?;
        let differing = plain.differing(&own);
        let set: Vec<String> = own
            .describe()
            .iter()
            .filter(|s| differing.contains(&s.name))
            .map(|s| format!("`{}={}`", s.name, s.value))
            .collect();
        rows.push(vec![code(p.names[0]), set.join(", ")]);
    }
    page.table(&["variant", "switches"], rows);
    Ok(page)
}

/// Switches with their values.
pub fn switches() -> Result<Page, Failure> {
    let mut page = Page::new(
        "switches.md",
        "Switches",
        "One for each change of behaviour, with the values it takes and has.",
    );
    page.paragraph(
        "`--set SWITCH=VALUE` sets one in all variants, `NAME+SWITCH=VALUE` in one of them; a pool of \
         the pager takes them, too.",
    );
    let columns = ["classic", "v612", "base", "v5", "merged"];
    let presets: Vec<Switches> = columns
        .iter()
        .map(|n| preset(n))
        .collect::<Result<_, _>>()?;
    let values: Vec<Vec<String>> = presets
        .iter()
        .map(|p| p.describe().into_iter().map(|s| s.value).collect())
        .collect();
    page.table(
        &["switch", "what", "takes"],
        presets[0]
            .describe()
            .into_iter()
            .map(|s| vec![code(s.name), prose(&s.doc), prose(s.accepts)]),
    );
    page.heading(2, "Values by variant");
    let heads: Vec<&str> = std::iter::once("switch").chain(columns).collect();
    page.table(
        &heads,
        Switches::NAMES.iter().enumerate().map(|(i, name)| {
            let mut row = vec![code(name)];
            row.extend(values.iter().map(|v| v[i].clone()));
            row
        }),
    );
    Ok(page)
}

/// What is counted.
pub fn counters() -> Page {
    let mut page = Page::new(
        "counters.md",
        "Counters",
        "What the engine and its hosts count, by the kernel's names where it has them.",
    );
    page.paragraph(
        "Units are base pages of 4 KiB unless the text says otherwise. They are in `--json` of the \
         lab, in `coldset top` and, under `name`, in `coldset_engine_events` for Prometheus.",
    );
    let kernels = Counter::ALL.iter().filter(|&&c| !is_counted(c));
    let kernels: Vec<String> = kernels.map(|c| code(c.name())).collect();
    page.paragraph(&format!(
        "A pool has those that it can know. Of `pgmajfault`, `pswpin`, `pswpout`, `pgpgin` and `pgpgout` they are what the \
         pager reads, writes and serves; files that it maps from the page cache, and minor faults, are the kernel's. So \
         it has no {}.",
        kernels.join(", ")
    ));
    page.table(
        &["counter", "what"],
        Counter::ALL
            .iter()
            .map(|c| vec![code(c.name()), prose(c.doc())]),
    );
    page
}
