//! The public traces of `docs/reference/formats.md`: counts of references, pages and stores.
//! They are not part of the project; name their folder in `COLDSET_TRACES`.

use super::*;

/// A public trace, read with default options if it is recognised as one of `format`; nothing (and a message)
/// where the traces are not at hand.
fn public(name: &str, format: Format) -> Option<Trace> {
    let (found, trace) = public_as(name, &TraceOptions::default(), None)?;
    assert_eq!(found, format, "{name}");
    Some(trace)
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

fn check(name: &str, trace: &Trace, references: usize, unique: u64) {
    let counts = (trace.ops().len(), trace.unique_pages);
    assert_eq!(counts, (references, unique), "{name}");
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
        let Some((format, trace)) = public_as(&format!("arc/{name}.lis.zst"), &options, None)
        else {
            return;
        };
        assert_eq!(
            (format, trace.unique_pages),
            (Format::Arc, unique),
            "{name}"
        );
    }
    for (name, references) in [("OLTP", 914_145), ("P3", 3_912_296), ("P6", 12_672_123)] {
        let Some(trace) = public(&format!("arc/{name}.lis.zst"), Format::Arc) else {
            return;
        };
        assert_eq!(trace.ops().len(), references, "{name}: one page a block");
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
        let Some(trace) = public(&format!("lirs/{name}.trace.gz"), Format::Lirs) else {
            return;
        };
        check(name, &trace, references, unique);
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
        let Some(trace) = public(&name, Format::Address) else {
            return;
        };
        check(&name, &trace, references, unique);
        let count = trace.ops().len() as u64;
        assert_eq!((trace.writes * 100 + count / 2) / count, stores, "{name}");
    }
}

#[test]
fn cloudphysics_counts() {
    let blocks = public("cloudphysics/w106.trace.xz", Format::CloudPhysics);
    let requests = public(
        "cloudphysics/cloudPhysicsIO.csv.xz",
        Format::CloudPhysicsCsv,
    );
    let (Some(blocks), Some(requests)) = (blocks, requests) else {
        return;
    };
    check("w106", &blocks, 5_292_456, 275_171);
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
        check(&name, &trace, references, unique);
    }
}

#[test]
fn plain_cache2k_keys_are_recognised() {
    for name in ["web07", "web12"] {
        let name = format!("cache2k/{name}.trace.xz");
        if public(&name, Format::Cache2k).is_none() {
            return;
        }
    }
}
