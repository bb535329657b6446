//! Traces of all kinds, as `convert` and `replay` read them: recordings, text, and what is wrong with some.

use crate::common::{circle, json_of, lab, message_of, recorded, sample, stdout_of, temporary};
use serde_json::Value;

#[test]
fn convert_and_replay_again() {
    let (text, packed, plain) = (
        temporary("c.lirs"),
        temporary("c.pageops.zst"),
        temporary("c.pageops"),
    );
    std::fs::write(&text, circle(300, 2)).expect("written");
    let [text, packed, plain] = [&text, &packed, &plain].map(|p| p.to_str().expect("UTF-8"));
    let said = stdout_of(&["convert", text, packed], 0);
    assert!(said.contains("600 references to 300 pages"), "{said}");
    stdout_of(&["convert", packed, plain], 0);
    assert_eq!(std::fs::metadata(plain).expect("written").len(), 600 * 8);
    // All bytes but the name of the trace.
    let of = |file: &str| {
        let json = stdout_of(&["replay", file, "--memory", "50%", "--json", "-"], 0);
        let (_, name) = file.rsplit_once('/').expect("a folder");
        json.replace(&format!("\"{name}\""), "\"c\"")
    };
    assert!(of(text).contains("\"trace\": \"c\""));
    assert_eq!(of(text), of(packed));
    assert_eq!(of(text), of(plain));
}

