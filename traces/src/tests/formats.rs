//! What a sound file of each format becomes.

use super::*;
use OpKind::{AnonRead, AnonWrite, MappedRead, Pread, Pwrite, WholeWrite};

#[test]
fn arc_blocks_are_gathered_in_pages() {
    let text = b"230027 8 0 0\n\n1842745 64 0 1\r\n16 0 0 2\n";
    let options = TraceOptions {
        blocks_per_page: 8,
        ..keep()
    };
    let trace = sound(text, Format::Arc, &options);
    // Blocks 230027..=230034 lie in two pages, 1842745..=1842808 in nine.
    let pages: Vec<u32> = (28753..=28754).chain(230343..=230351).collect();
    assert_eq!(trace.ops(), ops(Pread, &pages));
    let native = sound(
        b"1 1 0 0\n9 2 0 1\n1 1 0 2",
        Format::Arc,
        &TraceOptions::default(),
    );
    assert_eq!(native.ops(), ops(Pread, &[0, 1, 2, 0]));
}

#[test]
fn lirs_skips_stars_and_empty_lines() {
    let trace = sound(
        b"*\n2819\n\n85\n*\n2819",
        Format::Lirs,
        &TraceOptions::default(),
    );
    assert_eq!(trace.ops(), ops(Pread, &[0, 1, 0]));
    assert_eq!((trace.unique_pages, trace.writes, trace.tasks), (2, 0, 1));
    assert_eq!(
        trace.objects,
        [ObjectInfo {
            pages: 2,
            used: 2,
            is_anon: false
        }]
    );
}

#[test]
fn reads_become_mapped_on_request_and_writes_do_not() {
    let options = TraceOptions {
        access: Access::Mapped,
        ..TraceOptions::default()
    };
    assert_eq!(
        sound(b"5\n", Format::Lirs, &options).into_ops(),
        ops(MappedRead, &[0])
    );
    let csv = sound(b"5,r\n6,w\n", Format::Csv, &options);
    assert_eq!(csv.ops(), [op(MappedRead, 0, 0, 0), op(Pwrite, 0, 0, 1)]);
    let pageops = op(Pread, 0, 0, 3).to_bytes();
    assert_eq!(
        sound(&pageops, Format::PageOps, &options).into_ops(),
        ops(Pread, &[3])
    );
}

#[test]
fn cloudphysics_blocks_are_little_endian() {
    let bytes = [0xca, 0xce, 0x0d, 0, 1, 0, 0, 0];
    assert_eq!(
        sound(&bytes, Format::CloudPhysics, &keep()).into_ops(),
        ops(Pread, &[0x0d_ceca, 1])
    );
}

#[test]
fn cache2k_keys_are_big_endian_and_may_be_negative() {
    let bytes = [0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 2];
    let trace = sound(&bytes, Format::Cache2k, &TraceOptions::default());
    assert_eq!(trace.ops(), ops(Pread, &[0, 1, 0]));
    assert_eq!(
        sound(&bytes[..4], Format::Cache2k, &keep()).into_ops(),
        ops(Pread, &[0x102])
    );
}

#[test]
fn cloudphysics_requests_touch_every_page_they_overlap() {
    let text =
        b"version,time,op,size,lbn\n1,5633898,2a,512,17\n1,5633898,28,8192,15\n1,5633899,28,0,99\n";
    let trace = sound(text, Format::CloudPhysicsCsv, &keep());
    let expected = [(Pwrite, 2), (Pread, 1), (Pread, 2), (Pread, 3)];
    assert_eq!(
        trace.ops(),
        expected.map(|(kind, page)| op(kind, 0, 0, page))
    );
    assert_eq!(trace.writes, 1);
}

#[test]
fn stores_and_loads_by_address_are_anonymous() {
    let text = b"s 0x1fffff50 1\nl 0x1fffe638 0\nl 0x1fffff58 12\n";
    let trace = sound(text, Format::Address, &TraceOptions::default());
    let expected = [(AnonWrite, 0), (AnonWrite, 1), (AnonRead, 0)];
    assert_eq!(
        trace.ops(),
        expected.map(|(kind, page)| op(kind, 0, 0, page))
    );
    assert_eq!(
        trace.objects,
        [ObjectInfo {
            pages: 2,
            used: 2,
            is_anon: true
        }]
    );
}

