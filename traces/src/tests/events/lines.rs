//! Lines of perf and ftrace as such: names of commands, stacks, messages, and very many of them.

use super::*;
use OpKind::Pread;

#[test]
fn call_chains_comments_and_messages_are_skipped() {
    let text = "\
[ perf record: Woken up 1 times to write data ]
# captured on: today
a 9/9 [000] 1.5: page-faults: 7f001000
\tffffffff817554ea elf_load+0x28a ([kernel.kallsyms])
\t    55aabbcc [unknown] (/bin/a)

";
    assert_eq!(of(text, Format::Perf, &TraceOptions::default()).len(), 1);
    let text = "version = 6\ncpus=2\nCPU 1 is empty\n# tracer: nop\na-9 [000] 1.5: page_fault_user: address=0x1 ip=0x1 error_code=0x4\n";
    assert_eq!(of(text, Format::Ftrace, &TraceOptions::default()).len(), 1);
}

#[test]
fn many_processes_and_files_fit() {
    let mut text = String::new();
    for pid in 0..70_000u32 {
        text += &format!("a {pid}/{pid} [0] 1.5: page-faults: 7000\n");
    }
    for inode in 0..5_000u32 {
        text +=
            &format!("a 1/1 [0] 1.5: mm_filemap_add_to_page_cache: dev 8:1 ino {inode:x} ofs=0\n");
    }
    let trace = sound(text.as_bytes(), Format::Perf, &TraceOptions::default());
    assert_eq!(trace.unique_pages, 75_000);
    assert_eq!((trace.objects.len(), trace.tasks), (256, 65_536));
    assert_eq!(
        trace.objects[0],
        ObjectInfo {
            pages: 5_000,
            used: 5_000,
            is_anon: false
        }
    );
    assert_eq!(
        trace.objects[254],
        ObjectInfo {
            pages: 1,
            used: 1,
            is_anon: true
        }
    );
    assert_eq!(
        trace.objects[255],
        ObjectInfo {
            pages: 70_000 - 254,
            used: 70_000 - 254,
            is_anon: true
        }
    );
}

/// A task may be called anything: recorders print it as it is.
#[test]
fn commands_that_look_like_the_beginning_of_a_line() {
    let event = |page: u64| {
        format!(
            "mm_filemap_get_pages: dev=8:1 ino=a ofs={}-{}",
            page << 12,
            (page << 12) + 4095
        )
    };
    let pages = |line: &dyn Fn(u64) -> String, format| {
        let text: String = (0..3).map(line).collect();
        let source =
            Source::from_reader("t", std::io::Cursor::new(text.clone()), None).expect("memory");
        let guessed = Reader::from_source(source, None, &TraceOptions::default());
        assert_eq!(guessed.expect(&text).format(), format, "{text}");
        of(&text, format, &TraceOptions::default())
    };
    let expected = ops(Pread, &[0, 1, 2]);
    for command in [
        "7/8 [000] 1.2:",
        "7/8 [000] 1.2: ",
        "a b [1] 2.3: x",
        "1 1.2: faults:",
        "x-8 [000] 1.2:",
        "a-1 1.2: e: f",
        "1.2:",
        "a: b",
        "\u{1b}[31m\u{1}",
        "",
    ] {
        let perf = |page| {
            format!(
                "{command:>16} 9/9 [001] 45.123456: filemap:{}\n",
                event(page)
            )
        };
        assert_eq!(pages(&perf, Format::Perf), expected, "{command:?}");
        let ftrace = |page| {
            format!(
                "{command:>16}-9       (      9) [001] d..1. 45.123456: {}\n",
                event(page)
            )
        };
        assert_eq!(pages(&ftrace, Format::Ftrace), expected, "{command:?}");
        let instance = |page| {
            format!(
                "mine: {command:>16}-9     [001] 45.123456: (+13)    {}\n",
                event(page)
            )
        };
        assert_eq!(pages(&instance, Format::Ftrace), expected, "{command:?}");
    }
}

#[test]
fn stacks_of_ftrace_are_skipped() {
    let line = "  prog-9   (      9) [001] ..... 45.123456: ";
    let text = format!(
        "{line}mm_filemap_get_pages: dev=8:1 ino=a ofs=0-4095\n{line}<stack trace>\n => filemap_read\n => vfs_read\n"
    );
    let strict = TraceOptions {
        strict: true,
        ..TraceOptions::default()
    };
    assert_eq!(of(&text, Format::Ftrace, &strict), ops(Pread, &[0]));
}

/// What perf says of losses, and its own messages, where they went into the file.
#[test]
fn warnings_of_perf_are_losses() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    let text =
        format!("{good}Warning:\nProcessed 9 samples and lost 18.83%!\n\nCheck IO/CPU overload!\n");
    let source = Source::from_reader("t", std::io::Cursor::new(text), None).expect("memory");
    let options = TraceOptions {
        strict: true,
        ..TraceOptions::default()
    };
    let reader = Reader::from_source(source, Some(Format::Perf), &options).expect("sound options");
    let tally = reader.tally();
    assert_eq!(
        Trace::read(reader, |_, _| {}).expect("sound").ops().len(),
        1
    );
    assert_eq!(tally.get().lost_uncounted, 1);
}