#[test]
fn bad_traces_are_one_line() {
    let write = |name: &str, bytes: &[u8]| {
        let path = temporary(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let words = write("bad.lirs", b"1\n2\nthree\n");
    let said = message_of(&["replay", &words, "--format", "lirs"], 2);
    assert!(said.contains("line 3") && said.contains("three"), "{said}");
    let odd = write("odd.pageops", &[9; 12]);
    assert!(message_of(&["replay", &odd], 2).contains("record 0"));
    let empty = write("empty.lis", b"");
    assert!(message_of(&["replay", &empty], 2).contains("no reference"));
    let noise = write("noise", &[0xff, 0xfe, 0x80, 0x01, 0x99]);
    assert!(message_of(&["replay", &noise], 2).contains("format is not recognised"));
    let whole = std::fs::read(sample()).expect("sample");
    let cut = write("cut.pageops.zst", &whole[..whole.len() / 2]);
    assert!(message_of(&["replay", &cut], 2).contains("cut short"));
    assert!(message_of(&["convert", &cut, "/dev/null"], 2).contains("cut short"));
    assert_eq!(
        lab(&["replay", &words, "--format", "lirs"]).status.code(),
        Some(2)
    );
}

#[test]
fn recorded_samples_are_converted_and_replayed() {
    let out = temporary("sample.pageops");
    let out = out.to_str().expect("UTF-8");
    // data/README.md
    for (name, format, references, pages) in [
        ("session.perf.zst", "perf", 1018, 516),
        ("sort-faults.perf.zst", "perf", 630, 621),
        ("session.ftrace.zst", "ftrace", 2166, 1973),
        ("session.trace-cmd.zst", "ftrace", 2166, 1973),
        ("mix-v2.fio", "fio", 1422, 630),
        ("mix-v3.fio", "fio", 1422, 630),
        ("session.blkparse.zst", "blkparse", 1672, 954),
        ("awk.lackey.zst", "lackey", 165_715, 130),
    ] {
        let sample = recorded(name);
        let said = json_of(&["convert", &sample, out, "--json", "-"], 0);
        assert_eq!(said["references"], references, "{name}");
        assert_eq!(said["pages"], pages, "{name}");
        assert_eq!(said["reading"]["format"], format);
        assert_eq!(said["reading"]["bad_lines"], 0);
        let replay = |trace: &str| {
            let memory = ["--memory", "258pages", "--variants", "v5"];
            json_of(
                &[&["replay", trace, "--json", "-"][..], &memory].concat()[..],
                0,
            )
        };
        let mut json = replay(&sample);
        assert_eq!(json["reading"], said["reading"], "{name}");
        assert_eq!(json["bounds"]["unique_pages"], pages, "{name}");
        assert_eq!(json["trace"], name);
        json.as_object_mut().expect("object").remove("reading");
        json["trace"] = "sample.pageops".into();
        assert_eq!(json, replay(out), "{name}: as converted");
    }
}

#[test]
fn bad_lines_and_lost_events_are_reported() {
    let good = "sort 7/7 [000] 1.5: page-faults: 7f0000001000\n";
    let text = format!(
        "{good}page-faults, it said\n{good}sort 7 [000] 1.6: PERF_RECORD_LOST lost 9\n{good}"
    );
    let (bad, out) = (temporary("bad.perf"), temporary("bad.pageops"));
    std::fs::write(&bad, &text).expect("written");
    let [bad, out] = [&bad, &out].map(|p| p.to_str().expect("UTF-8"));
    let run = lab(&["convert", bad, out]);
    assert_eq!(run.status.code(), Some(0));
    let said = String::from_utf8(run.stderr).expect("UTF-8");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(
        lines[0].contains("line 2: found `page-faults, it said`"),
        "{said}"
    );
    assert!(
        lines[1].contains("1 of 5 lines are bad and left out, read as perf"),
        "{said}"
    );
    assert!(lines[2].contains("lost 9 events"), "{said}");
    let run = lab(&["replay", bad, "--memory", "128pages", "--json", "-"]);
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let reading = &json["reading"];
    assert_eq!(
        (&reading["bad_lines"], &reading["lost_events"]),
        (&1.into(), &9.into())
    );
    assert_eq!(reading["first_bad_lines"][0]["line"], 2);
    let strict = message_of(&["replay", bad, "--strict"], 2);
    assert!(strict.contains("bad.perf, line 2: "), "{strict}");
    // More bad than good: it is something else.
    std::fs::write(bad, format!("{good}one\ntwo\n")).expect("written");
    let refused = message_of(&["convert", bad, out], 2);
    assert!(
        refused.contains("2 of 3 lines are bad, read as perf (guessed)"),
        "{refused}"
    );
    assert!(refused.contains("--format: pageops"), "{refused}");
}

/// What a file is called is what is in it, or there is none.
#[test]
fn convert_writes_what_the_name_says() {
    let (from, to) = (temporary("named.txt"), temporary("named.oracleGeneral.zst"));
    std::fs::write(&from, "0.5 r 4000 200\n0.6 w 4096 8192\n0.7 r 0 1\n").expect("written");
    let line = format!(
        "convert {} {} --columns time,op,offset,size",
        from.display(),
        to.display()
    );
    let said = stdout_of(line.as_str(), 0);
    assert!(said.contains("5 references to 3 pages"), "{said}");
    assert!(
        said.contains("\noracleGeneral has no writes: all references are reads in it, "),
        "{said}"
    );
    assert!(!said.contains("has no tasks"), "{said}");
    let several = temporary("several.csv");
    std::fs::write(&several, "page,task\n1,0\n2,1\n").expect("written");
    let tasks = stdout_of(
        &["convert", several.to_str().unwrap(), to.to_str().unwrap()],
        0,
    );
    assert!(
        tasks.contains("\noracleGeneral has no tasks: those of 2 are one in it"),
        "{tasks}"
    );
    stdout_of(line.as_str(), 0);
    let line = format!(
        "mrc {} --policies lru --sizes 2pages --count absences --json -",
        to.display()
    );
    // 0 1 1 2 0 in two frames: only the second reference to page 1 hits.
    let json = json_of(line.as_str(), 0).to_string();
    assert!(json.contains("\"misses\":4"), "{json}");
    let wrong = temporary("named.lis");
    let line = format!(
        "convert {} {} --columns time,op,offset,size",
        from.display(),
        wrong.display()
    );
    let said = message_of(line.as_str(), 2);
    assert!(
        said.contains("not lis") && said.contains("named.pageops"),
        "{said}"
    );
    assert!(!wrong.exists());
}