#[test]
fn lackey_references_may_cross_a_page() {
    let text = b"==1== Lackey\n\nI  0401ab70,3\n S 1fff000758,8\n L 1fff000ffc,8\n M 04022c4b,1\n";
    let trace = sound(text, Format::Lackey, &TraceOptions::default());
    let expected = [
        op(AnonWrite, 0, 0, 0),
        op(AnonRead, 0, 0, 0),
        op(AnonWrite, 0, 0, 1),
        op(AnonWrite, 0, 0, 2),
    ];
    assert_eq!(trace.ops(), expected);
    let with_fetches = TraceOptions {
        instructions: true,
        ..TraceOptions::default()
    };
    let trace = sound(text, Format::Lackey, &with_fetches);
    assert_eq!(trace.ops()[0], op(MappedRead, 1, 0, 0));
    assert_eq!(trace.ops()[1..], expected);
    assert_eq!(
        trace.objects[1],
        ObjectInfo {
            pages: 1,
            used: 1,
            is_anon: false
        }
    );
}

#[test]
fn runs_on_one_page_collapse_and_keep_the_store() {
    let text = b" L 1000,8\n L 1008,8\n S 1010,8\n L 1018,8\n L 2000,8\n L 1000,8\n";
    let options = TraceOptions {
        collapse: true,
        ..TraceOptions::default()
    };
    let trace = sound(text, Format::Lackey, &options);
    assert_eq!(
        trace.ops(),
        [
            op(AnonWrite, 0, 0, 0),
            op(AnonWrite, 0, 0, 1),
            op(AnonRead, 0, 0, 0)
        ]
    );
}

