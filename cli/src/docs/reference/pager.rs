//! The pager: settings of a pool, metrics.

use super::markdown::{code, prose, Page};
use coldset_pager::{observe, PoolConfig, SwapConfig};

/// Settings as text.
pub fn settings() -> Page {
    let mut page = Page::new(
        "pool.md",
        "Settings of a pool",
        "What Rust, Python and C set by name, and what the environment sets.",
    );
    page.paragraph(
        "`PoolConfig::set(name, value)` in Rust, arguments of `coldset.Pool` in Python, \
         \"name=value\" options of `coldset_pool_new` in C.",
    );
    page.table(
        &["setting", "value"],
        PoolConfig::settings().map(|(name, doc)| vec![code(name), prose(doc)]),
    );
    page.heading(2, "Swap");
    page.paragraph("Parts joined by `+`, each once:");
    page.table(
        &["part", "what"],
        SwapConfig::words().map(|(form, doc)| vec![code(form), prose(doc)]),
    );
    page.heading(2, "Environment");
    page.table(
        &["variable", "what"],
        PoolConfig::ENVIRONMENT
            .iter()
            .map(|(name, doc)| vec![code(name), prose(doc)]),
    );
    page
}

/// What Prometheus is told.
pub fn metrics() -> Page {
    let mut page = Page::new(
        "metrics.md",
        "Metrics",
        "What `COLDSET_METRICS=ADDRESS` serves to Prometheus.",
    );
    page.paragraph(
        "Every sample has the label `pool`; those of groups have `group`. Histograms have buckets of \
         powers of two from 1 us to 17 s. `name` of engine events is one of the \
         [counters](counters.md).",
    );
    page.table(
        &["metric", "type", "what"],
        observe::metrics()
            .into_iter()
            .map(|m| vec![code(&m.name), m.kind, prose(&m.help)]),
    );
    page
}
