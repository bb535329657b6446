//! The public traces of `docs/reference/formats.md`: counts of references, pages and stores.
//! They are not part of the project; name their folder in `COLDSET_TRACES`.

use super::*;

/// A public trace, or nothing (and a message) where the traces are not at hand.
fn public(name: &str, options: &TraceOptions, format: Format) -> Option<Trace> {
    let trace = public_as(name, options, None)?;
    assert_eq!(trace.0, format, "{name}");
    Some(trace.1)
}

fn public_as(name: &str, options: &TraceOptions, given: Option<Format>) -> Option<(Format, Trace)> {
    let Some(folder) = std::env::var_os("COLDSET_TRACES") else {
        eprintln!("skipped: COLDSET_TRACES does not name a folder with the public traces");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    let reader = open(&path, given, options).unwrap_or_else(|error| panic!("{error}"));
    let format = reader.format();
    let trace = Trace::read(reader, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    Some((format, trace))
}

#[test]
fn arc_counts() {
    for (name, blocks_per_page, unique) in
        [("OLTP", 1, 186_880), ("P3", 8, 102_348), ("P6", 8, 101_903)]
    {
        let options = TraceOptions {
            blocks_per_page,
            ..TraceOptions::default()
        };
        let Some(trace) = public(&format!("arc/{name}.lis.zst"), &options, Format::Arc) else {
            return;
        };
        assert_eq!(trace.unique_pages, unique, "{name}");
    }
    for (name, references) in [("OLTP", 914_145), ("P3", 3_912_296), ("P6", 12_672_123)] {
        let Some(trace) = public(
            &format!("arc/{name}.lis.zst"),
            &TraceOptions::default(),
            Format::Arc,
        ) else {
            return;
        };
        assert_eq!(trace.ops.len(), references, "{name}: one page a block");
    }
}

#[test]
fn lirs_counts() {
    for (name, references, unique) in [
        ("2_pools", 100_000, 9_939),
        ("backf", 9_000, 751),
        ("cpp", 9_047, 1_223),
        ("cs", 6_781, 1_409),
        ("gli", 6_015, 2_529),
        ("loop", 505_500, 1_011),
        ("multi1", 15_858, 2_606),
        ("multi2", 26_311, 5_684),
        ("multi3", 30_241, 7_454),
        ("ps", 10_448, 3_083),
        ("scan", 50_025, 2_001),
        ("sprite", 133_996, 7_075),
        ("zigzag", 52_001, 2_001),
    ] {
        let Some(trace) = public(
            &format!("lirs/{name}.trace.gz"),
            &TraceOptions::default(),
            Format::Lirs,
        ) else {
            return;
        };
        assert_eq!(
            (trace.ops.len(), trace.unique_pages),
            (references, unique),
            "{name}"
        );
    }
}

#[test]
fn address_counts() {
    for (name, references, unique, stores) in [
        ("gzip", 481_044, 39_856, 33),
        ("mcf", 727_230, 1_442, 99),
        ("gcc", 515_683, 294, 38),
        ("swim", 303_193, 135, 27),
        ("twolf", 482_824, 89, 27),
    ] {
        let name = format!("address/{name}.trace.gz");
        let Some(trace) = public(&name, &TraceOptions::default(), Format::Address) else {
            return;
        };
        let count = trace.ops.len() as u64;
        assert_eq!((count, trace.unique_pages), (references, unique), "{name}");
        assert_eq!((trace.writes * 100 + count / 2) / count, stores, "{name}");
    }
}

#[test]
fn cloudphysics_counts() {
    let Some(blocks) = public(
        "cloudphysics/w106.trace.xz",
        &TraceOptions::default(),
        Format::CloudPhysics,
    ) else {
        return;
    };
    assert_eq!(
        (blocks.ops.len(), blocks.unique_pages),
        (5_292_456, 275_171)
    );
    let name = "cloudphysics/cloudPhysicsIO.csv.xz";
    let Some(requests) = public(name, &TraceOptions::default(), Format::CloudPhysicsCsv) else {
        return;
    };
    assert_eq!(requests.unique_pages, 269_210);
}

#[test]
fn cache2k_counts() {
    for (name, references, unique) in [
        ("orm-busy", 5_000_000, 76_349),
        ("orm-night", 5_000_000, 86_466),
        ("web07", 76_118, 20_484),
        ("web12", 95_607, 13_756),
    ] {
        let name = format!("cache2k/{name}.trace.xz");
        // The high byte of the orm keys is a type: nothing tells them from other records.
        let given = Some(Format::Cache2k);
        let Some((_, trace)) = public_as(&name, &TraceOptions::default(), given) else {
            return;
        };
        assert_eq!(
            (trace.ops.len(), trace.unique_pages),
            (references, unique),
            "{name}"
        );
    }
}

#[test]
fn plain_cache2k_keys_are_recognised() {
    for name in ["web07", "web12"] {
        let name = format!("cache2k/{name}.trace.xz");
        if public(&name, &TraceOptions::default(), Format::Cache2k).is_none() {
            return;
        }
    }
}