fn oracle(records: &[(u64, u32)]) -> Vec<u8> {
    let record = |(time, &(id, size)): (usize, &(u64, u32))| {
        let mut bytes = Vec::new();
        bytes.extend((time as u32).to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    };
    records.iter().enumerate().flat_map(record).collect()
}

#[test]
fn oracle_general_objects_are_one_page_or_many() {
    let bytes = oracle(&[(u64::MAX - 1, 5000), (7, 1), (u64::MAX - 1, 9000), (7, 0)]);
    let one = sound(&bytes, Format::OracleGeneral, &TraceOptions::default());
    assert_eq!(one.ops(), ops(Pread, &[0, 1, 0, 1]));
    let split = TraceOptions {
        object_pages: ObjectPages::Split,
        ..TraceOptions::default()
    };
    let split = sound(&bytes, Format::OracleGeneral, &split);
    assert_eq!(split.ops(), ops(Pread, &[0, 1, 2, 0, 1, 3, 2]));
}

#[test]
fn csv_columns_by_position() {
    let text = b"# comment\n900\n7,w\n900,m\n 5 , a , 3 , 9 \n5,l,3,9\n6,\"r\"\n1,a\n";
    let trace = sound(text, Format::Csv, &TraceOptions::default());
    let expected = [
        op(Pread, 0, 0, 0),
        op(Pwrite, 0, 0, 1),
        op(MappedRead, 0, 0, 0),
        op(AnonWrite, 3, 9, 0),
        op(AnonRead, 3, 9, 0),
        op(Pread, 0, 0, 2),
        op(AnonWrite, 1, 0, 0),
    ];
    assert_eq!(trace.ops(), expected);
}

/// Anonymous memory of the same number is another one in each process, and the same for its threads.
#[test]
fn memory_is_of_a_process() {
    let text = b"page,op,task\n5,a,0\n5,a,1\n5,l,0\n5,l,1\n6,r,1\n";
    let trace = sound(text, Format::Csv, &TraceOptions::default());
    let objects: Vec<u8> = trace.ops().iter().map(|op| op.object).collect();
    assert_eq!((objects, trace.unique_pages), (vec![1, 255, 1, 255, 0], 3));
    let step = |kind, object, task, value| Step {
        kind,
        object,
        task,
        value,
    };
    let thread = |task, process| step(StepKind::Process, 0, task, process).to_bytes();
    let access = |kind, task| op(kind, 1, task, 5).to_bytes();
    let records = [
        Step::version().to_bytes(),
        thread(7, 3),
        thread(8, 3),
        access(AnonWrite, 7),
        access(AnonWrite, 8),
        access(AnonWrite, 9),
        step(StepKind::Unmap, 1, 9, 0).to_bytes(),
        step(StepKind::Unmap, 1, 8, 0).to_bytes(),
    ];
    for threads in [true, false] {
        let options = TraceOptions {
            threads,
            ..TraceOptions::default()
        };
        let trace = sound(&records.concat(), Format::PageOps, &options);
        let objects: Vec<u8> = trace.ops().iter().map(|op| op.object).collect();
        assert_eq!(objects, [1, 1, 255]);
        let unmaps = trace
            .events
            .iter()
            .filter(|e| e.step.kind == StepKind::Unmap);
        let objects: Vec<u8> = unmaps.map(|e| e.step.object).collect();
        assert_eq!(objects, [255, 1]);
    }
}

#[test]
fn a_csv_header_has_each_column_once() {
    for (header, twice) in [("page,page", "page"), ("op,page,x,x,OP", "op")] {
        let read = read(
            format!("{header}\n1,2,3\n").as_bytes(),
            Format::Csv,
            &keep(),
        );
        let message = read.expect_err("twice").to_string();
        assert!(
            message.contains(&format!("two columns are called `{twice}`")),
            "{message}"
        );
    }
    assert_eq!(
        sound(b"x,page,x\n1,7,2\n", Format::Csv, &keep())
            .ops()
            .len(),
        1
    );
}

#[test]
fn csv_columns_by_header() {
    let text = b"time,Task,page,op\n0.5,3,17,w\n0.6,,18,\n";
    let trace = sound(text, Format::Csv, &keep());
    assert_eq!(trace.ops(), [op(Pwrite, 0, 3, 17), op(Pread, 0, 0, 18)]);
}

/// As spreadsheets save it.
#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = b"\xEF\xBB\xBFpage,op\r\n17,w\r\n18,r\r\n";
    assert_eq!(Format::guess("saved", text), Some(Format::Csv));
    let trace = sound(text, Format::Csv, &keep());
    assert_eq!(trace.ops(), [op(Pwrite, 0, 0, 17), op(Pread, 0, 0, 18)]);
}

