use super::super::SwapFile;
use super::*;
use std::path::Path;

#[test]
fn sizes_in_powers_of_1024_and_1000() {
    for (text, bytes) in [
        ("4096", 4096),
        ("0", 0),
        ("512M", 512 << 20),
        ("2GiB", 2 << 30),
        ("2gib", 2 << 30),
        (" 1.5 GB ", 1_500_000_000),
        ("1.5K", 1536),
        ("8 b", 8),
        ("3TB", 3_000_000_000_000),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
    }
}

#[test]
fn a_wrong_size_names_text_part_and_example() {
    for (text, part) in [
        ("2XiB", "\"XiB\""),
        ("", "\"\""),
        ("GiB", "\"\""),
        ("-1", "\"-1\""),
        ("1.2.3M", "\"1.2.3\""),
        (".5M", "\".5\""),
        ("17179869184T", "17179869184T"),
        ("99999999999999999999", "99999999999999999999"),
        ("\u{664}M", "\u{664}M"),
    ] {
        let e = parse_size(text).unwrap_err().to_string();
        assert!(
            e.contains(&format!("{text:?}")) && e.contains(part) && e.contains("2GiB"),
            "{e}"
        );
    }
}

fn swap(text: &str) -> (u64, Option<(String, u64)>) {
    let s = SwapConfig::parse(text).unwrap();
    let file = match &s.file {
        Some(SwapFile::Path(p)) => Some((p.display().to_string(), s.file_bytes)),
        _ => None,
    };
    (s.compressed, file)
}

#[test]
fn encryption_needs_a_file() {
    let parse = |t| SwapConfig::parse(t).map(|s| s.encrypt);
    assert!(!parse("temp:1G").unwrap());
    assert!(parse("temp:1G+encrypt").unwrap());
    assert!(parse("encrypt+lz4:1G+file:/a+b:1G").unwrap());
    for bad in [
        "lz4:1G+encrypt",
        "encrypt",
        "temp:1G+encrypt:1G",
        "temp:1G+encrypt+encrypt",
    ] {
        let e = parse(bad).unwrap_err().to_string();
        assert!(
            e.contains("\"encrypt") && e.contains("for example"),
            "{bad}: {e}"
        );
    }
}

#[test]
fn times() {
    for (text, ms) in [
        ("5", 5000),
        ("0.5", 500),
        ("250ms", 250),
        ("2s", 2000),
        ("0", 0),
    ] {
        let c = PoolConfig::new(0).set("full_wait", text).unwrap();
        assert_eq!(c.full_wait.as_millis(), ms, "{text}");
    }
}

#[test]
fn swaps() {
    const GIB: u64 = 1 << 30;
    assert_eq!(swap("none"), (0, None));
    assert_eq!(swap("lz4:8GiB"), (8 * GIB, None));
    assert_eq!(swap("file:/a:8G"), (0, Some(("/a".into(), 8 * GIB))));
    let both = (2 * GIB, Some(("/a".into(), 8 * GIB)));
    assert_eq!(swap("lz4:2GiB+file:/a:8GiB"), both);
    assert_eq!(swap(" lz4:2GiB + file:/a:8GiB "), both);
    let codec = |text: &str| SwapConfig::parse(text).unwrap().codec;
    assert_eq!(codec("lz4:8GiB"), Codec::Lz4);
    for text in ["lz4:2GiB+zstd+file:/a:8GiB", "lz4:2GiB+file:/a:8GiB+zstd"] {
        assert_eq!(swap(text), both);
        assert_eq!(codec(text), SwapConfig::lz4(1).and_zstd().codec);
    }
    assert_eq!(swap("zstd:8GiB"), (8 * GIB, None));
    assert_eq!(codec("zstd:8GiB"), Codec::Zstd);
    // Colons, plus signs and spaces in a path.
    let odd = (0, Some(("/a:b+c d/e".into(), GIB)));
    assert_eq!(swap("file:/a:b+c d/e:1GiB"), odd);
    assert_eq!(swap("file:/a:b+c d/e:1GiB+lz4:1G").1, odd.1);
    let Some(SwapFile::Path(p)) = SwapConfig::parse("file:rel:1G").unwrap().file else {
        panic!()
    };
    assert_eq!(p, Path::new("rel"));
    let temporary = SwapConfig::parse("lz4:1G+temp:2G").unwrap();
    assert!(matches!(temporary.file, Some(SwapFile::Temporary)));
    assert_eq!(temporary.capacity(), 2 * GIB);
}

#[test]
fn a_wrong_swap_names_text_part_and_example() {
    for (text, part) in [
        ("", "\"\""),
        ("lz4", "\"lz4\""),
        ("lz4:", "lz4:SIZE"),
        ("lz4:0", "\"0\""),
        ("lz5:8GiB", "\"lz5:8GiB\""),
        ("8GiB", "\"8GiB\""),
        ("lz4:8XB", "\"XB\""),
        ("lz4:1G+lz4:2G", "\"lz4:2G\""),
        ("zstd", "\"zstd\""),
        ("zstd+lz4:1G", "\"zstd\""),
        ("lz4:1G+zstd:1G", "\"zstd\""),
        ("zstd:1G+lz4:1G", "\"lz4\""),
        ("zstd:", "zstd:SIZE"),
        ("lz4:1G+none", "\"none\""),
        ("temp:1G+file:/a:1G", "\"file:/a:1G\""),
        ("temp", "\"temp\""),
        ("lz4:1G+", "\"\""),
        ("file:8GiB", "\"8GiB\""),
        ("file::8GiB", "\":8GiB\""),
        ("file:/a:big", "\"big\""),
    ] {
        let e = SwapConfig::parse(text).unwrap_err().to_string();
        assert!(
            e.contains(&format!("{text:?}"))
                && e.contains(part)
                && e.contains("for example")
                && e.contains("GiB"),
            "{e}"
        );
    }
}

#[test]
fn settings_by_name() {
    let c = PoolConfig::new(0)
        .set("budget", "64M")
        .and_then(|c| c.set("policy", "classic"))
        .and_then(|c| c.set("swap", "lz4:1G"))
        .and_then(|c| c.set("fault_mode", "auto"))
        .and_then(|c| c.set("read_ahead", "8"))
        .and_then(|c| c.set("batch", "128"))
        .and_then(|c| c.set("journal", "/j"))
        .unwrap();
    assert_eq!(
        (c.budget, c.fault, c.read_ahead, c.batch),
        (64 << 20, FaultMode::Auto, 8, 128)
    );
    assert_eq!(c.journal.as_deref(), Some(Path::new("/j")));
    for (name, value, told) in [
        ("bugdet", "1G", "\"bugdet\""),
        ("policy", "v6", "v6"),
        ("switch", "nothing=1", "nothing"),
        ("fault_mode", "thraed", "\"thraed\""),
        ("batch", "many", "\"many\""),
        ("full_wait", "soon", "\"soon\""),
        ("full_wait", "-1", "\"-1\""),
        ("full_wait", "inf", "\"inf\""),
    ] {
        let e = PoolConfig::new(1 << 20).set(name, value).unwrap_err();
        assert!(e.to_string().contains(told), "{e}");
    }
}
