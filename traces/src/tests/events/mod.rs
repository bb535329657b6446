//! What each line of the recorders' formats becomes.

mod blkparse;
mod files;
mod fio;
mod lines;
mod memory;

use super::*;
use proptest::prelude::*;

fn of(text: &str, format: Format, options: &TraceOptions) -> Vec<Op> {
    sound(text.as_bytes(), format, options).into_ops()
}

fn chosen(events: &[&str]) -> TraceOptions {
    TraceOptions {
        events: events.iter().map(|event| event.to_string()).collect(),
        ..TraceOptions::default()
    }
}

/// The same events as perf and as ftrace print them.
fn both(lines: &[(u32, &str)], options: &TraceOptions) -> Vec<Op> {
    let perf: String = lines
        .iter()
        .map(|(pid, rest)| format!("  my prog {pid}/{pid} [001] 45.123456: {rest}\n"))
        .collect();
    let ftrace: String = lines
        .iter()
        .map(|(pid, rest)| format!("  my prog-{pid}   (   {pid}) [001] d..1. 45.123456: {rest}\n"))
        .collect();
    let perf = of(&perf, Format::Perf, options);
    assert_eq!(perf, of(&ftrace, Format::Ftrace, options));
    perf
}

/// Any text of words that the formats know.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("a-1".to_string()),
        Just("a".to_string()),
        Just("7/8".to_string()),
        Just("[001]".to_string()),
        Just("(".to_string()),
        Just("8)".to_string()),
        Just("(9)".to_string()),
        Just("1.5:".to_string()),
        Just("1.5".to_string()),
        Just("7,0".to_string()),
        Just("page-faults:".to_string()),
        Just("page_fault_user:".to_string()),
        Just("mm_filemap_get_pages:".to_string()),
        Just("mm_filemap_add_to_page_cache:".to_string()),
        Just("dev".to_string()),
        Just("8:1".to_string()),
        Just("ino=f".to_string()),
        Just("order=3".to_string()),
        Just("error_code=0x6".to_string()),
        Just("Q".to_string()),
        Just("A".to_string()),
        Just("RW".to_string()),
        Just("+".to_string()),
        Just("<-".to_string()),
        Just("read".to_string()),
        Just("write".to_string()),
        Just("Skips:".to_string()),
        Just("CPU:0 [LOST".to_string()),
        Just("EVENTS]".to_string()),
        Just("PERF_RECORD_LOST lost".to_string()),
        Just("fio version 3 iolog".to_string()),
        Just("\n".to_string()),
        Just("CPU0 (8,0):".to_string()),
        any::<u64>().prop_map(|n| format!("ofs={n}")),
        any::<u64>().prop_map(|n| format!("index={n}")),
        any::<u64>().prop_map(|n| format!("address=0x{n:x}")),
        any::<u64>().prop_map(|n| n.to_string()),
        (0u64..100).prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| format!("ofs={n}-{}", u64::from(n) + 9999)),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the lines, they are references, unused, bad, or the end.
    #[test]
    fn any_words_are_read_or_refused(text in words(), format in 0usize..4, instructions: bool, strict: bool, shift in 9u32..=30) {
        let format = [Format::Perf, Format::Ftrace, Format::Fio, Format::Blkparse][format];
        let options = TraceOptions { instructions, strict, page_shift: shift, ..TraceOptions::default() };
        match read(text.as_bytes(), format, &options) {
            Ok(trace) => prop_assert!(trace.unique_pages > 0),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }
}