/// Lines as the descriptions of the traces show them; what they come to by hand.
#[test]
fn published_layouts() {
    let of = |text: &[u8], format| sound(text, format, &TraceOptions::default()).into_ops();
    // 32 KiB from byte 383,498,240 on, which is 2,048 into a page: nine pages. Another disk has its own.
    let msr = b"128166372003061629,hm,1,Read,383498240,32768,413\n\
        128166372016382155,hm,0,Write,383502336,4096,100\n\
        128166372026382245,hm,1,Write,383502336,8192,100\n";
    let expected: Vec<Op> = (0..9)
        .map(|page| op(Pread, 0, 0, page))
        .chain([op(Pwrite, 0, 0, 9), op(Pwrite, 0, 0, 10)])
        .chain([
            op(Pwrite, 0, 0, 1),
            op(WholeWrite, 0, 0, 2),
            op(Pwrite, 0, 0, 3),
        ])
        .collect();
    assert_eq!(of(msr, Format::Msr), expected);
    let alibaba =
        b"419,W,8792731648,16384,1577808144360767\n725,R,8792731648,4096,1577808144360767\n";
    let expected: Vec<Op> = (0..4)
        .map(|page| op(WholeWrite, 0, 0, page))
        .chain([op(Pread, 0, 0, 4)])
        .collect();
    assert_eq!(of(alibaba, Format::Alibaba), expected);
    // Sectors of 512 bytes: 16 of them are two pages.
    let tencent = b"1538323200,12910952,16,0,1283\n1538323200,12910960,8,1,1283\n";
    let expected = [
        op(Pread, 0, 0, 0),
        op(Pread, 0, 0, 1),
        op(WholeWrite, 0, 0, 1),
    ];
    assert_eq!(of(tencent, Format::Tencent), expected);
    let twitter = b"0,yDqF:3q:1AofbeF2,17,213,4,get,0\n0,q3:1AoFrD,17,27,4,set,600\n\
        1,q3:1AoFrD,17,0,4,delete,0\n2,yDqF:3q:1AofbeF2,17,213,9,gets,0\n";
    let expected = [
        op(Pread, 0, 0, 0),
        op(WholeWrite, 0, 0, 1),
        op(Pread, 0, 0, 0),
    ];
    assert_eq!(of(twitter, Format::Twitter), expected);
    let wikipedia = b"relative_unix\thashed_path_query\timage_type\tresponse_size\ttime_firstbyte\n\
        0\t833946053\tjpeg\t9665\t1.85E-4\n0\t-1679404160\tjpeg\t17635\t2.09E-4\n0\t833946053\tjpeg\t9665\t1E-4\n";
    assert_eq!(of(wikipedia, Format::Wikipedia), ops(Pread, &[0, 1, 0]));
    let split = TraceOptions {
        object_pages: ObjectPages::Split,
        ..TraceOptions::default()
    };
    let pages = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2];
    assert_eq!(
        sound(wikipedia, Format::Wikipedia, &split).into_ops(),
        ops(Pread, &pages)
    );
}

#[test]
fn columns_are_named_by_the_user() {
    let of = |columns: &str, text: &[u8]| {
        let options = TraceOptions {
            columns: columns.split(',').map(str::to_owned).collect(),
            ..TraceOptions::default()
        };
        let source = Source::from_reader("t", std::io::Cursor::new(text.to_vec()), None);
        let reader = Reader::from_source(source.expect("bytes"), None, &options);
        reader
            .and_then(|reader| Trace::read(reader, |_, _| {}))
            .map(Trace::into_ops)
    };
    let expected = [op(Pread, 0, 0, 0), op(Pread, 0, 0, 1), op(Pwrite, 0, 1, 1)];
    for (columns, text) in [
        (
            "time,op,offset,size,task",
            &b"t,op,at,len,pid\n0.1,Read,4000,200,77\n0.2,Write,4096,1,78\n"[..],
        ),
        ("task,-,op,size,offset", b"77;x;r;200;4000\n78;x;w;1;4096\n"),
        (
            "op,offset,size,task",
            b"r  4000   200 77\n# a comment\nw 4096 1 78",
        ),
        ("op,sector,sectors,task", b"0\t0\t16\t5\n1\t9\t1\t6\n"),
    ] {
        assert_eq!(of(columns, text).expect("sound"), expected, "{columns}");
    }
    let of_objects = of("object,page,op", b"a,7,r\nb,7,r\na,7,w\n").expect("sound");
    assert_eq!(
        of_objects,
        [op(Pread, 0, 0, 0), op(Pread, 0, 0, 1), op(Pwrite, 0, 0, 0)]
    );
    for (columns, text, said) in [
        ("time,ofset", &b"1,2\n"[..], "offset"),
        ("time,size", b"1,2\n", "one of page, offset"),
        ("page,size", b"1,2\n", "neither with page"),
        ("page,offset", b"1,2\n", "one of page, offset"),
        ("op,op,page", b"1,2\n", "op twice"),
        ("page,op", b"1,r\n2,x\n", "line 2: found `x`"),
        ("offset,size", b"1,1\n5\n", "line 2: found `5`"),
        ("offset,size", b"1,1\n18446744073709551615,2\n", "line 2"),
    ] {
        let error = of(columns, text).expect_err(columns).to_string();
        assert!(error.contains(said), "{columns}: {error}");
    }
}
